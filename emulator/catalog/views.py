"""The system views by name: sys, INFORMATION_SCHEMA, and msdb's job tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.catalog import (
    absent_features,
    cdc_views,
    column_views,
    compatibility_views,
    extended_properties,
    information_schema,
    lock_views,
    message_views,
    msdb_history_views,
    msdb_views,
    object_views,
    partition_views,
    principal_views,
    sequence_objects,
    server_views,
    storage_views,
    type_views,
)
from emulator.catalog.registry import VIEWS, SystemView

if TYPE_CHECKING:
    from emulator.catalog.context import SessionContext
    from emulator.storage.engine import Database

__all__ = ["SystemView", "system_view"]

_DECLARING_MODULES = (
    absent_features,
    cdc_views,
    column_views,
    compatibility_views,
    extended_properties,
    information_schema,
    msdb_history_views,
    msdb_views,
    object_views,
    partition_views,
    principal_views,
    lock_views,
    message_views,
    sequence_objects,
    server_views,
    storage_views,
    type_views,
)
"""Importing them registers their views."""

_COMPATIBILITY_VIEWS = frozenset(
    {"sysobjects", "sysusers", "sysdatabases", "syscolumns", "syscomments"}
)
"""Views of SQL Server 2000, which are found in schema dbo too."""


def system_view(
    _context: SessionContext, database: Database, schema: str, name: str
) -> SystemView | None:
    """The system view of that name as seen from a database, or None.

    Args:
        _context: the session that asks.
        database: the database that the name refers to.
        schema: schema part of the name.
        name: the view's name.
    """
    schema, name = schema.casefold(), name.casefold()
    if database.name.casefold() == "msdb":
        found = VIEWS.get((f"msdb:{schema}", name))
        if found is not None:
            return found
    if schema == "dbo" and name in _COMPATIBILITY_VIEWS:
        schema = "sys"
    return VIEWS.get((schema, name))
