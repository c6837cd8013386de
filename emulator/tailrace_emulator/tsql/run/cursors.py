"""Cursors: forward-only and static, whatever is declared."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tailrace_emulator import messages
from tailrace_emulator.tsql.certain import known
from tailrace_emulator.tsql.conversions import convert
from tailrace_emulator.tsql.syntax.statements import CursorStatement
from tailrace_emulator.values.results import Event, ResultSet, Rows, StatementDone
from tailrace_emulator.values.types import StorageValue

if TYPE_CHECKING:
    from tailrace_emulator.tsql.compile.frames import Frame
    from tailrace_emulator.tsql.run.running import StatementRunner
    from tailrace_emulator.values.results import ColumnMeta


@dataclass(slots=True)
class Cursor:
    """A declared cursor; ``rows`` is None while it is closed."""

    declaration: CursorStatement
    columns: tuple[ColumnMeta, ...] = ()
    rows: list[tuple[StorageValue, ...]] | None = None
    position: int = 0


@dataclass(slots=True)
class Cursors:
    """The cursors of a session (all global)."""

    interpreter: StatementRunner
    known: dict[str, Cursor] = field(default_factory=dict)

    def run(self, node: CursorStatement, frame: Frame) -> Iterator[Event]:
        """DECLARE, OPEN, FETCH, CLOSE, DEALLOCATE."""
        folded = node.name.casefold()
        if node.action == "DECLARE":
            if folded in self.known:
                raise messages.error(16915, node.name)
            self.known[folded] = Cursor(node)
            return
        cursor = self.known.get(folded)
        if cursor is None:
            raise messages.error(16916, node.name)
        if node.action == "OPEN":
            self._open(cursor, frame)
        elif node.action == "FETCH":
            yield from self._fetch(cursor, node, frame)
        elif node.action == "CLOSE":
            self._opened(cursor)
            cursor.rows = None
        else:
            del self.known[folded]

    def close_all(self) -> None:
        """Closes what is open: CURSOR_CLOSE_ON_COMMIT at the end of a transaction."""
        for cursor in self.known.values():
            cursor.rows = None

    def _open(self, cursor: Cursor, frame: Frame) -> None:
        """Reads every row: later changes are not seen."""
        if cursor.rows is not None:
            raise messages.error(16905)
        query = known(cursor.declaration.query, "query of a cursor")
        queries = self.interpreter.queries
        prepared = queries.prepare(
            lambda: queries.planner.select(cursor.declaration, query, frame), frame
        )
        cursor.columns = prepared.plan.columns
        cursor.rows = [row for chunk in queries.chunks(prepared) for row in chunk]
        cursor.position = 0

    def _opened(self, cursor: Cursor) -> list[tuple[StorageValue, ...]]:
        """The rows of an open cursor.

        Raises:
            SqlError: 16917 if it is not open.
        """
        if cursor.rows is None:
            raise messages.error(16917)
        return cursor.rows

    def _fetch(self, cursor: Cursor, node: CursorStatement, frame: Frame) -> Iterator[Event]:
        """FETCH NEXT, into variables or to the client."""
        rows = self._opened(cursor)
        row = rows[cursor.position] if cursor.position < len(rows) else None
        frame.fetch_status = 0 if row is not None else -1
        if row is not None:
            cursor.position += 1
        if not node.into:
            yield ResultSet(cursor.columns)
            if row is not None:
                yield Rows([row])
            nocount = self.interpreter.context.options.nocount
            yield StatementDone("select", None if nocount else int(row is not None))
            return
        if len(node.into) != len(cursor.columns):
            raise messages.error(16924)
        if row is None:
            return
        for name, meta, value in zip(node.into, cursor.columns, row, strict=True):
            target = frame.types.get(name.casefold())
            if target is None:
                raise messages.undeclared_variable(name, node.line)
            frame.values[name.casefold()] = convert(value, meta.type, target)
