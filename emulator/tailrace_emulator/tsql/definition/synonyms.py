"""CREATE SYNONYM and DROP SYNONYM."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace_emulator import messages
from tailrace_emulator.storage.object_details import create_synonym, drop_synonym
from tailrace_emulator.tsql.compile.names import resolve_name
from tailrace_emulator.tsql.syntax.definition_statements import CreateSynonym
from tailrace_emulator.tsql.syntax.nodes import Name

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext


def create(context: SessionContext, node: CreateSynonym) -> None:
    """Creates a synonym; a base without schema is looked for in the synonym's own.

    Raises:
        SqlError: 2714 name taken, 2760 unknown schema.
    """
    where = resolve_name(context, node.name, node.line)
    base = node.base if len(node.base) > 1 else (where.schema, *node.base)
    create_synonym(context.store, where.database, where.schema, where.name, base)


def drop(context: SessionContext, name: Name, line: int) -> None:
    """Drops a synonym.

    Raises:
        SqlError: 3701 when there is none of that name.
    """
    where = resolve_name(context, name, line)
    synonym = where.database.synonym(where.schema, where.name)
    if synonym is None:
        raise messages.cannot_drop("synonym", messages.dotted(name))
    drop_synonym(context.store, where.database, synonym)
