"""Procedures that describe an object to a person: sp_help, sp_helpindex, sp_helpconstraint, ...

https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sp-help-transact-sql
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from tailrace_emulator import messages
from tailrace_emulator.catalog.database_objects import DatabaseObject
from tailrace_emulator.catalog.like import matches
from tailrace_emulator.catalog.names import split_name
from tailrace_emulator.catalog.object_views import datetime_of
from tailrace_emulator.catalog.objects import find_object, objects
from tailrace_emulator.catalog.procedure_registry import (
    Arguments,
    ProcedureParameter,
    procedure,
    result_set,
    text,
)
from tailrace_emulator.catalog.registry import Row
from tailrace_emulator.catalog.relations import Relation, relation_by_id, row_count, table_by_id
from tailrace_emulator.catalog.type_facts import type_facts
from tailrace_emulator.storage.model import Column, Index, Table
from tailrace_emulator.values.results import Event, Message
from tailrace_emulator.values.types import DEFAULT_COLLATION, SYSNAME, nvarchar, varchar

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext

_P = ProcedureParameter
_NAME: Final = nvarchar(776)

_KINDS: Final = {
    "S": "system table",
    "U": "user table",
    "V": "view",
    "P": "stored procedure",
    "FN": "scalar function",
    "IF": "inline function",
    "TF": "table function",
    "TR": "trigger",
    "PK": "primary key cns",
    "UQ": "unique cns",
    "F": "foreign key cns",
    "C": "check cns",
    "D": "default (maybe cns)",
    "SN": "synonym",
    "SO": "sequence object",
}
_EXACT: Final = frozenset(
    {"tinyint", "smallint", "int", "bigint", "decimal", "numeric", "money", "smallmoney"}
)


def _described(context: SessionContext, name: str, caller: str) -> DatabaseObject:
    """The object that a name means.

    Raises:
        SqlError: 15250 for another database, 15009 when there is none.
    """
    parts = split_name(name)
    database = context.database
    if parts is not None:
        if parts.database.casefold() == "tempdb" and parts.name.startswith("#"):
            database = context.engine.database("tempdb")
        elif parts.database and parts.database.casefold() != database.name.casefold():
            raise messages.error(15250, procedure=caller)
        found = find_object(context, database, parts.schema or "dbo", parts.name)
        if found is not None:
            return found
    raise messages.error(15009, name, context.database.name, procedure=caller)


@procedure("sp_help", _P("@objname", _NAME, None))
def _help(context: SessionContext, args: Arguments) -> Iterator[Event]:
    name = text(args["@objname"])
    if name is None:
        yield from result_set(
            "Name sysname, Owner sysname, Object_type nvarchar(31)",
            sorted(
                (item.name, item.schema, _KINDS.get(item.type, item.type))
                for item in objects(context, context.database)
            ),
        )
        yield from result_set(
            """User_type sysname, Storage_type sysname, Length smallint, Prec int, Scale int,
 Nullable varchar(35), Default_name sysname, Rule_name sysname, Collation sysname""",
            (),
        )
        return
    item = _described(context, name, "sp_help")
    yield from result_set(
        "Name sysname!, Owner sysname, Type nvarchar(31), Created_datetime datetime!",
        [
            (
                item.name,
                item.schema,
                _KINDS.get(item.type, item.type),
                datetime_of(_created(context, item)),
            )
        ],
    )
    relation = relation_by_id(context, context.database, item.object_id)
    if relation is None:
        return
    yield from _columns(relation)
    yield from _identity(relation)
    yield from result_set("RowGuidCol sysname", [("No rowguidcol column defined.",)])
    table = table_by_id(context, context.database, item.object_id)
    if table is None:
        return
    yield from result_set("Data_located_on_filegroup sysname", [("PRIMARY",)])
    yield from _indexes(table)
    yield from _constraints(context, table)
    yield from _references(context, table)


def _created(context: SessionContext, item: DatabaseObject) -> int:
    found = (o for o in objects(context, context.database) if o.object_id == item.object_id)
    return next((o.create_ticks for o in found), 0)


def _columns(relation: Relation) -> Iterator[Event]:
    """The columns, as sp_help shows them."""
    yield from result_set(
        """Column_name sysname!, Type sysname, Computed varchar(35), Length int, Prec char(5),
 Scale char(5), Nullable varchar(35), TrimTrailingBlanks varchar(35),
 FixedLenNullInSource varchar(35), Collation sysname""",
        (_column_row(column) for column in relation.columns),
    )


def _column_row(column: Column) -> Row:
    facts = type_facts(column.type)
    name = column.type.name
    exact = name in _EXACT
    timed = name in {"time", "datetime2", "datetimeoffset"}
    text_type = column.type.is_character and name != "xml"
    padded = text_type or name in {"binary", "varbinary"}
    return (
        column.name,
        name,
        "yes" if column.computed is not None else "no",
        facts.max_length,
        f"{facts.precision:<5}" if exact or timed or name in {"float", "real"} else "     ",
        f"{facts.scale:<5}" if exact or timed else "     ",
        "yes" if column.nullable else "no",
        "no" if padded else "(n/a)",
        ("yes" if column.nullable else "no") if padded else "(n/a)",
        (column.type.collation or DEFAULT_COLLATION) if text_type else None,
    )


def _identity(relation: Relation) -> Iterator[Event]:
    """The identity column."""
    column = next((c for c in relation.columns if c.identity is not None), None)
    row: Row = ("No identity column defined.", None, None, None)
    if column is not None and column.identity is not None:
        row = (column.name, column.identity.seed, column.identity.increment, 0)
    yield from result_set(
        "Identity sysname, Seed bigint, Increment bigint, NotForReplication int", [row]
    )


@procedure("sp_helpindex", _P("@objname", _NAME))
def _helpindex(context: SessionContext, args: Arguments) -> Iterator[Event]:
    item = _described(context, str(args["@objname"]), "sp_helpindex")
    table = table_by_id(context, context.database, item.object_id)
    if table is not None:
        yield from _indexes(table)


def _indexes(table: Table) -> Iterator[Event]:
    """The indexes, or the message that there are none."""
    if not table.indexes:
        yield Message(15472, messages.text(15472, table.name), severity=0)
        return
    yield from result_set(
        "index_name sysname, index_description varchar(210), index_keys nvarchar(2078)",
        (
            (index.name, _index_text(index), _key_text(table, index))
            for index in sorted(table.indexes, key=lambda i: i.name.casefold())
        ),
    )


def _index_text(index: Index) -> str:
    words = ["clustered" if index.clustered else "nonclustered"]
    if index.unique:
        words.append("unique")
    if index.primary_key:
        words.append("primary key")
    elif index.unique_constraint:
        words.append("unique key")
    return f"{', '.join(words)} located on PRIMARY"


def _key_text(table: Table, index: Index) -> str:
    names = {column.column_id: column.name for column in table.columns}
    pairs = zip(index.column_ids, index.descending, strict=True)
    return ", ".join(f"{names[i]}(-)" if down else names[i] for i, down in pairs)


@procedure("sp_helpconstraint", _P("@objname", _NAME), _P("@nomsg", varchar(5), "msg"))
def _helpconstraint(context: SessionContext, args: Arguments) -> Iterator[Event]:
    item = _described(context, str(args["@objname"]), "sp_helpconstraint")
    table = table_by_id(context, context.database, item.object_id)
    if (text(args["@nomsg"]) or "").casefold() != "nomsg":
        yield from result_set("Object_Name nvarchar(776)", [(str(args["@objname"]),)])
    if table is not None:
        yield from _constraints(context, table)
        yield from _references(context, table)


def _constraints(context: SessionContext, table: Table) -> Iterator[Event]:
    """The constraints of a table, or the message that there are none."""
    rows = list(_constraint_rows(context, table))
    if not rows:
        shown = f"{table.schema}.{table.name}"
        yield Message(15469, messages.text(15469, shown), severity=0)
        return
    yield from result_set(
        """constraint_type nvarchar(146), constraint_name sysname, delete_action nvarchar(11),
 update_action nvarchar(11), status_enabled varchar(8), status_for_replication varchar(19),
 constraint_keys nvarchar(2126)""",
        rows,
    )


def _constraint_rows(context: SessionContext, table: Table) -> Iterator[Row]:
    names = {column.column_id: column.name for column in table.columns}
    none = ("(n/a)", "(n/a)", "(n/a)", "(n/a)")
    enabled = ("Enabled", "Is_For_Replication")
    for check in table.checks:
        yield ("CHECK Table Level ", check.name, *none[:2], *enabled, check.expression)
    for column in table.columns:
        if column.default_name is not None:
            kind = f"DEFAULT on column {column.name}"
            yield (kind, column.default_name, *none, column.default)
    for key in table.foreign_keys:
        actions = (
            key.on_delete.replace("_", " ").capitalize(),
            key.on_update.replace("_", " ").capitalize(),
        )
        keys = ", ".join(names[i] for i in key.column_ids)
        yield ("FOREIGN KEY", key.name, *actions, *enabled, keys)
        parent = context.database.table_by_id(key.referenced)
        if parent is not None:
            parent_names = {column.column_id: column.name for column in parent.columns}
            shown = ", ".join(parent_names[i] for i in key.referenced_column_ids)
            target = f"{context.database.name}.{parent.schema}.{parent.name}"
            yield (*(" ",) * 6, f"REFERENCES {target} ({shown})")
    for index in table.indexes:
        if index.primary_key or index.unique_constraint:
            kind = "PRIMARY KEY" if index.primary_key else "UNIQUE"
            kind += " (clustered)" if index.clustered else " (non-clustered)"
            yield (kind, index.name, *none, _key_text(table, index))


def _references(context: SessionContext, table: Table) -> Iterator[Event]:
    """The foreign keys that reference a table, or the message that there are none."""
    database = context.database
    rows = [
        (f"{database.name}.{other.schema}.{other.name}: {key.name}",)
        for other in database.tables()
        for key in other.foreign_keys
        if key.referenced == table.object_id
    ]
    if rows:
        yield from result_set("TableIsReferencedByForeignKey nvarchar(516)", rows)
        return
    shown = f"{table.schema}.{table.name}"
    yield Message(15470, messages.text(15470, shown), severity=0)


@procedure("sp_spaceused", _P("@objname", _NAME, None), _P("@updateusage", varchar(5), None))
def _spaceused(context: SessionContext, args: Arguments) -> Iterator[Event]:
    """Rows are counted; sizes are nominal, as the embedded server has no pages."""
    name = text(args["@objname"])
    if name is None:
        yield from result_set(
            "database_name nvarchar(128), database_size varchar(18), unallocated_space varchar(18)",
            [(context.database.name, "16.00 MB", "0.00 MB")],
        )
        yield from result_set(
            "reserved varchar(18), data varchar(18), index_size varchar(18), unused varchar(18)",
            [("8192 KB", "8192 KB", "0 KB", "0 KB")],
        )
        return
    item = _described(context, name, "sp_spaceused")
    table = table_by_id(context, context.database, item.object_id)
    if table is None:
        raise messages.error(15234, procedure="sp_spaceused")
    count = row_count(context, table)
    size = f"{(count + 7) // 8 * 8} KB"
    yield from result_set(
        """name nvarchar(128), rows char(20), reserved varchar(18), data varchar(18),
 index_size varchar(18), unused varchar(18)""",
        [(table.name, f"{count:<20}", size, size, "0 KB", "0 KB")],
    )


@procedure(
    "sp_stored_procedures",
    _P("@sp_name", nvarchar(390), None),
    _P("@sp_owner", nvarchar(384), None),
    _P("@sp_qualifier", SYSNAME, None),
    _P("@fUsePattern", varchar(1), "1"),
)
def _stored_procedures(context: SessionContext, args: Arguments) -> Iterator[Event]:
    name, owner = text(args["@sp_name"]) or "%", text(args["@sp_owner"]) or "%"
    database = context.database
    rows = sorted(
        (
            *(database.name, module.schema, f"{module.name};{int(module.type == 'P')}"),
            *(-1, -1, -1, None, 2 if module.type == "P" else 1),
        )
        for module in database.modules.values()
        if module.type in {"P", "FN", "IF", "TF"}
        and matches(module.name, name)
        and matches(module.schema, owner)
    )
    yield from result_set(
        """PROCEDURE_QUALIFIER sysname, PROCEDURE_OWNER sysname, PROCEDURE_NAME nvarchar(134)!,
 NUM_INPUT_PARAMS int!, NUM_OUTPUT_PARAMS int!, NUM_RESULT_SETS int!, REMARKS varchar(254),
 PROCEDURE_TYPE smallint!""",
        rows,
    )
