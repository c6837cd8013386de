"""The backlog as one figure: how many changes are left, how fast they go, and how long it takes.

The ledger counts the changes of a backlog before one of them is read. Batches come into the tables
as a whole; what tasks have read of one counts before that (``task_rows``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from tailrace_service.status import Backlog

_WINDOW_S: Final = 60.0
_KNOWN_AFTER_S: Final = 2.0
"""Seconds from which on a pace is known: at first a few changes would say too much."""


class Carried(NamedTuple):
    """What came into the tables since the start: changes, and the bytes of their values."""

    changes: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class RunningBatch:
    """A batch from its plan to its commit.

    Attributes:
        before: what was in the tables at its plan.
        whole: what the batch adds, by the ledger.
        rows_read: returns how many of its changes tasks have read; None: it is not known.
    """

    before: Carried
    whole: Carried
    rows_read: Callable[[], int] | None = None

    def carried(self, committed: Carried) -> Carried:
        """Add what was read to what is committed, until the batch is.

        Args:
            committed: what is in the tables now.
        """
        if self.rows_read is None or committed.changes >= self.before.changes + self.whole.changes:
            return committed
        rows = min(self.rows_read(), self.whole.changes)
        size = self.whole.bytes * rows // max(1, self.whole.changes)
        return Carried(self.before.changes + rows, self.before.bytes + size)


class BacklogPace:
    """The pace of a backlog, over a window. Pure: the time is given.

    Only moments at which changes came are kept. Until the next ones are due, as those before came,
    the pace stays, and falls slowly afterwards. So batches that come as a whole make no jumps.

    Args:
        window_s: seconds of the past that count.

    Attributes:
        backlog: by the last observation.
    """

    def __init__(self, window_s: float = _WINDOW_S) -> None:
        self._window_s = window_s
        self._came: deque[tuple[float, Carried]] = deque()
        self._applied, self._first = Carried(), 0
        self.backlog = Backlog()

    def observe(self, now_s: float, applied: Carried, left: int) -> Backlog:
        """Record how far the tables are.

        Args:
            now_s: a clock that does not go back.
            applied: what came into the tables since the sink started. A batch that failed gives up
                what it had read: what was counted once is not taken back.
            left: published changes that are not in the tables.
        """
        applied = max(applied, self._applied)
        if not self.backlog.left:  # The last backlog is over.
            self._first = self._applied.changes
            self._came.clear()
        if not self._came or applied.changes > self._applied.changes:
            self._came.append((now_s, applied))
            while len(self._came) > 2 and self._came[1][0] <= now_s - self._window_s:
                self._came.popleft()
        self._applied = applied
        done = applied.changes - self._first
        self.backlog = Backlog(done, left, *self._estimate(now_s, left))
        return self.backlog

    def _estimate(self, now_s: float, left: int) -> tuple[float | None, float | None, float | None]:
        """Changes a second, seconds that are left, and bytes a second."""
        (first_s, first), (last_s, last) = self._came[0], self._came[-1]
        changes, size = last.changes - first.changes, last.bytes - first.bytes
        if not changes or now_s - first_s < _KNOWN_AFTER_S:
            return None, None, None
        usual_s = (last_s - first_s) / (len(self._came) - 1)
        waited_s = now_s - last_s
        per_s = changes / (last_s - first_s + max(0.0, waited_s - usual_s))
        left_s = max(0.0, left / per_s - min(waited_s, usual_s))
        # An earlier release of the publisher counted no bytes.
        return per_s, left_s, per_s * size / changes if size > 0 else None


class WaitingChanges:
    """The number of published changes that are not in the tables, from the sink's counters.

    The fold counts what waits when it plans a batch. Afterwards cuts come into the log, and the
    batch into the tables. Counters are changes that came into log or tables since the start, and
    those that wait for it.
    """

    def __init__(self) -> None:
        self._plan = (0, 0, 0)

    def planned(self, log: tuple[int, int], tables: tuple[int, int]) -> None:
        """Record the counters at the moment of a plan."""
        self._plan = (log[0], *tables)

    def left(self, log: tuple[int, int], tables: tuple[int, int]) -> int:
        """Return the number by the present counters."""
        logged, applied, waited = self._plan
        return log[1] + max(0, waited + (log[0] - logged) - (tables[0] - applied))
