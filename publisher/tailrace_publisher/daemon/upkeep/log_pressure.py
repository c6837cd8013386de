"""Whether the source's log is so full that only less capture helps (pure; ADR 0090)."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

from tailrace_schemas.position.lsn import Lsn

_REPLICATION: Final = "REPLICATION"
"""log_reuse_wait_desc while the log waits for the capture process."""
_READINGS_MIN: Final = 3


@dataclass(frozen=True, slots=True)
class LogReading:
    """The log at a moment.

    Attributes:
        at: seconds of a clock that only goes forward.
        used: bytes that cannot be reused yet.
        limit: bytes to which it can grow.
        waits_for: why used log cannot be reused (log_reuse_wait_desc).
        captured: newest LSN in the change tables; None before the first.
    """

    at: float
    used: int
    limit: int
    waits_for: str
    captured: Lsn | None

    @property
    def percent(self) -> float:
        """Use of the log in percent of its limit."""
        return 100 * self.used / self.limit


class LogPressure:
    """The readings of the log since it is too full and waits for the capture process.

    Args:
        at_percent: use from which on it is too full.
        for_s: seconds for which it must stay so.
    """

    def __init__(self, at_percent: float, for_s: float) -> None:
        self._at_percent = at_percent
        self._for_s = for_s
        self._run: deque[LogReading] = deque()

    def clear(self) -> None:
        """Begin again, because a table was given up: that needs time to have an effect."""
        self._run.clear()

    def note(self, reading: LogReading) -> None:
        """Add a reading."""
        if reading.percent < self._at_percent or reading.waits_for != _REPLICATION:
            self._run.clear()
            return
        self._run.append(reading)
        while len(self._run) > 1 and self._run[1].at <= reading.at - self._for_s:
            self._run.popleft()

    @property
    def is_lasting(self) -> bool:
        """Whether the log was too full for the whole time, and its use did not fall."""
        if len(self._run) < _READINGS_MIN:
            return False
        first, last = self._run[0], self._run[-1]
        return last.at - first.at >= self._for_s and last.used >= first.used

    @property
    def is_captured(self) -> bool:
        """Whether anything was captured meanwhile.

        A capture process that stands still holds the log, however few tables are captured.
        """
        return bool(self._run) and self._run[0].captured != self._run[-1].captured
