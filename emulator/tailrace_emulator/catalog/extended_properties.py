"""Extended properties: the procedures that write them, the view and the function that list them.

https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sp-addextendedproperty-transact-sql
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from tailrace_emulator import messages
from tailrace_emulator.catalog.database_objects import DatabaseObject
from tailrace_emulator.catalog.objects import find_object, object_by_id, schema_id
from tailrace_emulator.catalog.procedure_registry import (
    Arguments,
    ProcedureParameter,
    procedure,
    text,
)
from tailrace_emulator.catalog.registry import Columns, Row, parse_columns, view
from tailrace_emulator.catalog.relations import relation_by_id
from tailrace_emulator.messages.errors import SqlError, not_supported
from tailrace_emulator.storage.catalog_state import ExtendedProperty
from tailrace_emulator.storage.object_details import drop_property, put_property
from tailrace_emulator.values.results import ColumnMeta, Event
from tailrace_emulator.values.types import SYSNAME, SqlType, StorageValue, nvarchar, varchar

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.storage.engine import Database

_CLASSES: Final = {
    0: "DATABASE",
    1: "OBJECT_OR_COLUMN",
    3: "SCHEMA",
    4: "DATABASE_PRINCIPAL",
    7: "INDEX",
}
_LEVEL1: Final = {
    "TABLE": ("U",),
    "VIEW": ("V",),
    "PROCEDURE": ("P",),
    "FUNCTION": ("FN", "IF", "TF"),
    "SYNONYM": ("SN",),
    "SEQUENCE": ("SO",),
}
_CONSTRAINTS: Final = ("PK", "UQ", "F", "C", "D")

_VALUE: Final = nvarchar(3750)
_TYPE: Final = varchar(128)
_P = ProcedureParameter
_LEVELS: Final = tuple(
    _P(f"@level{level}{part}", _TYPE if part == "type" else SYSNAME, None)
    for level in (0, 1, 2)
    for part in ("type", "name")
)


@dataclass(frozen=True, slots=True)
class Place:
    """What a property belongs to."""

    class_id: int
    major_id: int
    minor_id: int
    shown: str


def _not_found(shown: str) -> SqlError:
    """15135."""
    return messages.error(15135, shown, procedure="sp_addextendedproperty")


def _place(context: SessionContext, args: Arguments) -> Place:
    """The object that the six level arguments name.

    Raises:
        SqlError: 15600 for an unknown level type, 15135 when there is no such object.
    """
    kinds = [(text(args[f"@level{n}type"]) or "").strip().upper() for n in (0, 1, 2)]
    names = [text(args[f"@level{n}name"]) or "" for n in (0, 1, 2)]
    database = context.database
    if not kinds[0]:
        return Place(0, 0, 0, "object specified")
    shown = ".".join(name for name in names if name)
    if kinds[0] == "USER" and not kinds[1]:
        folded = names[0].casefold()
        found = next((p for p in database.principals.values() if p.name.casefold() == folded), None)
        if found is None:
            raise _not_found(shown)
        return Place(4, found.principal_id, 0, shown)
    if kinds[0] not in {"SCHEMA", "USER"}:
        raise not_supported(f"extended properties at level0type {kinds[0]}")
    number = schema_id(database, names[0])
    if not number:
        raise _not_found(shown)
    if not kinds[1]:
        return Place(3, number, 0, shown)
    if kinds[1] not in _LEVEL1:
        raise not_supported(f"extended properties at level1type {kinds[1]}")
    item = find_object(context, database, names[0], names[1])
    if item is None or item.type not in _LEVEL1[kinds[1]]:
        raise _not_found(shown)
    if not kinds[2]:
        return Place(1, item.object_id, 0, shown)
    return _level2(context, item, kinds[2], names[2], shown)


def _level2(
    context: SessionContext, item: DatabaseObject, kind: str, name: str, shown: str
) -> Place:
    """A column, index, constraint or trigger of an object."""
    folded = name.casefold()
    if kind == "COLUMN":
        relation = relation_by_id(context, context.database, item.object_id)
        columns = relation.columns if relation is not None else ()
        column = next((c for c in columns if c.name.casefold() == folded), None)
        if column is None:
            raise _not_found(shown)
        return Place(1, item.object_id, column.column_id, shown)
    if kind == "INDEX":
        table = context.database.table_by_id(item.object_id)
        indexes = table.indexes if table is not None else ()
        index = next((i for i in indexes if i.name.casefold() == folded), None)
        if index is None:
            raise _not_found(shown)
        return Place(7, item.object_id, index.index_id, shown)
    if kind in {"CONSTRAINT", "TRIGGER"}:
        found = find_object(context, context.database, item.schema, name)
        wanted = _CONSTRAINTS if kind == "CONSTRAINT" else ("TR",)
        if found is None or found.type not in wanted:
            raise _not_found(shown)
        return Place(1, found.object_id, 0, shown)
    raise not_supported(f"extended properties at level2type {kind}")


def _known(context: SessionContext, args: Arguments, place: Place) -> ExtendedProperty | None:
    name = text(args["@name"]) or ""
    key = (place.class_id, place.major_id, place.minor_id, name.casefold())
    return context.database.state.properties.get(key)


@procedure("sp_addextendedproperty", _P("@name", SYSNAME), _P("@value", _VALUE, None), *_LEVELS)
def _add(context: SessionContext, args: Arguments) -> Iterator[Event]:
    place = _place(context, args)
    name = text(args["@name"]) or ""
    if _known(context, args, place) is not None:
        raise messages.error(15233, name, place.shown, procedure="sp_addextendedproperty")
    found = ExtendedProperty(
        place.class_id, place.major_id, place.minor_id, name, text(args["@value"])
    )
    put_property(context.store, context.database, found)
    yield from ()


def _existing(context: SessionContext, args: Arguments, procedure_name: str) -> ExtendedProperty:
    place = _place(context, args)
    found = _known(context, args, place)
    if found is None:
        raise messages.error(15217, text(args["@name"]), place.shown, procedure=procedure_name)
    return found


@procedure("sp_updateextendedproperty", _P("@name", SYSNAME), _P("@value", _VALUE, None), *_LEVELS)
def _update(context: SessionContext, args: Arguments) -> Iterator[Event]:
    found = _existing(context, args, "sp_updateextendedproperty")
    changed = replace(found, value=text(args["@value"]))
    put_property(context.store, context.database, changed)
    yield from ()


@procedure("sp_dropextendedproperty", _P("@name", SYSNAME), *_LEVELS)
def _drop(context: SessionContext, args: Arguments) -> Iterator[Event]:
    found = _existing(context, args, "sp_dropextendedproperty")
    drop_property(context.store, context.database, found)
    yield from ()


_EXTENDED_PROPERTIES: Final = Columns(
    """class tinyint!, class_desc nvarchar(60), major_id int!, minor_id int!, name sysname!,
 value nvarchar(3750)"""
)


@view("sys.extended_properties", _EXTENDED_PROPERTIES)
def _extended_properties(_context: SessionContext, database: Database) -> Iterator[Row]:
    for found in database.state.properties.values():
        yield _EXTENDED_PROPERTIES.row(
            class_=found.class_id,
            class_desc=_CLASSES[found.class_id],
            major_id=found.major_id,
            minor_id=found.minor_id,
            name=found.name,
            value=found.value,
        )


LIST_PARAMETERS: Final[tuple[SqlType, ...]] = (
    SYSNAME, _TYPE, SYSNAME, _TYPE, SYSNAME, _TYPE, SYSNAME,
)  # fmt: skip
LIST_COLUMNS: Final[tuple[ColumnMeta, ...]] = parse_columns(
    "objtype sysname, objname sysname, name sysname!, value nvarchar(3750)"
)


def listed_properties(
    context: SessionContext, arguments: tuple[StorageValue, ...]
) -> Iterable[Row]:
    """The rows of fn_listextendedproperty: at the deepest level that is given, NULL is any."""
    wanted, kind0, name0, kind1, name1, kind2, name2 = (
        None if a is None else str(a).casefold() for a in arguments
    )
    for found in context.database.state.properties.values():
        if wanted is not None and found.name.casefold() != wanted:
            continue
        place = _described(context, found)
        if place is None or len(place) != 1 + bool(kind0) + bool(kind1) + bool(kind2):
            continue
        pairs = ((kind0, name0), (kind1, name1), (kind2, name2))
        fits = all(
            (kind is None or kind == own_kind.casefold())
            and (name is None or name == own_name.casefold())
            for (kind, name), (own_kind, own_name) in zip(pairs, place[1:], strict=False)
        )
        if fits:
            objtype, objname = place[-1]
            yield objtype or None, objname or None, found.name, found.value


def _described(context: SessionContext, found: ExtendedProperty) -> list[tuple[str, str]] | None:
    """The levels of what a property belongs to, as (type, name), the database first."""
    database = context.database
    levels = [("", "")]
    if found.class_id == 0:
        return levels
    if found.class_id == 4:
        principals = database.principals.values()
        name = next((p.name for p in principals if p.principal_id == found.major_id), "")
        return [*levels, ("USER", name)]
    if found.class_id == 3:
        name = next((n for n, i in database.schemas.items() if i == found.major_id), "")
        return [*levels, ("SCHEMA", name)]
    item = object_by_id(context, database, found.major_id)
    if item is None:
        return None
    levels.append(("SCHEMA", item.schema))
    if item.type in _CONSTRAINTS:
        parent = object_by_id(context, database, item.parent_object_id)
        return [*levels, ("TABLE", parent.name if parent else ""), ("CONSTRAINT", item.name)]
    kind = next((k for k, types in _LEVEL1.items() if item.type in types), "")
    levels.append((kind, item.name))
    if found.class_id == 7:
        table = database.table_by_id(found.major_id)
        indexes = table.indexes if table is not None else ()
        name = next((i.name for i in indexes if i.index_id == found.minor_id), "")
        return [*levels, ("INDEX", name)]
    if found.minor_id:
        relation = relation_by_id(context, database, found.major_id)
        columns = relation.columns if relation is not None else ()
        name = next((c.name for c in columns if c.column_id == found.minor_id), "")
        levels.append(("COLUMN", name))
    return levels
