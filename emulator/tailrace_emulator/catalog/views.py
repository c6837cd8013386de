"""The system views by name: sys, INFORMATION_SCHEMA, and those of an extension."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace_emulator.catalog import (
    absent_features,
    column_views,
    compatibility_views,
    extended_properties,
    information_schema,
    lock_views,
    message_views,
    object_views,
    partition_views,
    principal_views,
    sequence_objects,
    server_views,
    storage_views,
    transaction_views,
    type_views,
)
from tailrace_emulator.catalog.extensions import extension
from tailrace_emulator.catalog.registry import VIEWS, SystemView

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.storage.engine import Database

__all__ = ["SystemView", "system_view"]

_DECLARING_MODULES = (
    absent_features,
    column_views,
    compatibility_views,
    extended_properties,
    information_schema,
    object_views,
    partition_views,
    principal_views,
    lock_views,
    message_views,
    sequence_objects,
    server_views,
    storage_views,
    transaction_views,
    type_views,
)
"""Importing them registers their views."""

_COMPATIBILITY_VIEWS = frozenset(
    {"sysobjects", "sysusers", "sysdatabases", "syscolumns", "syscomments"}
)
"""Views of SQL Server 2000, which are found in schema dbo too."""


def system_view(
    context: SessionContext, database: Database, schema: str, name: str
) -> SystemView | None:
    """The system view of that name as seen from a database, or None.

    Args:
        context: the session that reads it.
        database: the database that the name refers to.
        schema: schema part of the name.
    """
    schema, name = schema.casefold(), name.casefold()
    added = extension(context.engine).declared.views.by_name
    if database.name.casefold() == "msdb":
        found = added.get((f"msdb:{schema}", name))
        if found is not None:
            return found
    if schema == "dbo" and name in _COMPATIBILITY_VIEWS:
        schema = "sys"
    return VIEWS.get((schema, name)) or added.get((schema, name))
