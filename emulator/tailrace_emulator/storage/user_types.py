"""User-defined types: other names for system types, and table types.

They have a namespace of their own next to the objects', and ids from 257 on in sys.types.

https://learn.microsoft.com/sql/t-sql/statements/create-type-transact-sql
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Final

from tailrace_emulator import messages
from tailrace_emulator.storage.catalog_store import (
    USER_TYPE,
    delete_entry,
    put_entry,
)
from tailrace_emulator.storage.ddl_scope import DdlTarget, ddl_scope
from tailrace_emulator.storage.model import UserType

if TYPE_CHECKING:
    from tailrace_emulator.storage.database import Database

FIRST_USER_TYPE_ID: Final = 257


def create_user_type(target: DdlTarget, database: Database, made: UserType) -> UserType:
    """Create a type; its ids are given out here.

    Raises:
        SqlError: 219 name taken, 2760 unknown schema.
    """
    with ddl_scope(target, database) as connection:
        schema = database.schema_name(made.schema)
        if schema is None:
            raise messages.error(2760, made.schema)
        if database.user_type(schema, made.name) is not None:
            raise messages.error(219, f"{schema}.{made.name}")
        taken = [known.user_type_id for known in database.state.user_types.values()]
        made = replace(
            made,
            user_type_id=max([FIRST_USER_TYPE_ID - 1, *taken]) + 1,
            schema=schema,
            object_id=database.allocate_object_id(connection) if made.is_table else 0,
        )
        text = json.dumps(asdict(made))
        put_entry(connection, database.database_id, USER_TYPE, str(made.user_type_id), text)
        database.engine.write_path.will_change_catalog()
        database.state.user_types[schema.casefold(), made.name.casefold()] = made
        database.version += 1
        return made


def drop_user_type(target: DdlTarget, database: Database, found: UserType) -> None:
    """Drop a type."""
    with ddl_scope(target, database) as connection:
        delete_entry(connection, database.database_id, USER_TYPE, str(found.user_type_id))
        database.engine.write_path.will_change_catalog()
        del database.state.user_types[found.schema.casefold(), found.name.casefold()]
        database.version += 1
