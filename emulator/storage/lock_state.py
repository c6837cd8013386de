"""Who holds what: the state under the lock manager's mutex, and who stands in whose way."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable


class LockOwner:
    """Whoever holds locks: a session, or one use of the engine's own write path."""

    __slots__ = ("blockers", "cancelled", "session_id", "tables", "timeout_ms")

    def __init__(self, session_id: int = 0) -> None:
        self.session_id = session_id
        self.timeout_ms = -1
        """SET LOCK_TIMEOUT: -1 waits for ever, 0 not at all."""
        self.cancelled: threading.Event | None = None
        self.blockers: Callable[[], set[LockOwner]] | None = None
        """While it waits: whom for, as of now (a released lock blocks nobody, woken yet or not)."""
        self.tables: dict[str, set[Hashable]] = {}
        """Resources held per table; the table's own lock is not among them."""


class TableLocks:
    """The locks of one table."""

    __slots__ = ("exclusive", "rows", "shared")

    def __init__(self) -> None:
        self.exclusive: LockOwner | None = None
        self.shared: set[LockOwner] = set()
        self.rows: dict[Hashable, LockOwner | set[LockOwner]] = {}


def row_blockers(
    entry: TableLocks, owner: LockOwner, resource: Hashable, shared: bool
) -> set[LockOwner]:
    """Who keeps ``owner`` from locking a row or key."""
    if entry.exclusive is not None:
        return set() if entry.exclusive is owner else {entry.exclusive}
    blockers = set() if shared else entry.shared - {owner}
    holder = entry.rows.get(resource)
    if isinstance(holder, set):
        return blockers if shared else blockers | (holder - {owner})
    if holder is not None and holder is not owner:
        return blockers | {holder}
    return blockers


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
    return blockers - {owner}


def grant(entry: TableLocks, owner: LockOwner, resource: Hashable, shared: bool) -> None:
    """Note that ``owner`` holds a row or key."""
    holder = entry.rows.get(resource)
    if not shared:
        entry.rows[resource] = owner
    elif holder is None:
        entry.rows[resource] = {owner}
    elif isinstance(holder, set):
        holder.add(owner)


def reaches(start: Iterable[LockOwner], target: LockOwner) -> bool:
    """Whether whoever waits, from ``start`` on, waits for ``target``: a deadlock."""
    seen: set[int] = set()
    stack = list(start)
    while stack:
        owner = stack.pop()
        if owner is target:
            return True
        if id(owner) not in seen:
            seen.add(id(owner))
            if owner.blockers is not None:
                stack.extend(owner.blockers())
    return False
