"""Where time comes from: the machine, or a test that moves it by hand.

Ticks are 100 ns since 0001-01-01, UTC: what datetime2(7) counts.
"""

from __future__ import annotations

import threading
import time
from typing import Final, Protocol

UNIX_EPOCH_TICKS: Final = 621_355_968_000_000_000
"""Ticks at 1970-01-01."""

TICKS_PER_SECOND: Final = 10_000_000


class Clock(Protocol):
    """Returns the time."""

    def now_ticks(self) -> int:
        """UTC now, in 100 ns since 0001-01-01."""


class SystemClock:
    """The machine's clock."""

    def now_ticks(self) -> int:
        """UTC now, in 100 ns since 0001-01-01."""
        return UNIX_EPOCH_TICKS + time.time_ns() // 100


class MovableClock:
    """Another clock, moved forward as requested; it continues at that clock's pace."""

    def __init__(self, base: Clock) -> None:
        self._base = base
        self._ahead_ticks = 0
        self._lock = threading.Lock()

    def now_ticks(self) -> int:
        """The other clock's time and what this one is ahead of it."""
        with self._lock:
            return self._base.now_ticks() + self._ahead_ticks

    def advance(self, seconds: float) -> int:
        """Move forward by ``seconds`` and return the new time in ticks."""
        with self._lock:
            self._ahead_ticks += round(seconds * TICKS_PER_SECOND)
            return self._base.now_ticks() + self._ahead_ticks


class ManualClock:
    """A clock that moves only on request, for tests and for replays."""

    def __init__(self, ticks: int = UNIX_EPOCH_TICKS) -> None:
        self._ticks = ticks
        self._lock = threading.Lock()

    def now_ticks(self) -> int:
        """The time that was set last."""
        with self._lock:
            return self._ticks

    def advance(self, seconds: float) -> int:
        """Move forward by ``seconds`` and return the new time in ticks."""
        with self._lock:
            self._ticks += round(seconds * TICKS_PER_SECOND)
            return self._ticks

    def set(self, ticks: int) -> None:
        """Jump to ``ticks``."""
        with self._lock:
            self._ticks = ticks
