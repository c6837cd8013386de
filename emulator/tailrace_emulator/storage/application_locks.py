"""Application locks (sp_getapplock): locks on names, of a transaction or of a session.

They are locks of the lock manager on a table that no database has. So they wait, time out and end
deadlocks as others do. Those of a transaction are its own and end with it.

https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sp-getapplock-transact-sql
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tailrace_emulator.messages.errors import SqlError
from tailrace_emulator.storage.lock_state import LockOwner

if TYPE_CHECKING:
    from tailrace_emulator.storage.locks import LockManager

PREFIX: Final = "application:"
GRANTED: Final = 0
GRANTED_AFTER_WAIT: Final = 1
TIMED_OUT: Final = -1
DEADLOCKED: Final = -3
_OUTCOMES: Final = {1222: TIMED_OUT, 1205: DEADLOCKED}

MODES: Final = {"exclusive": "Exclusive", "shared": "Shared", "update": "Update"}
_RANKS: Final = ("shared", "update", "exclusive")


class ApplicationLocks:
    """The application locks of one session."""

    def __init__(self, locks: LockManager, transaction: LockOwner) -> None:
        self._locks = locks
        self._transaction = transaction
        self._session = LockOwner(transaction.session_id)
        self._held: dict[tuple[bool, str], list[str]] = {}
        """Modes by (of the session, name), one for each time that it was asked for."""

    def get(self, name: str, mode: str, timeout_ms: int, *, of_session: bool) -> int:
        """Take a lock.

        Args:
            name: of the lock, with its database.
            mode: exclusive, shared or update.
            timeout_ms: how long to wait; -1 without end.
            of_session: whether it outlives the transaction.

        Returns:
            GRANTED, GRANTED_AFTER_WAIT, TIMED_OUT or DEADLOCKED.

        Raises:
            SqlError: 3617, the statement was cancelled.
        """
        owner = self._session if of_session else self._transaction
        owner.cancelled = self._transaction.cancelled
        before, owner.timeout_ms = owner.timeout_ms, timeout_ms
        try:
            waited = self._locks.lock_table(
                owner, PREFIX + name, shared=mode == "shared", readable=mode == "update"
            )
        except SqlError as error:
            outcome = _OUTCOMES.get(error.number)
            if outcome is None:
                raise
            return outcome
        finally:
            owner.timeout_ms = before
        self._modes(name, of_session=of_session).append(mode)
        return GRANTED_AFTER_WAIT if waited else GRANTED

    def release(self, name: str, *, of_session: bool) -> bool:
        """Release a lock once; False when it is not held."""
        modes = self._modes(name, of_session=of_session)
        if not modes:
            return False
        modes.pop()
        if not modes:
            owner = self._session if of_session else self._transaction
            self._locks.release_table(owner, PREFIX + name)
        return True

    def mode(self, name: str, *, of_session: bool) -> str:
        """The strongest mode in which a lock is held, as APPLOCK_MODE names it."""
        modes = self._modes(name, of_session=of_session)
        return MODES[max(modes, key=_RANKS.index)] if modes else "NoLock"

    def close(self) -> None:
        """The session ends, or begins again."""
        self._locks.release(self._session)
        self._held.clear()

    def _modes(self, name: str, *, of_session: bool) -> list[str]:
        owner = self._session if of_session else self._transaction
        modes = self._held.setdefault((of_session, name), [])
        if PREFIX + name not in owner.tables:
            modes.clear()  # its transaction has ended
        return modes
