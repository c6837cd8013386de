"""Who is connected: a connected login cannot be dropped, a session can be ended by KILL."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from tailrace_emulator.storage.engine import Engine

_LOCK: Final = threading.Lock()
_COUNTS: Final[WeakKeyDictionary[Engine, Counter[int]]] = WeakKeyDictionary()
_ENDERS: Final[WeakKeyDictionary[Engine, dict[int, Callable[[], None]]]] = WeakKeyDictionary()
"""What ends the sessions of clients, by session id."""


def session_began(engine: Engine, login_id: int) -> None:
    """A session of a login was opened."""
    with _LOCK:
        _COUNTS.setdefault(engine, Counter())[login_id] += 1


def session_ended(engine: Engine, login_id: int) -> None:
    """A session of a login was closed."""
    with _LOCK:
        counts = _COUNTS.get(engine)
        if counts is not None:
            counts[login_id] -= 1


def has_sessions(engine: Engine, login_id: int) -> bool:
    """Whether a login is connected."""
    with _LOCK:
        counts = _COUNTS.get(engine)
        return counts is not None and counts[login_id] > 0


def session_can_be_killed(engine: Engine, session_id: int, end: Callable[[], None]) -> None:
    """From now on KILL finds a session.

    Args:
        end: ends it, from another session's thread and without waiting.
    """
    with _LOCK:
        _ENDERS.setdefault(engine, {})[session_id] = end


def session_is_over(engine: Engine, session_id: int) -> None:
    """KILL finds a session no more."""
    with _LOCK:
        _ENDERS.get(engine, {}).pop(session_id, None)


def is_active(engine: Engine, session_id: int) -> bool:
    """Whether KILL finds a session."""
    with _LOCK:
        return session_id in _ENDERS.get(engine, {})


def kill(engine: Engine, session_id: int) -> bool:
    """End a session; its own thread rolls back what it left open.

    Returns:
        Whether there was one.
    """
    with _LOCK:
        end = _ENDERS.get(engine, {}).pop(session_id, None)
    if end is None:
        return False
    end()
    return True
