"""The limit on large values in tables that are tracked: ``max text repl size``.

Documented: by default one INSERT or UPDATE may put at most 65,536 bytes into a captured large
column; sp_configure changes that, -1 lifts it. Known from users' reports: the limit holds for every
large column of a tracked table, captured or not.

https://learn.microsoft.com/sql/database-engine/configure-windows/configure-the-max-text-repl-size-server-configuration-option
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from emulator.catalog.configuration import MAX_TEXT_REPL_SIZE, configured_value
from emulator.errors import SqlError
from emulator.types import MAX

if TYPE_CHECKING:
    from emulator.storage.engine import Engine
    from emulator.storage.model import Table

SizeCheck = Callable[[Sequence[object]], None]
"""Looks at a full row, in column order; raises error 7139."""

_LARGE_TYPES: Final = frozenset({"text", "ntext", "image", "xml"})
_WIDE_TYPES: Final = frozenset({"ntext", "nvarchar", "xml"})


def replicated_size_check(engine: Engine, table: Table) -> SizeCheck | None:
    """What to look at each new row of a statement with, or None when there is no need.

    Args:
        engine: whose configuration holds.
        table: the table that the statement changes.
    """
    if not table.is_tracked_by_cdc:
        return None
    places = [
        (position, 2 if column.type.name in _WIDE_TYPES else 1)
        for position, column in enumerate(table.columns)
        if column.type.length == MAX or column.type.name in _LARGE_TYPES
    ]
    limit = configured_value(engine, MAX_TEXT_REPL_SIZE)
    if not places or limit < 0:
        return None

    def check(row: Sequence[object]) -> None:
        for position, width in places:
            value = row[position]
            if isinstance(value, str | bytes) and len(value) * width > limit:
                raise too_long(len(value) * width, limit)

    return check


def too_long(length: int, limit: int) -> SqlError:
    """Error 7139; lengths in bytes."""
    return SqlError(
        7139,
        f"Length of LOB data ({length}) to be replicated exceeds configured maximum {limit}. Use"
        " the stored procedure sp_configure to increase the configured maximum value for max text"
        " repl size option, which defaults to 65536. A configured value of -1 indicates no limit,"
        " other than the limit imposed by the data type.",
    )
