"""CREATE and ALTER DATABASE, CREATE SCHEMA."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace_emulator import messages
from tailrace_emulator.messages import cannot_find
from tailrace_emulator.security.tokens import SA_ID, find_principal
from tailrace_emulator.storage import ddl as store_ddl
from tailrace_emulator.storage.filegroups import add_file, add_filegroup
from tailrace_emulator.storage.principal_model import DBO_ID
from tailrace_emulator.storage.principals import set_owner
from tailrace_emulator.tsql.definition.database_options import set_database_option
from tailrace_emulator.tsql.syntax.definition_statements import (
    MODIFY_NAME,
    AlterDatabase,
    CreateDatabase,
    CreateSchema,
)
from tailrace_emulator.values.collations import collation
from tailrace_emulator.values.types import DEFAULT_COLLATION

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.storage.engine import Database


def create_database(context: SessionContext, node: CreateDatabase) -> None:
    """CREATE DATABASE.

    Raises:
        SqlError: 226 in a transaction, 453 for a collation of Unicode only, 1801 name taken.
    """
    if context.store.trancount:
        raise messages.error(226, "CREATE DATABASE")
    name = node.collation or DEFAULT_COLLATION
    found = collation(name)
    if not found.page:
        raise messages.error(453, name)
    database = context.engine.create_database(node.name, found.name)
    if node.filegroups:
        with context.engine.write() as connection:
            for group, files in node.filegroups:
                add_filegroup(connection, database, group)
                for file in files:
                    add_file(connection, database, group, file)
    login = context.security.login
    if login is not None and login.principal_id != SA_ID:
        set_owner(context.store, database, "database", login.principal_id)


def alter_database(context: SessionContext, node: AlterDatabase) -> None:
    """ALTER DATABASE .. SET and MODIFY NAME.

    Raises:
        SqlError: 5011 no such database; of an option, as :func:`set_database_option`.
    """
    engine = context.engine
    name = node.name or context.database.name
    database = engine.databases.get(name.casefold())
    if database is None:
        raise messages.cannot_alter_database(name)
    for option, value in node.settings:
        if option == MODIFY_NAME:
            _rename_database(context, database, value)
            continue
        with engine.write() as connection:
            set_database_option(database, option, value, connection)


def _rename_database(context: SessionContext, database: Database, new_name: str) -> None:
    """ALTER DATABASE .. MODIFY NAME.

    Raises:
        SqlError: 226 in a transaction, 1801 name taken, 5016 of a system database.
    """
    if context.store.trancount:
        raise messages.error(226, "ALTER DATABASE")
    context.engine.rename_database(database.name, new_name)


def create_schema(context: SessionContext, node: CreateSchema) -> None:
    """CREATE SCHEMA .. AUTHORIZATION.

    Raises:
        SqlError: 15151 no such owner, 2714 name taken.
    """
    database, store = context.database, context.store
    owner = None
    if node.owner is not None:
        owner = find_principal(database, node.owner)
        if owner is None:
            raise cannot_find("principal", node.owner)
    schema_id = store_ddl.create_schema(store, database, node.name)
    creator = context.security.user(database).principal
    number = (owner or creator).principal_id
    if number != DBO_ID:
        set_owner(store, database, f"schema:{schema_id}", number)
