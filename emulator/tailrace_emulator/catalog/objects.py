"""The schema-scoped objects of a database: what sys.objects lists and OBJECT_ID() finds.

Constraints and objects of an extension have no stored id. It is computed from what they belong to,
so it stays the same as long as they do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from tailrace_emulator.catalog.base_tables import base_tables
from tailrace_emulator.catalog.database_objects import DatabaseObject, GeneratedObject, derived_id
from tailrace_emulator.catalog.extensions import extension
from tailrace_emulator.catalog.names import is_local_temporary, name_in_tempdb
from tailrace_emulator.catalog.registry import VIEWS
from tailrace_emulator.catalog.relations import (
    system_relations,
    system_view_id,
    table_by_id,
    tables,
    temporary_table,
)
from tailrace_emulator.catalog.system_routines import (
    MSDB,
    PROCEDURE_PREFIX,
    ROUTINES,
    SystemRoutine,
)

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.storage.engine import Database
    from tailrace_emulator.storage.model import Table

TYPE_DESCRIPTIONS: Final = {
    "S": "SYSTEM_TABLE",
    "U": "USER_TABLE",
    "PK": "PRIMARY_KEY_CONSTRAINT",
    "UQ": "UNIQUE_CONSTRAINT",
    "F": "FOREIGN_KEY_CONSTRAINT",
    "D": "DEFAULT_CONSTRAINT",
    "C": "CHECK_CONSTRAINT",
    "P": "SQL_STORED_PROCEDURE",
    "X": "EXTENDED_STORED_PROCEDURE",
    "V": "VIEW",
    "FN": "SQL_SCALAR_FUNCTION",
    "IF": "SQL_INLINE_TABLE_VALUED_FUNCTION",
    "TF": "SQL_TABLE_VALUED_FUNCTION",
    "TR": "SQL_TRIGGER",
    "SO": "SEQUENCE_OBJECT",
    "SN": "SYNONYM",
}

SYSTEM_SCHEMAS: Final = frozenset({"sys", "information_schema"})


def objects(context: SessionContext, database: Database) -> Iterator[DatabaseObject]:
    """Every object of the database, the session's temporary tables among tempdb's."""
    yield from _stored_objects(context, database)
    yield from _generated(context, database)


def _stored_objects(context: SessionContext, database: Database) -> Iterator[DatabaseObject]:
    """Those that the catalog in memory knows."""
    for base in base_tables():
        yield DatabaseObject(base.object_id, "sys", base.name, "S", is_ms_shipped=True)
    for table in tables(context, database):
        yield DatabaseObject(
            table.object_id,
            table.schema,
            table.name,
            "U",
            0,
            table.create_ticks,
            table.modify_ticks,
            table.is_ms_shipped,
        )
        yield from table_constraints(table)
    for module in database.modules.values():
        yield DatabaseObject(
            module.object_id,
            module.schema,
            module.name,
            module.type,
            module.parent_id,
            module.create_ticks,
            module.modify_ticks or module.create_ticks,
        )
    for synonym in database.state.synonyms.values():
        ticks = synonym.create_ticks
        yield DatabaseObject(synonym.object_id, synonym.schema, synonym.name, "SN", 0, ticks, ticks)
    if database.name.casefold() == MSDB:
        yield from map(_of_routine, extension(context.engine).declared.routines.of_msdb)
    for sequence in database.state.sequences.values():
        yield DatabaseObject(
            sequence.object_id,
            sequence.schema,
            sequence.name,
            "SO",
            0,
            sequence.create_ticks,
            sequence.modify_ticks,
        )


@dataclass(frozen=True, slots=True)
class ObjectIndex:
    """The stored objects of one version of a database, by id and by casefolded name."""

    version: int
    by_id: dict[int, DatabaseObject]
    by_name: dict[tuple[str, str], DatabaseObject]


_INDEXES: Final[WeakKeyDictionary[Database, ObjectIndex]] = WeakKeyDictionary()


def _index(context: SessionContext, database: Database) -> ObjectIndex:
    """The index of a database as it is now: catalog functions run once for each row of a query."""
    known = _INDEXES.get(database)
    is_tempdb = database.name.casefold() == "tempdb"
    if known is not None and known.version == database.version and not is_tempdb:
        return known
    made = ObjectIndex(database.version, {}, {})
    for item in _stored_objects(context, database):
        made.by_id.setdefault(item.object_id, item)
        made.by_name.setdefault((item.schema.casefold(), item.name.casefold()), item)
    if not is_tempdb:
        _INDEXES[database] = made
    return made


def _of_routine(routine: SystemRoutine) -> DatabaseObject:
    return DatabaseObject(
        routine.object_id, routine.schema, routine.name, routine.type, is_ms_shipped=True
    )


def system_objects(context: SessionContext) -> Iterator[DatabaseObject]:
    """The views of sys and INFORMATION_SCHEMA, the procedures and functions of sys."""
    for relation in system_relations(context).values():
        yield DatabaseObject(
            relation.object_id, relation.schema, relation.name, "V", is_ms_shipped=True
        )
    for routines in (ROUTINES, extension(context.engine).declared.routines):
        yield from map(_of_routine, routines.by_name.values())


def table_constraints(table: Table) -> Iterator[DatabaseObject]:
    """The constraints of a table, as objects."""
    named: list[tuple[str, str]] = []
    for index in table.indexes:
        if index.primary_key:
            named.append((index.name, "PK"))
        elif index.unique_constraint:
            named.append((index.name, "UQ"))
    named += [(key.name, "F") for key in table.foreign_keys]
    named += [(check.name, "C") for check in table.checks]
    named += [(c.default_name, "D") for c in table.columns if c.default_name is not None]
    for name, kind in named:
        yield DatabaseObject(
            derived_id(table.object_id, name),
            table.schema,
            name,
            kind,
            table.object_id,
            table.create_ticks,
            table.modify_ticks,
            table.is_ms_shipped,
        )


def generated_objects(context: SessionContext, database: Database) -> Iterable[GeneratedObject]:
    """What the extension has created in a database in addition to tables."""
    return extension(context.engine).objects(context, database)


def _generated(context: SessionContext, database: Database) -> Iterator[DatabaseObject]:
    for made in generated_objects(context, database):
        yield made.item


def find_object(
    context: SessionContext, database: Database, schema: str, name: str
) -> DatabaseObject | None:
    """The object of that name, case-insensitively, or None."""
    table = database.table(schema, name)
    if is_local_temporary(name):
        table = temporary_table(context, name)
        name = name_in_tempdb(name, context.session_id)  # a procedure's
    if table is not None:
        return DatabaseObject(table.object_id, table.schema, table.name, "U")
    wanted = (schema.casefold(), name.casefold())
    if wanted[0] in SYSTEM_SCHEMAS:
        added = extension(context.engine).declared
        view = VIEWS.get(wanted) or added.views.by_name.get(wanted)
        if view is not None:
            number = system_view_id(view)
            return DatabaseObject(number, view.schema, view.name, "V", is_ms_shipped=True)
        found = ROUTINES.by_name.get(wanted[1]) or added.routines.by_name.get(wanted[1])
        routine = found if wanted[0] == "sys" else None
        if routine is not None:
            return _of_routine(routine)
    known = _index(context, database).by_name.get(wanted)
    if known is not None or wanted[0] not in context.engine.extension.schemas:
        return known
    generated = _generated(context, database)
    return next((found for found in generated if found.name.casefold() == wanted[1]), None)


def find_unqualified(
    context: SessionContext, database: Database, name: str
) -> DatabaseObject | None:
    """The object that a name without a schema means: the database's own, else a system procedure.

    Procedures of schema sys whose names begin with sp_ are found without it.
    """
    found = find_object(context, database, "dbo", name)
    if found is None and name.casefold().startswith(PROCEDURE_PREFIX):
        return find_object(context, database, "sys", name)
    return found


def object_by_id(
    context: SessionContext, database: Database, object_id: int
) -> DatabaseObject | None:
    """The object of that id, or None."""
    table = table_by_id(context, database, object_id)
    if table is not None:
        return DatabaseObject(table.object_id, table.schema, table.name, "U")
    relation = system_relations(context).get(object_id)
    if relation is not None:
        return DatabaseObject(object_id, relation.schema, relation.name, "V", is_ms_shipped=True)
    routine = ROUTINES.by_id.get(object_id)
    routine = routine or extension(context.engine).declared.routines.by_id.get(object_id)
    if routine is not None:
        return _of_routine(routine)
    known = _index(context, database).by_id.get(object_id)
    if known is not None:
        return known
    generated = _generated(context, database)
    return next((found for found in generated if found.object_id == object_id), None)


def schema_id(database: Database, name: str) -> int:
    """The id of a schema, case-insensitively; 0 when unknown."""
    folded = name.casefold()
    return next((i for known, i in database.schemas.items() if known.casefold() == folded), 0)
