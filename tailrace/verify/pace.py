"""How fast the source is read, and in which hours. Pure but for the clock and the pause."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Self

ROWS_PER_S: Final = 100_000
CONTINUOUS_ROWS_PER_S: Final = 1_000
_DAY_S: Final = 86_400
_HOUR_S: Final = 3_600
_HOURS: Final = re.compile(r"(\d{1,2})-(\d{1,2})")


class Pace:
    """Bounds the rows that are read per second, and the share of a processor that reads them.

    A statement uses one processor of the server, and at most all of it. So its duration is the
    bound of its load, whatever the server does meanwhile. The bounds hold from the begin of each
    read: what was not used while nothing was read is not made up for.

    Args:
        rows_per_s: None for no bound.
        core_percent: how much of a processor's time the statements may take, above 0 up to 100.
        pause: waits for some seconds.
        clock: seconds that only increase.
    """

    def __init__(
        self,
        rows_per_s: float | None = None,
        core_percent: float = 100.0,
        pause: Callable[[float], object] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rows_per_s = rows_per_s
        self._idle_share = 100.0 / core_percent - 1.0
        self._pause = pause or threading.Event().wait
        self._clock = clock
        self._begun = self._since = clock()
        self._rows = 0

    def begin(self) -> None:
        """Start the time of a read."""
        self._begun = self._since = self._clock()
        self._rows = 0

    def took(self, rows: int) -> None:
        """Count the rows of a statement, and wait until the next one may be sent."""
        now = self._clock()
        self._rows += rows
        wait_s = (now - self._since) * self._idle_share
        if self._rows_per_s is not None:
            wait_s = max(wait_s, self._rows / self._rows_per_s - (now - self._begun))
        if wait_s > 0:
            self._pause(wait_s)
        self._since = self._clock()


@dataclass(frozen=True, slots=True)
class Hours:
    """The hours of the day, in UTC, from ``begin`` to before ``end``; over midnight if it is less.

    Raises:
        ValueError: an hour is not of the day, or both are the same.
    """

    begin: int
    end: int

    def __post_init__(self) -> None:
        if not (0 <= self.begin < 24 and 0 <= self.end <= 24 and self.begin != self.end % 24):
            raise ValueError(
                f"hours {self.begin}-{self.end}: not two different hours of the day. Fix: give"
                " them as begin and end, from 0 to 24, such as 22-6"
            )

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read hours such as ``22-6``.

        Raises:
            ValueError: they are not such.
        """
        found = _HOURS.fullmatch(text.strip())
        if found is None:
            raise ValueError(
                f"hours {text}: not two hours of the day. Fix: give them as begin and end, from 0"
                " to 24, such as 22-6"
            )
        return cls(int(found[1]), int(found[2]))

    def wait_s(self, at_s: float) -> float:
        """Return the seconds until one of these hours; 0 if it is one.

        Args:
            at_s: seconds since 1970-01-01, UTC.
        """
        since_begin_s = (at_s - self.begin * _HOUR_S) % _DAY_S
        length_s = (self.end - self.begin) * _HOUR_S % _DAY_S
        return 0.0 if since_begin_s < length_s else _DAY_S - since_begin_s
