"""Who holds what: the state under the lock manager's mutex, and who blocks whom."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Final

from tailrace_emulator.values.types import StorageValue

PENDING_ROWS_MAX: Final = 5000
"""Uncommitted rows of one transaction and table that readers look at one by one; beyond it they
wait for the transaction, as they do in SQL Server once locks are escalated."""


@dataclass(slots=True)
class PendingRows:
    """What an open transaction changed in a table's rows, for readers that must not miss it.

    Attributes:
        rows: new images by row id; None for a deleted row.
        appears: some row is found under other keys than before: inserted, or an indexed column
            changed.
        unbounded: there were too many; ``rows`` is empty.
        doubtful: a part of the transaction was undone, so some of ``rows`` are not there any more.
    """

    rows: dict[int, tuple[StorageValue, ...] | None] = field(default_factory=dict)
    appears: bool = False
    unbounded: bool = False
    doubtful: bool = False


WHOLE_TABLE: Final = object()
"""In :attr:`LockOwner.acquired`: the lock of the table itself."""

WRITING: Final = object()
"""In :attr:`LockOwner.acquired`: that the table has uncommitted changes."""


class LockOwner:
    """A holder of locks: a session, or one use of the engine's own write path."""

    __slots__ = (
        "acquired", "blockers", "cancelled", "doomed", "pending", "priority", "session_id",
        "tables", "timeout_ms", "wants",
    )  # fmt: skip

    def __init__(self, session_id: int = 0) -> None:
        self.session_id = session_id
        self.timeout_ms = -1
        """SET LOCK_TIMEOUT: -1 waits for ever, 0 not at all."""
        self.cancelled: threading.Event | None = None
        self.blockers: Callable[[], set[LockOwner]] | None = None
        """While it waits: whom for, as of now (a released lock blocks nobody, woken yet or not)."""
        self.tables: dict[str, set[Hashable]] = {}
        """Resources held per table; the table's own lock is not among them."""
        self.pending: dict[str, PendingRows] = {}
        """Uncommitted changes per table."""
        self.acquired: list[tuple[str, Hashable]] | None = None
        """While its transaction has savepoints: tables and what was locked there since, in turn."""
        self.priority = 0
        """SET DEADLOCK_PRIORITY: -10 to 10."""
        self.doomed = False
        """Chosen as a deadlock's victim while it waits."""
        self.wants: tuple[str, Hashable, str] = ("", None, "")
        """While it waits: table, resource (None: the table itself) and mode."""


class TableLocks:
    """The locks of one table."""

    __slots__ = ("exclusive", "readable", "rows", "shared", "updates", "writers")

    def __init__(self) -> None:
        self.exclusive: LockOwner | None = None
        self.shared: set[LockOwner] = set()
        self.rows: dict[Hashable, LockOwner | set[LockOwner]] = {}
        """Exclusive locks (the owner) and shared ones (a set)."""
        self.updates: dict[Hashable, LockOwner] = {}
        """Update locks: one owner at a time, while others may read."""
        self.writers: set[LockOwner] = set()
        """Who has uncommitted changes."""
        self.readable = False
        """``exclusive`` stands for a range of update locks: others may read."""

    @property
    def is_held(self) -> bool:
        """Whether anybody has a lock or an uncommitted change."""
        alone = self.exclusive is not None
        return alone or bool(self.shared or self.rows or self.updates or self.writers)


def row_blockers(
    entry: TableLocks, owner: LockOwner, resource: Hashable, mode: str
) -> set[LockOwner]:
    """Who keeps ``owner`` from locking a row or key in mode S, U or X."""
    if entry.exclusive is not None:
        return set() if entry.exclusive is owner else {entry.exclusive}
    blockers = entry.shared - {owner} if mode == "X" else set()
    holder = entry.rows.get(resource)
    if isinstance(holder, set):
        if mode == "X":
            blockers |= holder - {owner}
    elif holder is not None and holder is not owner:
        blockers.add(holder)
    if mode != "S":
        updater = entry.updates.get(resource)
        if updater is not None and updater is not owner:
            blockers.add(updater)
    return blockers


