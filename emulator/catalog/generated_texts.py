"""The texts of what CDC generates: its query functions have one, its procedures and trigger none.

In SQL Server all of them are T-SQL that can be read. Here the procedures and the trigger are code
of the server, whose definition is NULL, as that of any module that does not show its text.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from emulator.catalog.objects import DatabaseObject, query_functions
from emulator.catalog.visibility import definition, securable_of
from emulator.cdc.query_function_text import query_function_text

if TYPE_CHECKING:
    from emulator.catalog.context import SessionContext
    from emulator.storage.engine import Database


def generated_modules(
    context: SessionContext, database: Database
) -> Iterator[tuple[DatabaseObject, str | None]]:
    """CDC's query functions, each with its text; None without VIEW DEFINITION on it."""
    for function in query_functions(context.store.connection, database):
        table = database.table_by_id(function.instance.object_id)
        if table is None:
            continue
        text = None
        if context.security.has(securable_of(database, function.item), "VIEW DEFINITION"):
            text = query_function_text(function.instance, table, net=function.net)
        yield function.item, text


def object_text(context: SessionContext, database: Database, object_id: int) -> str | None:
    """The text of a module or query function; None without one, or if it may not be seen."""
    module = next((m for m in database.modules.values() if m.object_id == object_id), None)
    if module is not None:
        return definition(context, database, module)
    found = generated_modules(context, database)
    return next((text for item, text in found if item.object_id == object_id), None)
