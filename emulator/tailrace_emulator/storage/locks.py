"""Locks: rows, keys, tables, and the one write path; waits, timeouts, deadlocks.

A writer locks each row that it changes, and each unique key that it creates, until its transaction
ends. A foreign key check takes a shared lock on the parent. What readers wait for, and when they
lock themselves, is decided in read_locks.py. Beyond ``ESCALATION_LOCKS`` on one table the
transaction gets the whole table if nobody else holds anything there, as SQL Server escalates.

One mutex guards everything; a waiter names whom it waits for, so a deadlock is a circle found the
moment that it would close. Its victim (1205) is the owner with the lowest DEADLOCK_PRIORITY, among
equals the one that closes it. The write lock (one SQLite writer at a time) is in the same graph,
because a transaction with DDL holds it until its end.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final

from tailrace_emulator import messages
from tailrace_emulator.messages.errors import Aborts, SqlError
from tailrace_emulator.storage.lock_state import (
    WHOLE_TABLE,
    WRITING,
    LockOwner,
    PendingRows,
    TableLocks,
    circle,
    give_back,
    grant,
    reading_blockers,
    row_blockers,
    schema_blockers,
    table_blockers,
    ungrant,
)
from tailrace_emulator.values.turns import turns

__all__ = ["LockManager", "LockOwner"]

ESCALATION_LOCKS: Final = 5000
"""SQL Server tries to escalate at 5,000 locks of one statement on one table."""

CANCEL_CHECK_S: Final = 0.05
"""How often a waiter looks whether its statement was cancelled."""


@dataclass(frozen=True, slots=True)
class HeldLock:
    """A lock held or waited for; ``resource`` None is the table, ``table`` empty the write path."""

    session_id: int
    table: str
    resource: Hashable
    mode: str
    waits: bool = False


class LockManager:
    """All locks of one engine; thread-safe."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._changed = threading.Condition(self._mutex)
        self._tables: dict[str, TableLocks] = {}
        """Entries stay until :meth:`forget`: a waiter holds on to one while the mutex is free."""
        self._writer: LockOwner | None = None
        self._write_queue: deque[LockOwner] = deque()
        self.waiters = 0
        """How many wait now."""
        self._waiting: set[LockOwner] = set()
        self._closed = False

    # -- rows and keys --------------------------------------------------------------------------

    def lock(
        self,
        owner: LockOwner,
        table: str,
        resources: Iterable[Hashable],
        mode: str = "X",
        *,
        escalates: bool = True,
    ) -> bool:
        """Lock rows or keys of a table until :meth:`release`.

        Args:
            table: the table's SQLite name.
            resources: row ids (int) or (index id, key) pairs.
            mode: X to write; S to read: others may share it, nobody may write it; U to read what
                may be written next: others may share it, one at a time may hold it.
            escalates: whether many locks become one of the table; not of those that
                :meth:`unlock` is to give back.

        Returns:
            Whether it had to wait (what it knew may be stale).

        Raises:
            SqlError: 1222 lock timeout, 1205 deadlock victim, 3617 cancelled.
        """
        waited = False
        with self._mutex:
            entry = self._tables.get(table)
            if entry is None:
                entry = self._tables[table] = TableLocks()
            held = owner.tables.get(table)
            if held is None:
                held = owner.tables[table] = set()
            if owner.acquired is not None:
                resources = list(resources)
                owner.acquired += [(table, each) for each in resources if each not in held]
            rows = entry.rows
            writes = mode == "X"
            free = writes and entry.exclusive is None and not entry.shared and not entry.updates
            for resource in resources:
                if free and resource not in rows:
                    rows[resource] = owner
                    held.add(resource)
                    continue
                if entry.exclusive is owner:
                    continue
                owner.wants = (table, resource, mode)
                waited |= self._acquire(owner, partial(row_blockers, entry, owner, resource, mode))
                free = writes and entry.exclusive is None and not entry.shared and not entry.updates
                grant(entry, owner, resource, mode)
                held.add(resource)
            if escalates and len(held) >= ESCALATION_LOCKS:
                self._escalate(entry, owner, held, writes=writes)
        return waited

    def lock_table(
        self, owner: LockOwner, table: str, *, shared: bool = False, readable: bool = False
    ) -> bool:
        """Lock a whole table (TABLOCKX, DDL; shared: serializable reads) until :meth:`release`.

        Args:
            table: the table's SQLite name.
            shared: others may read it, nobody may write it.
            readable: it stands for update locks on a range: others may read it, but not lock it.

        Returns and raises as :meth:`lock`.
        """
        with self._mutex:
            entry = self._tables.setdefault(table, TableLocks())
            owner.tables.setdefault(table, set())
            if entry.exclusive is owner:
                entry.readable = entry.readable and (readable or shared)
                return False
            owner.wants = (table, None, "S" if shared else "U" if readable else "X")
            waited = self._acquire(owner, partial(table_blockers, entry, owner, shared))
            if owner.acquired is not None and owner not in entry.shared:
                owner.acquired.append((table, WHOLE_TABLE))
            if shared:
                entry.shared.add(owner)
            else:
                entry.exclusive = owner
                entry.readable = readable
            return waited

    # -- readers --------------------------------------------------------------------------------

    def begin_writing(self, owner: LockOwner, table: str) -> PendingRows:
        """A transaction is about to change the table; its changes gather in what is returned."""
        with self._mutex:
            self._tables.setdefault(table, TableLocks()).writers.add(owner)
            owner.tables.setdefault(table, set())
            pending = owner.pending[table] = PendingRows()
            if owner.acquired is not None:
                owner.acquired.append((table, WRITING))
            return pending

    def others_writing(self, owner: LockOwner, table: str) -> list[PendingRows]:
        """The uncommitted changes of others; empty for most tables at most times."""
        entry = self._tables.get(table)
        if entry is None or not entry.writers:
            return []
        with self._mutex:
            return [w.pending[table] for w in entry.writers if w is not owner]

    def is_closed_to(self, owner: LockOwner, table: str) -> bool:
        """Whether another transaction has the whole table, so that nobody may read it."""
        entry = self._tables.get(table)
        if entry is None or entry.exclusive is None:
            return False
        return entry.exclusive is not owner and not entry.readable

    def is_being_changed(self, owner: LockOwner, table: str, rid: int) -> bool:
        """Whether another transaction has an exclusive lock on a row (asked for each row read)."""
        entry = self._tables.get(table)
        if entry is None:
            return False
        holder = entry.rows.get(rid)
        if isinstance(holder, LockOwner) and holder is not owner:
            return True
        return entry.exclusive is not None and self.is_closed_to(owner, table)

    def holds(self, owner: LockOwner, table: str, rid: int) -> bool:
        """Whether ``owner`` has any lock on the row."""
        held = owner.tables.get(table)
        return (held is not None and rid in held) or self.holds_table(owner, table)

    def wait_for_readable(self, owner: LockOwner, table: str, rid: int | None = None) -> bool:
        """Wait, without locking, until nobody else's uncommitted change is in a reader's way.

        Args:
            table: the table's SQLite name.
            rid: a row; None for all of the table.

        Returns and raises as :meth:`lock`.
        """
        with self._mutex:
            entry = self._tables.setdefault(table, TableLocks())
            owner.wants = (table, rid, "S")
            return self._acquire(owner, partial(reading_blockers, entry, owner, rid))

    def holds_table(self, owner: LockOwner, table: str) -> bool:
        """Whether ``owner`` has the whole table, so that nothing in it needs a lock of its own."""
        entry = self._tables.get(table)
        return entry is not None and entry.exclusive is owner

    def wait_for_table(self, owner: LockOwner, table: str) -> bool:
        """Wait until nobody else holds the table exclusively (a reader meeting open DDL)."""
        with self._mutex:
            entry = self._tables.get(table)
            if entry is None:
                return False
            return self._acquire(owner, partial(schema_blockers, entry, owner))

    def release(self, owner: LockOwner) -> None:
        """Release everything of ``owner`` but the write lock."""
        if not owner.tables:
            return
        with self._mutex:
            for table, held in owner.tables.items():
                entry = self._tables.get(table)
                if entry is None:
                    continue
                if entry.exclusive is owner:
                    entry.exclusive = None
                    entry.readable = False
                entry.shared.discard(owner)
                entry.writers.discard(owner)
                for resource in held:
                    ungrant(entry, owner, resource)
            owner.pending = {}
            owner.tables = {}
            if self.waiters:
                self._changed.notify_all()

    def release_since(self, owner: LockOwner, count: int) -> None:
        """Release what was locked since that many locks had been (:attr:`LockOwner.acquired`).

        Locks that were held in a weaker mode before stay as they are, and so do those that became
        one of the whole table: "with the exception of escalations and conversions".
        """
        with self._mutex:
            acquired = owner.acquired or []
            # Whether it still writes a table shows when its row locks are gone.
            for table, what in sorted(acquired[count:], key=lambda each: each[1] is WRITING):
                entry = self._tables.get(table)
                if entry is not None:
                    give_back(entry, owner, table, what)
            del acquired[count:]
            if self.waiters:
                self._changed.notify_all()

    def unlock(self, owner: LockOwner, table: str, resources: Iterable[Hashable]) -> None:
        """Release rows or keys before the end; those that ``owner`` does not hold are skipped."""
        with self._mutex:
            entry, held = self._tables.get(table), owner.tables.get(table)
            if entry is None or held is None:
                return
            for resource in resources:
                if resource in held:
                    held.discard(resource)
                    ungrant(entry, owner, resource)
            if self.waiters:
                self._changed.notify_all()

    def release_table(self, owner: LockOwner, table: str) -> None:
        """Release the lock of a whole table, of which ``owner`` holds no row."""
        with self._mutex:
            entry = self._tables.get(table)
            if entry is None or owner.tables.pop(table, None) is None:
                return
            if entry.exclusive is owner:
                entry.exclusive = None
                entry.readable = False
            entry.shared.discard(owner)
            self._changed.notify_all()

    def forget(self, table: str) -> bool:
        """A table is gone; returns False where somebody may still hold or wait for its locks."""
        with self._mutex:
            entry = self._tables.get(table)
            if entry is not None and (self.waiters or entry.is_held):
                return False
            self._tables.pop(table, None)
            return True

    # -- the write path -------------------------------------------------------------------------

    def acquire_write(self, owner: LockOwner) -> None:
        """Become the one writer; first come, first served.

        Raises:
            SqlError: 1205 deadlock victim, 3617 cancelled. LOCK_TIMEOUT does not apply: this is
                a latch, which only a transaction with DDL holds for longer than its commit.
        """
        with self._mutex:
            if self._writer is None and not self._write_queue:
                self._writer = owner
                return
            self._write_queue.append(owner)
            try:
                owner.wants = ("", None, "X")
                self._acquire(owner, lambda: self._write_blockers(owner), timeout_ms=-1)
            except SqlError:
                self._write_queue.remove(owner)
                self._changed.notify_all()
                raise
            self._write_queue.popleft()
            self._writer = owner

    def wait_for_write(self, owner: LockOwner, writers: Callable[[], set[LockOwner]]) -> None:
        """Wait, without locking, until a transaction with DDL has left the write path.

        Args:
            writers: who is waited for: nobody once it has.

        Raises:
            SqlError: 1222 lock timeout, 1205 deadlock victim, 3617 cancelled.
        """
        with self._mutex:
            owner.wants = ("", None, "S")
            self._acquire(owner, writers)

    def release_write(self, owner: LockOwner) -> None:
        """Let the next writer in."""
        with self._mutex:
            if self._writer is owner:
                self._writer = None
                if self.waiters:
                    self._changed.notify_all()

    def is_writer(self, owner: LockOwner) -> bool:
        """Whether ``owner`` holds the write lock."""
        return self._writer is owner

    def close(self) -> None:
        """Wake every waiter with an error: the server stops."""
        with self._mutex:
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
        turns.give()
        self.waiters += 1
        self._waiting.add(owner)
        owner.blockers = blockers
        try:
            while current := blockers():
                self._wait(owner, current, deadline)
        finally:
            self.waiters -= 1
            self._waiting.discard(owner)
            owner.blockers = None
            owner.doomed = False
        return True

    def _wait(self, owner: LockOwner, current: set[LockOwner], deadline: float | None) -> None:
        if self._closed:
            raise messages.error(6005)
        if owner.cancelled is not None and owner.cancelled.is_set():
            raise messages.error(3617, aborts=Aborts.STATEMENT)
        if owner.doomed or self._is_victim(owner, circle(current, owner)):
            raise messages.error(1205, owner.session_id, "lock")
        remaining = None if deadline is None else deadline - time.monotonic()
        if remaining is not None and remaining <= 0:
            raise messages.error(1222)
        if owner.cancelled is not None:
            remaining = CANCEL_CHECK_S if remaining is None else min(remaining, CANCEL_CHECK_S)
        self._changed.wait(remaining)

    def _is_victim(self, owner: LockOwner, members: list[LockOwner]) -> bool:
        """Whether ``owner``, which comes first, is the victim; another one is notified."""
        if not members:
            return False
        victim = min(members, key=lambda member: member.priority)
        if victim is owner:
            return True
        victim.doomed = True
        self._changed.notify_all()
        return False

    @staticmethod
    def _escalate(
        entry: TableLocks, owner: LockOwner, held: set[Hashable], *, writes: bool
    ) -> None:
        if entry.exclusive is owner or entry.shared - {owner}:
            return
        if any(holder is not owner and holder != {owner} for holder in entry.rows.values()):
            return
        if any(updater is not owner for updater in entry.updates.values()):
            return
        if not writes and owner not in entry.writers:
            # Row locks taken to read become one that lets others read.
            if entry.updates or any(holder is owner for holder in entry.rows.values()):
                return
            entry.shared.add(owner)
        else:
            entry.exclusive = owner
        entry.rows.clear()
        entry.updates.clear()
        held.clear()

    # -- what views show --------------------------------------------------------------------------

    def held(self) -> list[HeldLock]:
        """Every lock that is held or waited for, for sys.dm_tran_locks."""
        with self._mutex:
            found: list[HeldLock] = []
            for name, entry in self._tables.items():
                if entry.exclusive is not None:
                    mode = "U" if entry.readable else "X"
                    found.append(HeldLock(entry.exclusive.session_id, name, None, mode))
                found += [HeldLock(o.session_id, name, None, "S") for o in entry.shared]
                for resource, holder in entry.rows.items():
                    if isinstance(holder, LockOwner):
                        found.append(HeldLock(holder.session_id, name, resource, "X"))
                    else:
                        found += [HeldLock(o.session_id, name, resource, "S") for o in holder]
                for resource, updater in entry.updates.items():
                    found.append(HeldLock(updater.session_id, name, resource, "U"))
            found += [
                HeldLock(owner.session_id, *owner.wants, waits=True) for owner in self._waiting
            ]
            return found

    def blocked(self) -> dict[int, int]:
        """Sessions that wait, and for which session each does (0: for none that still holds)."""
        with self._mutex:
            return {
                owner.session_id: min((b.session_id for b in owner.blockers()), default=0)
                for owner in self._waiting
                if owner.blockers is not None
            }