def reading_blockers(entry: TableLocks, owner: LockOwner, resource: Hashable) -> set[LockOwner]:
    """Whose uncommitted change of a row (None: of the whole table) a reader waits for."""
    if entry.exclusive is not None and entry.exclusive is not owner and not entry.readable:
        return {entry.exclusive}
    if resource is None:
        return {writer for writer in entry.writers if writer is not owner}
    holder = entry.rows.get(resource)
    return {holder} if isinstance(holder, LockOwner) and holder is not owner else set()


def schema_blockers(entry: TableLocks, owner: LockOwner) -> set[LockOwner]:
    """Who has the whole table, besides ``owner``."""
    holder = entry.exclusive
    return set() if holder is None or holder is owner else {holder}


def table_blockers(entry: TableLocks, owner: LockOwner, shared: bool) -> set[LockOwner]:
    """Who keeps ``owner`` from locking the whole table."""
    blockers = set()
    if entry.exclusive is not None:
        blockers.add(entry.exclusive)
    if not shared:
        blockers |= entry.shared
    for holder in entry.rows.values():
        if isinstance(holder, LockOwner):
            blockers.add(holder)
        elif not shared:
            blockers |= holder
    if not shared:
        blockers.update(entry.updates.values())
    return blockers - {owner}


def grant(entry: TableLocks, owner: LockOwner, resource: Hashable, mode: str) -> None:
    """Note that ``owner`` holds a row or key."""
    holder = entry.rows.get(resource)
    if mode == "U":
        if holder is not owner:
            entry.updates[resource] = owner
    elif mode == "X":
        entry.rows[resource] = owner
    elif holder is None:
        entry.rows[resource] = {owner}
    elif isinstance(holder, set):
        holder.add(owner)


def ungrant(entry: TableLocks, owner: LockOwner, resource: Hashable) -> None:
    """``owner`` does not hold a row or key any more."""
    holder = entry.rows.get(resource)
    if holder is owner:
        del entry.rows[resource]
    elif isinstance(holder, set):
        holder.discard(owner)
        if not holder:
            del entry.rows[resource]
    if entry.updates and entry.updates.get(resource) is owner:
        del entry.updates[resource]


def give_back(entry: TableLocks, owner: LockOwner, table: str, what: Hashable) -> None:
    """Releases one thing of :attr:`LockOwner.acquired`, if it is still held as that.

    What was escalated since is the table's lock now, and stays.
    """
    held = owner.tables.get(table)
    pending = owner.pending.get(table)
    if what is WRITING:
        if not any(entry.rows.get(each) is owner for each in held or ()):
            entry.writers.discard(owner)
            owner.pending.pop(table, None)
    elif what is WHOLE_TABLE:
        if entry.exclusive is owner:
            entry.exclusive = None
            entry.readable = False
        entry.shared.discard(owner)
    elif held is not None and what in held:
        held.discard(what)
        ungrant(entry, owner, what)
        if pending is not None and isinstance(what, int):
            pending.rows.pop(what, None)
    is_whole = entry.exclusive is owner or owner in entry.shared
    if held is not None and not (held or is_whole or table in owner.pending):
        del owner.tables[table]


def circle(start: Iterable[LockOwner], target: LockOwner) -> list[LockOwner]:
    """The owners of a deadlock: each waits for the next, the last for ``target``, which is first.

    Empty if no waiting owner, from ``start`` on, waits for ``target``.
    """
    seen: set[int] = set()
    stack: list[tuple[LockOwner, tuple[LockOwner, ...]]] = [(o, (target, o)) for o in start]
    while stack:
        owner, path = stack.pop()
        if owner is target:
            return list(path[:-1])
        if id(owner) not in seen:
            seen.add(id(owner))
            if owner.blockers is not None:
                stack.extend((other, (*path, other)) for other in owner.blockers())
    return []
