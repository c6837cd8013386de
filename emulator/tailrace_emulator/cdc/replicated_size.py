"""The limit on large values in tables that are tracked: ``max text repl size``.

Documented: by default one INSERT or UPDATE may put at most 65,536 bytes into a captured large
column; sp_configure changes that, -1 lifts it. Known from users' reports: the limit holds for every
large column that a table had when it was enabled, captured or not. It holds for none that was added
since.

https://learn.microsoft.com/sql/database-engine/configure-windows/configure-the-max-text-repl-size-server-configuration-option
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from tailrace_emulator import messages
from tailrace_emulator.catalog.configuration import MAX_TEXT_REPL_SIZE, running_value
from tailrace_emulator.messages.errors import SqlError
from tailrace_emulator.values.types import MAX

if TYPE_CHECKING:
    from tailrace_emulator.storage.engine import Database
    from tailrace_emulator.storage.extensions import Changes, CurrentRows, Rows
    from tailrace_emulator.storage.model import Column, Table

_LARGE_TYPES: Final = frozenset({"text", "ntext", "image", "xml"})
_WIDE_TYPES: Final = frozenset({"ntext", "nvarchar", "xml"})
_TABLES_MAX: Final = 512


class ReplicatedSizes:
    """The limit, and which columns of which tables it holds for; of one engine."""

    def __init__(self) -> None:
        self._places: dict[int, tuple[Table, dict[int, int]]] = {}
        # By the table's identity, as every statement asks; the table is kept, so that no other
        # gets it.

    def checked_rows(self, database: Database, table: Table, rows: Rows) -> Rows:
        """The rows of an INSERT into a tracked table, looked at.

        Raises:
            SqlError: 7139 for a large value above the limit.
        """
        places, limit = self._watched(database, table)
        return _checked_each(rows, places, limit) if places else rows

    def checked_changes(
        self,
        database: Database,
        table: Table,
        changes: Changes,
        current: CurrentRows,
        but: Collection[int] = (),
    ) -> Changes:
        """The (row id, new row) pairs of an UPDATE of a tracked table, looked at.

        Args:
            changes: what becomes of which row.
            current: reads rows as they are: a large value that stays is no concern.
            but: positions of columns that are not looked at.

        Raises:
            SqlError: 7139 for a new large value above the limit.
        """
        places, limit = self._watched(database, table)
        if not places:
            return changes
        watched = {place: width for place, width in places.items() if place not in but}
        return _checked_against(changes, watched, limit, current)

    def check_addition(
        self, database: Database, table: Table, column: Column, data: object
    ) -> None:
        """What WRITETEXT, UPDATETEXT and .WRITE() add to a large value, looked at.

        Raises:
            SqlError: 7139 for more than the limit at once.
        """
        places, limit = self._watched(database, table)
        width = places.get(table.columns.index(column), 0)
        if width and _bytes(data, width) > limit:
            raise too_long(_bytes(data, width), limit)

    def _watched(self, database: Database, table: Table) -> tuple[dict[int, int], int]:
        """Positions of the large columns with the bytes of a character, and the limit in bytes."""
        places = self._large_places(table)
        if not places:
            return places, 0
        limit = running_value(database.engine, MAX_TEXT_REPL_SIZE)
        return ({}, 0) if limit < 0 else (places, limit)

    def _large_places(self, table: Table) -> dict[int, int]:
        """Positions of the large columns that are watched, with the bytes of a character."""
        known = self._places.get(id(table))
        if known is not None and known[0] is table:
            return known[1]
        places = {
            place: 2 if column.type.name in _WIDE_TYPES else 1
            for place, column in enumerate(table.columns)
            if (column.type.length == MAX or column.type.name in _LARGE_TYPES)
            and column.column_id < table.tracked_below_column_id
        }
        if len(self._places) >= _TABLES_MAX:
            self._places.clear()
        self._places[id(table)] = table, places
        return places


def _checked_each(rows: Rows, places: Mapping[int, int], limit: int) -> Iterator[Sequence[Any]]:
    for row in rows:
        for place, width in places.items():
            if _bytes(row[place], width) > limit:
                raise too_long(_bytes(row[place], width), limit)
        yield row


def _checked_against(
    changes: Changes, places: Mapping[int, int], limit: int, current: CurrentRows
) -> Iterator[tuple[int, Any]]:
    for rid, row in changes:
        for place, width in places.items():
            size = _bytes(row[place], width)
            if size > limit and current([rid])[rid][place] != row[place]:
                raise too_long(size, limit)
        yield rid, row


def _bytes(value: object, width: int) -> int:
    return len(value) * width if isinstance(value, str | bytes) else 0


def too_long(length: int, limit: int) -> SqlError:
    """Error 7139; lengths in bytes."""
    return messages.error(7139, length, limit)
