"""Metadata visibility: a session sees what it owns or has any permission on.

https://learn.microsoft.com/sql/relational-databases/security/metadata-visibility-configuration
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tailrace_emulator.catalog.base_tables import BASE_TABLE_ID_MAX
from tailrace_emulator.catalog.database_objects import DatabaseObject
from tailrace_emulator.catalog.names import database_of, split_name
from tailrace_emulator.catalog.objects import find_object, find_unqualified, objects
from tailrace_emulator.security.access import Securable, of_object
from tailrace_emulator.security.permissions import OBJECT
from tailrace_emulator.security.view_permissions import authorize_view

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.catalog.registry import Row, SystemView
    from tailrace_emulator.storage.catalog_state import Module
    from tailrace_emulator.storage.engine import Database
    from tailrace_emulator.storage.model import Table
    from tailrace_emulator.values.types import StorageValue

_ID_COLUMNS: Final = ("object_id", "parent_object_id", "id")
"""The column by which a view of schema sys names the object of a row."""

_NAME_COLUMNS: Final = (
    ("TABLE_SCHEMA", "TABLE_NAME"),
    ("ROUTINE_SCHEMA", "ROUTINE_NAME"),
    ("CONSTRAINT_SCHEMA", "CONSTRAINT_NAME"),
)

_DATABASE_VIEWS: Final = frozenset({"databases", "database_recovery_status"})
_SEEN_BY_ALL: Final = frozenset({1, 2})
"""Ids of master and tempdb."""

_FILTERED_SCHEMAS: Final = frozenset({"sys", "information_schema"})


def securable_of(database: Database, item: DatabaseObject) -> Securable:
    """An object of the catalog as a securable."""
    return Securable(database, OBJECT, item.object_id, 0, item.schema, item.name)


def is_visible(context: SessionContext, database: Database, item: DatabaseObject) -> bool:
    """Whether the session may know of an object; a constraint is as visible as its table."""
    number = item.parent_object_id or item.object_id
    if number <= BASE_TABLE_ID_MAX:
        return True  # of the system, or the session's own temporary table
    return context.security.sees(Securable(database, OBJECT, number, 0, item.schema, item.name))


def visible_object(context: SessionContext, name: StorageValue) -> DatabaseObject | None:
    """The object that a name means, as OBJECT_ID takes it, if the session may know of it."""
    parts = split_name(name.strip()) if isinstance(name, str) else None
    if parts is None:
        return None
    database = database_of(context.engine, context.database, parts.database)
    if database is None:
        return None
    if parts.schema:
        found = find_object(context, database, parts.schema, parts.name)
    else:
        found = find_unqualified(context, database, parts.name)
    return found if found is not None and is_visible(context, database, found) else None


def definition(context: SessionContext, database: Database, module: Module) -> str | None:
    """The text of a module; None without VIEW DEFINITION on it."""
    may_view = context.security.has(of_object(database, module), "VIEW DEFINITION")
    return module.text if may_view else None


def sees(context: SessionContext, database: Database, item: Table | Module) -> bool:
    """Whether the session may know of a table or module."""
    return context.security.sees(of_object(database, item))


def visible_rows(context: SessionContext, database: Database, view: SystemView) -> list[Row]:
    """The rows of a system view that the session may see.

    Raises:
        SqlError: 262 or 300 for a dynamic management view that it may not read; 916.
    """
    authorize_view(context.security, database, view.schema, view.name, view.permission)
    kept = view.rows(context, database)
    if context.security.is_sysadmin or view.schema.casefold() not in _FILTERED_SCHEMAS:
        return kept
    if view.name in _DATABASE_VIEWS:
        ids = next(n for n, column in enumerate(view.columns) if column.name == "database_id")
        return [row for row in kept if _sees_database(context, _integer(row[ids]))]
    token = context.security.user_or_none(database)
    if token is None or token.is_dbo:
        return kept if token is not None else []
    names = [column.name for column in view.columns]
    place = next((names.index(name) for name in _ID_COLUMNS if name in names), None)
    known = list(objects(context, database))
    if place is not None:
        by_id = {item.object_id: is_visible(context, database, item) for item in known}
        return [row for row in kept if by_id.get(_integer(row[place]), True)]
    for pair in _NAME_COLUMNS:
        if pair[0] in names and pair[1] in names:
            first, second = names.index(pair[0]), names.index(pair[1])
            by_name = {
                (item.schema, item.name): is_visible(context, database, item) for item in known
            }
            return [row for row in kept if by_name.get((str(row[first]), str(row[second])), True)]
    return kept


def _sees_database(context: SessionContext, database_id: int) -> bool:
    """VIEW ANY DATABASE, which public has, shows all; without it one's own, master and tempdb."""
    if context.security.has_on_server("VIEW ANY DATABASE"):
        return True
    found = context.engine.database_by_id(database_id)
    if found is None or database_id in _SEEN_BY_ALL or found is context.database:
        return True
    token = context.security.user_or_none(found)
    return token is not None and token.is_dbo


def _integer(value: StorageValue) -> int:
    return value if isinstance(value, int) else 0
