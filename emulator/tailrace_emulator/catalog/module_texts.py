"""The texts of modules: those that are stored, and those of what an extension has made."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tailrace_emulator.catalog.objects import generated_objects
from tailrace_emulator.catalog.visibility import definition, securable_of

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.catalog.database_objects import DatabaseObject
    from tailrace_emulator.storage.engine import Database


def generated_modules(
    context: SessionContext, database: Database
) -> Iterator[tuple[DatabaseObject, str | None]]:
    """What an extension has made with a text; None without VIEW DEFINITION on it."""
    for made in generated_objects(context, database):
        if made.text is None:
            continue
        may_view = context.security.has(securable_of(database, made.item), "VIEW DEFINITION")
        yield made.item, made.text() if may_view else None


def object_text(context: SessionContext, database: Database, object_id: int) -> str | None:
    """The text of a module; None without one, or if it may not be seen."""
    module = next((m for m in database.modules.values() if m.object_id == object_id), None)
    if module is not None:
        return definition(context, database, module)
    found = generated_modules(context, database)
    return next((text for item, text in found if item.object_id == object_id), None)
