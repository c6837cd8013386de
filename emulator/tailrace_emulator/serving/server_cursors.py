"""Server cursors: results that are kept here and fetched in blocks.

A cursor is a copy of its result, made when it is opened (a static, read-only cursor), whatever kind
was asked for. Updatable ones are refused. Each row is followed by ROWSTAT, which says that it is
there. A text that is no single SELECT is run directly where the client allows that.

https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sp-cursoropen-transact-sql
https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sp-cursorfetch-transact-sql
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntFlag
from typing import Final

from tailrace_emulator import messages
from tailrace_emulator.messages.errors import SqlError, not_supported
from tailrace_emulator.values.results import (
    ColumnMeta,
    Event,
    ResultSet,
    ReturnStatus,
    ReturnValue,
    Rows,
    StatementDone,
)
from tailrace_emulator.values.types import INT, StorageValue

CURSORS_MAX: Final = 1000
"""A client that never closes must not fill our memory."""

_FIRST_HANDLE: Final = 180_150_003
"""Where SQL Server's handles begin too; a prepared text's are other numbers."""

_FETCHED: Final = 1
_MOVED_TO_FIRST: Final = 2
_AUTO_FETCH: Final = 0x2000
_ALLOW_DIRECT: Final = 0x2000
_READ_ONLY: Final = 0x0001
_UPDATABLE: Final = 0x0002 | 0x0004 | 0x0008
_FORWARD: Final = 0x0004 | 0x0010
_STATIC: Final = 0x0008
_ROWSTAT: Final = ColumnMeta("ROWSTAT", INT, nullable=False)


class Fetch(IntFlag):
    """Fetch types of sp_cursorfetch."""

    FIRST = 0x0001
    NEXT = 0x0002
    PREVIOUS = 0x0004
    LAST = 0x0008
    ABSOLUTE = 0x0010
    RELATIVE = 0x0020
    REFRESH = 0x0080
    INFO = 0x0100
    PREVIOUS_NO_ADJUST = 0x0200


@dataclass(slots=True)
class _Cursor:
    """An open cursor; ``start`` and ``size`` are the block that was fetched last."""

    columns: tuple[ColumnMeta, ...]
    rows: list[tuple[StorageValue, ...]]
    start: int = 0
    size: int = 0

    def fetch(self, kind: int, number: int, count: int) -> int:
        """Move to another block; returns the status of sp_cursorfetch."""
        total = len(self.rows)
        end = self.start + self.size
        start = {
            Fetch.FIRST: 0,
            Fetch.NEXT: end,
            Fetch.PREVIOUS: self.start - count,
            Fetch.LAST: max(total - count, 0),
            Fetch.ABSOLUTE: number - 1 if number >= 0 else total + number,
            Fetch.RELATIVE: self.start + number,
            Fetch.REFRESH: self.start,
            Fetch.PREVIOUS_NO_ADJUST: max(self.start - count, 0),
        }[Fetch(kind)]
        if kind == Fetch.PREVIOUS_NO_ADJUST:
            count = self.start - start
        elif kind == Fetch.REFRESH:
            count = self.size
        status = 0
        if start < 0:
            before_first = kind == Fetch.ABSOLUTE and number == 0
            if self.start == 0 and kind == Fetch.PREVIOUS:
                before_first = True
            if before_first:
                self.start = self.size = 0
                return 0
            start, status = 0, _MOVED_TO_FIRST
        self.start = min(start, total)
        self.size = max(min(count, total - self.start), 0)
        return status

    def block(self) -> list[tuple[StorageValue, ...]]:
        """The rows of the block, each with its status."""
        rows = self.rows[self.start : self.start + self.size]
        return [(*row, _FETCHED) for row in rows]


@dataclass(frozen=True, slots=True)
class Opening:
    """How a cursor is to be opened: options, and rows of the first fetch if there is one.

    ``names`` are those of the output parameters cursor and rowcount (empty where they go by
    position), None where the client does not want the value.
    """

    scroll: int
    concurrency: int
    rows_wanted: int
    names: tuple[str | None, str | None, str | None, str | None]
    places: tuple[int, int, int, int] = (0, 2, 3, 4)


class ServerCursors:
    """The server cursors of one connection."""

    def __init__(self) -> None:
        self._open: dict[int, _Cursor] = {}
        self._next_handle = _FIRST_HANDLE

    def open(self, events: Iterator[Event], opening: Opening) -> Iterator[Event]:
        """Open a cursor over the result that ``events`` yield.

        Raises:
            SqlError: 16937 for what is no single SELECT; 50900 for an updatable cursor; what
                running the text raises.
        """
        if opening.concurrency & 0xF & _UPDATABLE:
            raise not_supported("updatable server cursors")
        if len(self._open) >= CURSORS_MAX:
            raise not_supported(f"more than {CURSORS_MAX} server cursors of a connection")
        cursor: _Cursor | None = None
        direct = False
        for event in events:
            if isinstance(event, ResultSet) and not direct:
                if cursor is not None:
                    raise not_supported("a server cursor over several results")
                cursor = _Cursor(event.columns, [])
            elif isinstance(event, Rows) and cursor is not None:
                cursor.rows += event.rows
            elif isinstance(event, StatementDone) and cursor is not None:
                continue
            elif isinstance(event, StatementDone) and not opening.concurrency & _ALLOW_DIRECT:
                raise _no_select()
            else:
                direct = direct or isinstance(event, StatementDone)
                yield event
        if cursor is None:
            yield from _outputs(opening, 0, -1)
            return
        handle = self._next_handle
        self._next_handle += 2
        self._open[handle] = cursor
        yield ResultSet((*cursor.columns, _ROWSTAT))
        if opening.scroll & _AUTO_FETCH:
            cursor.fetch(Fetch.NEXT, 0, opening.rows_wanted or 1)
            yield Rows(cursor.block())
            yield StatementDone("select", cursor.size)
        else:
            yield StatementDone("select", 0)
        yield ReturnStatus(0)
        yield from _outputs(opening, handle, len(cursor.rows))

    def fetch(self, handle: int | None, kind: int, number: int, count: int) -> Iterator[Event]:
        """sp_cursorfetch.

        Raises:
            SqlError: 16909 no such cursor; 50900 for a fetch type that is none of these.
        """
        cursor = self._find(handle, "sp_cursorfetch")
        if kind == Fetch.INFO:
            raise not_supported("sp_cursorfetch with fetch type INFO")
        if kind not in set(Fetch):
            raise not_supported(f"sp_cursorfetch with fetch type {kind}")
        status = cursor.fetch(kind, number, count)
        rows = cursor.block()
        yield ResultSet((*cursor.columns, _ROWSTAT))
        yield Rows(rows)
        yield StatementDone("select", len(rows))
        yield ReturnStatus(status)

    def close(self, handle: int | None) -> Iterator[Event]:
        """sp_cursorclose; -1 closes all.

        Raises:
            SqlError: 16909 no such cursor.
        """
        if handle == -1:
            self._open.clear()
        else:
            self._find(handle, "sp_cursorclose")
            del self._open[handle or 0]
        yield ReturnStatus(0)

    def option(self, handle: int | None) -> Iterator[Event]:
        """sp_cursoroption: a name for the cursor, which nothing here refers to.

        Raises:
            SqlError: 16909 no such cursor.
        """
        self._find(handle, "sp_cursoroption")
        yield ReturnStatus(0)

    def _find(self, handle: int | None, procedure: str) -> _Cursor:
        cursor = self._open.get(handle) if handle is not None else None
        if cursor is None:
            raise messages.error(
                16909, procedure, f"{(handle or 0) & 4294967295:x}", procedure=procedure
            )
        return cursor


def _no_select() -> SqlError:
    return messages.error(16937, procedure="sp_cursoropen")


def _outputs(opening: Opening, handle: int, count: int) -> Iterator[Event]:
    """Output parameters: the cursor, what kind it is, how many rows it has."""
    scroll = opening.scroll & _FORWARD or _STATIC
    values = (handle, scroll, _READ_ONLY, count)
    for name, place, value in zip(opening.names, opening.places, values, strict=True):
        if name is not None:
            yield ReturnValue(name, INT, value, place)
