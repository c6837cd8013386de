"""Rows that the server itself deletes from its own tables, in steps that commit alone.

A step keeps to the row locks, as any DELETE does. It waits for a transaction that has changed one
of its rows, and deletes what is still to be deleted then. Waiting happens outside of the write
path, which the others need to end their transactions.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import apsw

from tailrace_emulator.storage.lock_state import LockOwner
from tailrace_emulator.values.fetching import fetch
from tailrace_emulator.values.types import StorageValue

if TYPE_CHECKING:
    from tailrace_emulator.storage.engine import Database, Engine
    from tailrace_emulator.storage.model import Column, Table
    from tailrace_emulator.storage.transaction import StoreSession

STEP_MAX: Final = 50_000
"""Rows of one step, however many may be: their ids are held in memory."""


@dataclass(frozen=True, slots=True)
class Removal:
    """Deletes the rows of a table whose value in a column is below a limit.

    Attributes:
        database: where the table is.
        session: for whom: its LOCK_TIMEOUT and deadlock priority hold, it does not wait for itself
            and can be cancelled. None: for nobody, who does not wait (1222 at once).
    """

    engine: Engine
    database: Database
    object_id: int
    column: str
    below: bytes
    session: StoreSession | None = None

    def all(self, count: int) -> int:
        """All of them, at most ``count`` by one step; returns how many.

        Raises:
            SqlError: the same as :meth:`step`.
        """
        size = min(count, STEP_MAX)
        deleted = 0
        while found := self.step(size):
            deleted += found
            if found < size:
                break
        return deleted

    def step(self, count: int) -> int:
        """Delete at most so many rows, lowest first, and commit; returns how many were there.

        Raises:
            SqlError: 1222, 1205, 3617 where it had to wait for a row; nothing is deleted then.
        """
        rids, table = self._found(count)
        if table is None or not rids:
            return 0
        session = self.session
        owner = LockOwner() if session is None else session.lock_owner
        if session is None:
            owner.timeout_ms = 0
        locks, name = self.engine.locks, table.sqlite_name
        had = frozenset(owner.tables.get(name, ()))
        new = [rid for rid in rids if rid not in had]
        try:
            locks.lock(owner, name, new, escalates=False)
            self._delete(table, rids)
        finally:
            locks.unlock(owner, name, new)
        return len(rids)

    def _column(self, table: Table) -> Column | None:
        return table.column(self.column)

    def _found(self, count: int) -> tuple[list[int], Table | None]:
        """The rows of the next step, as the session sees them."""
        with self.engine.write() as connection:
            table = self.database.table_by_id(self.object_id)
            column = None if table is None else self._column(table)
            if table is None or column is None:
                return [], None
            kept = self._kept(table, column)
            rows = fetch(
                connection,
                f'SELECT rid FROM "{table.sqlite_name}" WHERE {column.sqlite_name} < ?'
                f" AND rid NOT IN carray(?) ORDER BY {column.sqlite_name} LIMIT ?",
                (self.below, _array(kept), count),
            )
            return [rid for (rid,) in rows], table

    def _kept(self, table: Table, column: Column) -> list[int]:
        """Rows that the session itself has changed, and which are not below the limit now."""
        if self.session is None:
            return []
        place = table.columns.index(column)
        images = self.session.own_images(table)
        return [rid for rid, row in images.items() if not _is_below(row[place], self.below)]

    def _delete(self, table: Table, rids: list[int]) -> None:
        """Delete those of the locked rows that are still below the limit."""
        with self.engine.write() as connection:
            now = self.database.table_by_id(self.object_id)
            column = None if now is None else self._column(now)
            if column is None:
                return
            connection.execute(
                f'DELETE FROM "{table.sqlite_name}" WHERE rid IN carray(?)'
                f" AND {column.sqlite_name} < ?",
                (_array(rids), self.below),
            )
        # After the commit, and before the locks go: who read the rows earlier finds them stale.
        with self.engine.write():
            self.engine.write_path.note_commit([table.sqlite_name])
        if self.session is not None:
            self.session.take_away_images(table, rids)


def _array(rids: Iterable[int]) -> Any:  # apsw does not give carray's type
    return apsw.carray(array("q", list(rids) or [-1]))


def _is_below(value: StorageValue, limit: bytes) -> bool:
    return isinstance(value, bytes) and value < limit
