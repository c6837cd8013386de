"""Everything that has columns: tables, the session's temporary tables, views, system views.

System views have no stored id; theirs is negative, computed from their name, as SQL Server's are
negative.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

from tailrace_emulator.catalog.extensions import extension
from tailrace_emulator.catalog.names import name_in_tempdb
from tailrace_emulator.catalog.registry import SYSTEM_VIEWS, SystemView, SystemViews
from tailrace_emulator.storage.model import Column
from tailrace_emulator.values.fetching import fetch

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.storage.engine import Database
    from tailrace_emulator.storage.model import Table


@dataclass(frozen=True, slots=True)
class Relation:
    """A table or view with its columns."""

    object_id: int
    schema: str
    name: str
    columns: tuple[Column, ...]
    is_view: bool = False


def tables(context: SessionContext, database: Database) -> list[Table]:
    """The tables of a database; in tempdb also the session's temporary ones."""
    found = database.tables()
    if database.name.casefold() != "tempdb":
        return found
    return found + [_as_in_tempdb(local.table, database) for local in context.temporary.values()]


def _as_in_tempdb(table: Table, tempdb: Database) -> Table:
    """A temporary table under the name that tempdb shows."""
    name = name_in_tempdb(table.name, -table.object_id)
    return replace(table, name=name, create_ticks=tempdb.create_ticks)


def temporary_table(context: SessionContext, name: str) -> Table | None:
    """The session's temporary table of that name (#t), or None."""
    local = context.temporary.get(name.casefold())
    return None if local is None else local.table


def table_by_id(context: SessionContext, database: Database, object_id: int) -> Table | None:
    """The table of that id, or None."""
    found = database.table_by_id(object_id)
    if found is not None or object_id >= 0:
        return found
    locals_ = tables(context, database) if database.name.casefold() == "tempdb" else ()
    return next((t for t in locals_ if t.object_id == object_id), None)


def relations(context: SessionContext, database: Database) -> Iterator[Relation]:
    """Tables and views of a database (not the system's), with their columns."""
    for table in tables(context, database):
        yield Relation(table.object_id, table.schema, table.name, table.columns)
    for module in database.modules.values():
        columns = database.state.columns.get(module.object_id)
        if columns is not None:
            is_view = module.type == "V"
            yield Relation(module.object_id, module.schema, module.name, columns, is_view)


def row_count(context: SessionContext, table: Table) -> int:
    """The committed rows of a table; 0 of a temporary one."""
    if table.object_id < 0:
        return 0
    found = fetch(context.store.connection, f'SELECT count(*) FROM main."{table.sqlite_name}"')
    count: int = found[0][0]
    return count


def relation_by_id(context: SessionContext, database: Database, object_id: int) -> Relation | None:
    """The table, view or system view of that id, or None."""
    table = table_by_id(context, database, object_id)
    if table is not None:
        return Relation(table.object_id, table.schema, table.name, table.columns)
    columns = database.state.columns.get(object_id)
    if columns is not None:
        module = next(m for m in database.modules.values() if m.object_id == object_id)
        is_view = module.type == "V"
        return Relation(object_id, module.schema, module.name, columns, is_view)
    return system_relations(context).get(object_id)


def system_view_id(view: SystemView) -> int:
    """The negative id of a system view."""
    return -(zlib.crc32(f"{view.schema}.{view.name}".casefold().encode()) & 0x3FFF_FFFF) - 1


def system_relations(context: SessionContext) -> Mapping[int, Relation]:
    """The views of sys and INFORMATION_SCHEMA by id."""
    return _with(extension(context.engine).declared.views)


@cache
def _with(added: SystemViews) -> dict[int, Relation]:
    """The system's own views and those of an extension."""
    return _relations_of(SYSTEM_VIEWS) | _relations_of(added)


def _relations_of(views: SystemViews) -> dict[int, Relation]:
    found = {}
    for view in views.by_name.values():
        if ":" in view.schema:
            continue
        columns = tuple(
            Column(number, meta.name, meta.type, meta.nullable)
            for number, meta in enumerate(view.columns, 1)
        )
        number = system_view_id(view)
        found[number] = Relation(number, view.schema, view.name, columns, True)
    return found
