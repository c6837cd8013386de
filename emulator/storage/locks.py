"""Locks: rows, keys, tables, and the one write path; waits, timeouts, deadlocks.

Readers take none (READ COMMITTED reads a snapshot). A writer locks each row that it changes, and
each unique key that it brings into being, until its transaction ends; a foreign key check takes a
shared lock on the parent. Beyond ``ESCALATION_LOCKS`` on one table the transaction gets the whole
table if nobody else holds anything there, as SQL Server escalates.

One mutex guards everything; a waiter names whom it waits for, so a deadlock is a cycle found the
moment that it would close, and whoever closes it is the victim (1205). The write lock (one SQLite
writer at a time) is in the same graph, because a transaction with DDL holds it until its end.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable
from functools import partial
from typing import Final

from emulator.errors import SqlError
from emulator.storage.lock_state import (
    LockOwner,
    TableLocks,
    grant,
    reaches,
    row_blockers,
    schema_blockers,
    table_blockers,
)

__all__ = ["LockManager", "LockOwner"]

ESCALATION_LOCKS: Final = 5000
"""SQL Server tries to escalate at 5,000 locks of one statement on one table."""

CANCEL_CHECK_S: Final = 0.05
"""How often a waiter looks whether its statement was cancelled."""


class LockManager:
    """All locks of one engine; thread-safe."""

    def __init__(self) -> None:
        self._changed = threading.Condition(threading.Lock())
        self._tables: dict[str, TableLocks] = {}
        """Entries stay for ever: a waiter holds on to one while the mutex is free."""
        self._writer: LockOwner | None = None
        self._write_queue: deque[LockOwner] = deque()
        self.waiters = 0
        """How many wait now."""
        self._closed = False

    # -- rows and keys --------------------------------------------------------------------------

    def lock(
        self, owner: LockOwner, table: str, resources: Iterable[Hashable], *, shared: bool = False
    ) -> bool:
        """Lock rows or keys of a table until :meth:`release`.

        Args:
            owner: who.
            table: the table's SQLite name.
            resources: row ids (int) or (index id, key) pairs.
            shared: for reading: others may share it, nobody may write it.

        Returns:
            Whether it had to wait (what it knew may be stale).

        Raises:
            SqlError: 1222 lock timeout, 1205 deadlock victim, 3617 cancelled.
        """
        waited = False
        with self._changed:
            entry = self._tables.get(table)
            if entry is None:
                entry = self._tables[table] = TableLocks()
            held = owner.tables.get(table)
            if held is None:
                held = owner.tables[table] = set()
            rows = entry.rows
            free = entry.exclusive is None and not entry.shared
            for resource in resources:
                if free and not shared and resource not in rows:
                    rows[resource] = owner
                    held.add(resource)
                    continue
                if entry.exclusive is owner:
                    continue
                waited |= self._acquire(
                    owner, partial(row_blockers, entry, owner, resource, shared)
                )
                free = entry.exclusive is None and not entry.shared
                grant(entry, owner, resource, shared)
                held.add(resource)
            if len(held) >= ESCALATION_LOCKS:
                self._escalate(entry, owner, held)
        return waited

    def lock_table(self, owner: LockOwner, table: str, *, shared: bool = False) -> bool:
        """Lock a whole table (TABLOCKX, DDL; shared: serializable reads) until :meth:`release`.

        Returns and raises as :meth:`lock`.
        """
        with self._changed:
            entry = self._tables.setdefault(table, TableLocks())
            owner.tables.setdefault(table, set())
            if entry.exclusive is owner:
                return False
            waited = self._acquire(owner, partial(table_blockers, entry, owner, shared))
            if shared:
                entry.shared.add(owner)
            else:
                entry.exclusive = owner
            return waited

    def holds_table(self, owner: LockOwner, table: str) -> bool:
        """Whether ``owner`` has the whole table, so that nothing in it needs a lock of its own."""
        entry = self._tables.get(table)
        return entry is not None and entry.exclusive is owner

    def wait_for_table(self, owner: LockOwner, table: str) -> bool:
        """Wait until nobody else holds the table exclusively (a reader meeting open DDL)."""
        with self._changed:
            entry = self._tables.get(table)
            if entry is None:
                return False
            return self._acquire(owner, partial(schema_blockers, entry, owner))

    def release(self, owner: LockOwner) -> None:
        """Release everything of ``owner`` but the write lock."""
        if not owner.tables:
            return
        with self._changed:
            for table, held in owner.tables.items():
                entry = self._tables.get(table)
                if entry is None:
                    continue
                if entry.exclusive is owner:
                    entry.exclusive = None
                entry.shared.discard(owner)
                rows = entry.rows
                for resource in held:
                    holder = rows.get(resource)
                    if holder is owner:
                        del rows[resource]
                    elif isinstance(holder, set):
                        holder.discard(owner)
                        if not holder:
                            del rows[resource]
            owner.tables = {}
            if self.waiters:
                self._changed.notify_all()

    # -- the write path -------------------------------------------------------------------------

    def acquire_write(self, owner: LockOwner) -> None:
        """Become the one writer; first come, first served.

        Raises:
            SqlError: 1205 deadlock victim, 3617 cancelled. LOCK_TIMEOUT does not apply: this is
                a latch, which only a transaction with DDL holds for longer than its commit.
        """
        with self._changed:
            if self._writer is None and not self._write_queue:
                self._writer = owner
                return
            self._write_queue.append(owner)
            try:
                self._acquire(owner, lambda: self._write_blockers(owner), timeout_ms=-1)
            except SqlError:
                self._write_queue.remove(owner)
                self._changed.notify_all()
                raise
            self._write_queue.popleft()
            self._writer = owner

    def release_write(self, owner: LockOwner) -> None:
        """Let the next writer in."""
        with self._changed:
            if self._writer is owner:
                self._writer = None
                if self.waiters:
                    self._changed.notify_all()

    def is_writer(self, owner: LockOwner) -> bool:
        """Whether ``owner`` holds the write lock."""
        return self._writer is owner

    def close(self) -> None:
        """Wake every waiter with an error: the server stops."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    # -- waiting --------------------------------------------------------------------------------

    def _write_blockers(self, owner: LockOwner) -> set[LockOwner]:
        if self._writer is not None:
            return {self._writer}
        head = self._write_queue[0]
        return set() if head is owner else {head}

    def _acquire(
        self,
        owner: LockOwner,
        blockers: Callable[[], set[LockOwner]],
        timeout_ms: int | None = None,
    ) -> bool:
        """Wait until ``blockers`` is empty. The mutex is held on entry and exit."""
        if not blockers():
            return False
        limit = owner.timeout_ms if timeout_ms is None else timeout_ms
        deadline = None if limit < 0 else time.monotonic() + limit / 1000
        self.waiters += 1
        owner.blockers = blockers
        try:
            while current := blockers():
                self._wait(owner, current, deadline)
        finally:
            self.waiters -= 1
            owner.blockers = None
        return True

    def _wait(self, owner: LockOwner, current: set[LockOwner], deadline: float | None) -> None:
        if self._closed:
            raise SqlError(6005, "SHUTDOWN is in progress.", severity=14, aborts="transaction")
        if owner.cancelled is not None and owner.cancelled.is_set():
            raise SqlError(3617, "The query was cancelled by the client.", severity=11)
        if reaches(current, owner):
            raise SqlError(
                1205,
                f"Transaction (Process ID {owner.session_id}) was deadlocked on lock resources with"
                " another process and has been chosen as the deadlock victim. Rerun the"
                " transaction.",
                severity=13,
                state=51,
                aborts="transaction",
            )
        remaining = None if deadline is None else deadline - time.monotonic()
        if remaining is not None and remaining <= 0:
            raise SqlError(1222, "Lock request time out period exceeded.", state=51)
        if owner.cancelled is not None:
            remaining = CANCEL_CHECK_S if remaining is None else min(remaining, CANCEL_CHECK_S)
        self._changed.wait(remaining)

    @staticmethod
    def _escalate(entry: TableLocks, owner: LockOwner, held: set[Hashable]) -> None:
        if entry.exclusive is owner or entry.shared - {owner}:
            return
        if any(holder is not owner and holder != {owner} for holder in entry.rows.values()):
            return
        entry.exclusive = owner
        entry.rows.clear()
        held.clear()
