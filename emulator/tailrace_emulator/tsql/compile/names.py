"""Which object a dotted name means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tailrace_emulator import messages
from tailrace_emulator.catalog.names import GLOBAL_PREFIX, is_local_temporary, name_in_tempdb
from tailrace_emulator.tsql.syntax.nodes import Name

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.storage.engine import Database
    from tailrace_emulator.storage.model import Table

DEFAULT_SCHEMA = "dbo"


@dataclass(frozen=True, slots=True)
class ObjectName:
    """A name taken apart: where to look."""

    database: Database
    schema: str
    name: str


def resolve_name(context: SessionContext, name: Name, line: int) -> ObjectName:
    """Database, schema and name of ``[[database.]schema.]name``, once no open DDL is about it.

    Raises:
        SqlError: 208 when the database does not exist, 117 for more than three parts; 1222, 1205
            and 3617 while it waits for another transaction's DDL. StatementRestart: it did, and
            the statement's view of the data is older.
    """
    if len(name) > 3:
        raise messages.error(117, "object", messages.dotted(name), 2, line=line)
    if name[-1].startswith(GLOBAL_PREFIX):
        return global_table(context, name[-1])
    database = context.database
    if len(name) == 3 and name[0]:
        found = context.engine.databases.get(name[0].casefold())
        if found is None:
            raise messages.invalid_object(name, line)
        database = found
    look_up = context.store.lookups.look_up
    if len(name) > 1 and name[-2]:
        look_up(database, name[-2], name[-1])
        return ObjectName(database, name[-2], name[-1])
    own = default_schema(context, database)
    if own != DEFAULT_SCHEMA:
        look_up(database, own, name[-1])
        if database.table(own, name[-1]) or database.module(own, name[-1]):
            return ObjectName(database, own, name[-1])
    look_up(database, DEFAULT_SCHEMA, name[-1])
    return ObjectName(database, DEFAULT_SCHEMA, name[-1])


def module_name(context: SessionContext, name: Name, line: int) -> ObjectName:
    """As :func:`resolve_name`, of a procedure: a #procedure is the session's own, in tempdb.

    Raises:
        SqlError: the same as :func:`resolve_name`.
    """
    if is_local_temporary(name[-1]):
        tempdb = context.engine.databases["tempdb"]
        return ObjectName(tempdb, DEFAULT_SCHEMA, name_in_tempdb(name[-1], context.session_id))
    return resolve_name(context, name, line)


def global_table(context: SessionContext, name: str) -> ObjectName:
    """Where a ##table is, whatever database and schema are written before it."""
    tempdb = context.engine.databases["tempdb"]
    table = tempdb.table(DEFAULT_SCHEMA, name)
    if table is not None and table.object_id in context.engine.abandoned_tables:
        return ObjectName(tempdb, DEFAULT_SCHEMA, "")  # its session has ended
    return ObjectName(tempdb, DEFAULT_SCHEMA, name)


def default_schema(context: SessionContext, database: Database) -> str:
    """The schema of names without one: the user's default schema, mostly dbo."""
    if context.security.is_sysadmin:
        return DEFAULT_SCHEMA
    token = context.security.user_or_none(database)
    return (token.principal.default_schema if token is not None else "") or DEFAULT_SCHEMA


def creation_name(context: SessionContext, name: Name, line: int) -> ObjectName:
    """Where CREATE makes what is named: in the user's default schema when no schema is written.

    Raises:
        SqlError: the same as :func:`resolve_name`.
    """
    where = resolve_name(context, name, line)
    if name[-1].startswith(GLOBAL_PREFIX):
        return ObjectName(where.database, DEFAULT_SCHEMA, name[-1])
    if len(name) > 1 and name[-2]:
        return where
    return ObjectName(where.database, default_schema(context, where.database), where.name)


def base_object(context: SessionContext, name: Name, line: int) -> ObjectName:
    """As :func:`resolve_name`, but of a synonym what it stands for.

    Raises:
        SqlError: as resolve_name; 5313 when a synonym stands for something that does not exist.
    """
    where = resolve_name(context, name, line)
    synonym = where.database.synonym(where.schema, where.name)
    if synonym is None:
        return where
    inside = context if where.database is context.database else None
    base = synonym.base
    if inside is None and len(base) < 3:
        base = (where.database.name, *("",) * (2 - len(base)), *base)
    found = resolve_name(context, base, line)
    if found.database.synonym(found.schema, found.name) is not None or not _exists(found):
        raise messages.error(5313, messages.dotted(name), line=line)
    return found


def _exists(where: ObjectName) -> bool:
    """Whether a name means a table, a module or something of the system."""
    return (
        where.database.table(where.schema, where.name) is not None
        or where.database.module(where.schema, where.name) is not None
        or where.schema.casefold() in {"sys", "information_schema"}
        or where.schema.casefold() in where.database.engine.extension_schemas
    )


def stored_table(context: SessionContext, name: Name, line: int) -> tuple[Database, Table]:
    """The stored table of that name.

    Raises:
        SqlError: 208 when there is none.
    """
    where = resolve_name(context, name, line)
    table = where.database.table(where.schema, where.name)
    if table is None:
        raise messages.invalid_object(name, line)
    return where.database, table
