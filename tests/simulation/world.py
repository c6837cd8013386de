"""Virtual time, and the one place where the publisher's calls and the world's steps meet.

Every call that the publisher makes to a port is a *tick*. A tick moves the virtual clock a little
and lets the steps of the scenario happen that are due. Nothing else ever happens: no thread, no
real clock, no randomness but what the scenario was drawn from. So a run is a function of its
scenario, and a scenario can be cut down while it still fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

TICK_US = 700
"""Microseconds that a call to a port takes."""


class Killed(BaseException):
    """The publisher's process is dead: nothing of it runs on, no cleanup either.

    It is no Exception, so nothing in the publisher takes it for an error of its own; what runs in
    ``finally`` meets ports of a dead incarnation, which raise it again.
    """


class Finding(BaseException):
    """The publisher did what it promised not to do; no Exception, as :class:`Killed`."""


class SimulationError(BaseException):
    """The model itself does not know what to do: an unknown statement, say. Never a finding.

    It is no Exception, as :class:`Killed`.
    """


@dataclass(slots=True)
class World:
    """Time and ticks.

    Attributes:
        began: virtual time at which the run begins, UTC.
        elapsed_us: microseconds since then; only goes forward.
        ticks: calls to ports so far.
        on_tick: what happens at each tick.
    """

    began: datetime
    elapsed_us: int = 0
    ticks: int = 0
    on_tick: Callable[[], None] = lambda: None
    _is_ticking: bool = field(default=False)

    @property
    def now(self) -> datetime:
        """The true time, UTC."""
        return self.began + timedelta(microseconds=self.elapsed_us)

    def now_ms(self) -> int:
        """The true time, milliseconds since the epoch."""
        return milliseconds_of(self.now)

    def monotonic(self) -> float:
        """Seconds of a clock that only goes forward."""
        return 1000.0 + self.elapsed_us / 1e6

    def advance(self, seconds: float) -> None:
        """Let time pass, with nothing happening."""
        self.elapsed_us += max(0, round(seconds * 1e6))

    @contextmanager
    def held(self) -> Iterator[None]:
        """Time passes within the block, and no steps happen."""
        before, self._is_ticking = self._is_ticking, True
        try:
            yield
        finally:
            self._is_ticking = before

    def tick(self, seconds: float = 0.0) -> None:
        """A call to a port, which may take some time; what is due happens."""
        self.elapsed_us += TICK_US + max(0, round(seconds * 1e6))
        if self._is_ticking:  # what happens in a step is no call of the publisher
            return
        self.ticks += 1
        self._is_ticking = True
        try:
            self.on_tick()
        finally:
            self._is_ticking = False


def milliseconds_of(moment: datetime) -> int:
    """Milliseconds since the epoch of a time in UTC."""
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
