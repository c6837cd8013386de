"""General system procedures: configuration, renaming, databases, who.

https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/system-stored-procedures-transact-sql
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from tailrace_emulator import messages
from tailrace_emulator.catalog.configuration import (
    OPTIONS,
    configure,
    configured_value,
    find_option,
    running_value,
)
from tailrace_emulator.catalog.module_texts import object_text
from tailrace_emulator.catalog.names import split_name
from tailrace_emulator.catalog.objects import table_constraints
from tailrace_emulator.catalog.procedure_registry import (
    Arguments,
    ProcedureParameter,
    procedure,
    result_set,
    text,
)
from tailrace_emulator.catalog.session_registry import visible_sessions
from tailrace_emulator.catalog.visibility import visible_object
from tailrace_emulator.messages.errors import Aborts, SqlError, not_supported
from tailrace_emulator.security.access import of_object
from tailrace_emulator.storage import alter, ddl
from tailrace_emulator.values.results import Event, Message
from tailrace_emulator.values.types import SYSNAME, SqlType, StorageValue, nvarchar, varchar

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.storage.model import Table

_P = ProcedureParameter
_NAME: Final = nvarchar(1035)


@procedure(
    "sp_configure",
    _P("@configname", varchar(35), None),
    _P("@configvalue", nvarchar(20), None),
)
def _configure(context: SessionContext, args: Arguments) -> Iterator[Event]:
    name, value = text(args["@configname"]), args["@configvalue"]
    engine = context.engine
    if name is not None and value is not None:
        option, old = configure(engine, name, _whole(value))
        new = configured_value(engine, option)
        yield Message(15457, messages.text(15457, option.name, old, new))
        return
    chosen = OPTIONS if name is None else (find_option(name),)
    yield from result_set(
        """name nvarchar(35)!, minimum int, maximum int, config_value int, run_value int""",
        (
            (
                *(option.name, option.minimum, option.maximum),
                *(configured_value(engine, option), running_value(engine, option)),
            )
            for option in sorted(chosen, key=lambda o: o.name.casefold())
        ),
    )


def _whole(value: StorageValue) -> int:
    try:
        return int(str(value).strip())
    except ValueError:
        raise messages.error(
            8114, "nvarchar", "int", procedure="sp_configure", state=1, aborts=Aborts.STATEMENT
        ) from None


@procedure(
    "sp_rename",
    _P("@objname", _NAME),
    _P("@newname", SYSNAME),
    _P("@objtype", varchar(13), None),
)
def _rename(context: SessionContext, args: Arguments) -> Iterator[Event]:
    name, new_name = text(args["@objname"]) or "", text(args["@newname"]) or ""
    _look_up(context, name)
    kind = (text(args["@objtype"]) or _kind_of(context, name)).strip().upper()
    shown = name.replace("'", "''")
    command = f"EXEC sp_rename '{shown}', '{new_name}'"
    if kind == "COLUMN":
        _rename_column(context, name, new_name, f"{command}, 'COLUMN'")
    elif kind == "OBJECT":
        parts = split_name(name)
        table = (
            context.database.table(parts.schema or "dbo", parts.name) if parts is not None else None
        )
        if table is None:
            _rename_constraint(context, name, new_name, command)
        elif not _may_alter(context, table):
            raise _ambiguous(context, name, kind)
        else:
            context.engine.extension.altering(table)
            _refuse_bound(context, name, (table.object_id, 0))
            alter.rename_table(context.store, context.database, table, new_name, command=command)
    elif kind == "INDEX":
        parts = split_name(name)
        table = (
            context.database.table(parts.database or "dbo", parts.schema)
            if parts is not None and parts.schema
            else None
        )
        if parts is None or table is None or not _may_alter(context, table):
            raise _ambiguous(context, name, "INDEX")
        if not _rename_part(context, table, parts.name, new_name, f"{command}, 'INDEX'"):
            raise _ambiguous(context, name, "INDEX")
    else:
        raise not_supported(f"sp_rename of a {kind}")
    yield Message(15477, messages.text(15477), severity=10)


def _look_up(context: SessionContext, name: str) -> None:
    """Waits for open DDL on what a name may mean: an object, or a part of a table."""
    parts = split_name(name)
    if parts is None:
        return
    look_up = context.store.lookups.look_up
    look_up(context.database, parts.schema or "dbo", parts.name)
    if parts.schema:
        look_up(context.database, parts.database or "dbo", parts.schema)


def _kind_of(context: SessionContext, name: str) -> str:
    """What a name without @objtype means: an object, else a column, else an index.

    Raises:
        SqlError: 15248 where it is a column and an index.
    """
    parts = split_name(name)
    if parts is None or not parts.schema or visible_object(context, name) is not None:
        return "OBJECT"
    table = context.database.table(parts.database or "dbo", parts.schema)
    if table is None:
        return "OBJECT"
    folded = parts.name.casefold()
    is_index = any(index.name.casefold() == folded for index in table.indexes)
    if table.column(parts.name) is None:
        return "INDEX" if is_index else "OBJECT"
    if is_index:
        raise messages.error(15248, "(null)", procedure="sp_rename")
    return "COLUMN"


def _rename_part(context: SessionContext, table: Table, old: str, new: str, command: str) -> bool:
    """Renames an index or constraint of a table; False when there is none of that name."""
    if table.is_tracked:
        raise not_supported("sp_rename of an index or constraint of a tracked table")
    context.engine.extension.altering(table)
    renamed = alter.rename_part(context.store, context.database, table, old, new, command=command)
    return renamed is not None


def _rename_constraint(context: SessionContext, name: str, new_name: str, command: str) -> None:
    """A constraint by its own name, or a view, procedure, function or trigger."""
    parts = split_name(name)
    schema = (parts.schema if parts is not None else "") or "dbo"
    database = context.database
    module = database.module(schema, parts.name) if parts is not None else None
    if module is not None:
        if not context.security.has(of_object(database, module), "ALTER"):
            raise _ambiguous(context, name, "OBJECT")
        _refuse_bound(context, name, (module.object_id, 0))
        ddl.rename_module(context.store, database, module, new_name)
        return
    for table in context.database.tables():
        if parts is None or table.schema.casefold() != schema.casefold():
            continue
        folded = parts.name.casefold()
        named = any(item.name.casefold() == folded for item in table_constraints(table))
        if named and _may_alter(context, table):
            _rename_part(context, table, parts.name, new_name, command)
            return
    raise _ambiguous(context, name, "OBJECT")


def _may_alter(context: SessionContext, table: Table) -> bool:
    return context.security.has(of_object(context.database, table), "ALTER")


def _rename_column(context: SessionContext, name: str, new_name: str, command: str) -> None:
    parts = split_name(name)
    table = (
        context.database.table(parts.database or "dbo", parts.schema)
        if parts is not None and parts.schema
        else None
    )
    column = table.column(parts.name) if table is not None and parts is not None else None
    if table is None or column is None or not _may_alter(context, table):
        raise _ambiguous(context, name, "COLUMN")
    context.engine.extension.altering(table)
    _refuse_bound(context, name, (table.object_id, column.column_id))
    context.engine.extension.renaming_column(
        context.store.connection, context.database, table, column.column_id
    )
    alter.rename_column(
        context.store, context.database, table, column.column_id, new_name, command=command
    )


def _refuse_bound(context: SessionContext, name: str, reference: tuple[int, int]) -> None:
    """Nothing that a schema-bound object refers to gets another name."""
    if any(reference in bound for bound in context.database.state.bindings.values()):
        raise messages.error(15336, name, procedure="sp_rename")


def _ambiguous(context: SessionContext, name: str, kind: str) -> SqlError:
    if kind == "OBJECT":
        return messages.error(15225, name, context.database.name, "(null)", procedure="sp_rename")
    return messages.error(15248, kind, procedure="sp_rename")


@procedure("sp_databases")
def _databases(context: SessionContext, _args: Arguments) -> Iterator[Event]:
    yield from result_set(
        "DATABASE_NAME sysname, DATABASE_SIZE int, REMARKS varchar(254)",
        ((d.name, 8192, None) for d in context.engine.databases.values()),
    )


@procedure("sp_helpdb", _P("@dbname", SYSNAME, None))
def _helpdb(context: SessionContext, args: Arguments) -> Iterator[Event]:
    wanted = text(args["@dbname"])
    databases = context.engine.databases.values()
    chosen = [d for d in databases if wanted is None or d.name.casefold() == wanted.casefold()]
    if not chosen:
        raise messages.error(15010, wanted, procedure="sp_helpdb")
    yield from result_set(
        """name sysname, db_size nvarchar(13), owner sysname, dbid smallint, created nvarchar(11),
 status nvarchar(600), compatibility_level tinyint""",
        (
            (d.name, "      8.00 MB", "sa", d.database_id, None, "Status=ONLINE", 160)
            for d in chosen
        ),
    )


@procedure("sp_who", _P("@loginame", SYSNAME, None))
def _who(context: SessionContext, args: Arguments) -> Iterator[Event]:
    """The sessions that one sees: all, of a login, of an id, or those that are ``active``."""
    wanted = (text(args["@loginame"]) or "").strip().casefold()
    blocked = context.engine.locks.blocked()
    rows = []
    for session in visible_sessions(context):
        number, name = session.session_id, session.security.login_name
        is_active = session is context or session.is_running
        if wanted in {"", str(number), name.casefold()} or (wanted == "active" and is_active):
            status, command = ("runnable", "SELECT") if is_active else ("sleeping", _IDLE)
            rows.append(
                (
                    *(number, 0, status.ljust(30), name.ljust(128), session.host.ljust(128)),
                    *(str(blocked.get(number, 0)).ljust(5), session.database.name.ljust(128)),
                    *(command.ljust(26), 0),
                )
            )
    yield from result_set(
        """spid smallint!, ecid smallint!, status nchar(30), loginame nchar(128),
 hostname nchar(128), blk char(5), dbname nchar(128), cmd nchar(26), request_id int""",
        rows,
    )


_IDLE: Final = "AWAITING COMMAND"


@procedure("sp_server_info", _P("@attribute_id", SqlType("int"), None))
def _server_info(_context: SessionContext, args: Arguments) -> Iterator[Event]:
    rows = (
        (1, "DBMS_NAME", "Microsoft SQL Server"),
        (2, "DBMS_VER", "Tailrace embedded SQL Server - 16.0.4135.4"),
        (10, "OWNER_TERM", "owner"),
        (11, "TABLE_TERM", "table"),
        (12, "MAX_OWNER_NAME_LENGTH", "128"),
        (16, "IDENTIFIER_CASE", "MIXED"),
        (18, "COLLATION_SEQ", "charset=iso_1 sort_order=nocase_iso charset_num=1"),
        (500, "SYS_SPROC_VERSION", "16.00.4135"),
    )
    wanted = args["@attribute_id"]
    yield from result_set(
        "attribute_id int!, attribute_name varchar(60)!, attribute_value varchar(255)",
        (row for row in rows if wanted in {None, row[0]}),
    )


@procedure("sp_helptext", _P("@objname", _NAME), _P("@columnname", SYSNAME, None))
def _helptext(context: SessionContext, args: Arguments) -> Iterator[Event]:
    name = str(args["@objname"])
    found = visible_object(context, name)
    if found is None:
        raise messages.error(15009, name, context.database.name, procedure="sp_helptext")
    shown = object_text(context, context.database, found.object_id)
    if shown is None:
        raise messages.error(15197, name, procedure="sp_helptext")
    yield from result_set(
        "Text nvarchar(255)", ((line,) for line in shown.splitlines(keepends=True))
    )
