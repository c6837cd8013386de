"""How many sessions each login has: who is connected cannot be dropped."""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from emulator.storage.engine import Engine

_LOCK: Final = threading.Lock()
_COUNTS: Final[WeakKeyDictionary[Engine, Counter[int]]] = WeakKeyDictionary()


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
