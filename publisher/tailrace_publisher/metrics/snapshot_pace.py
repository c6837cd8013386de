"""How fast the rows of snapshots are published, and so how long they will still take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

_POINTS_MAX: Final = 32
"""Of which the pace is made: the last chunks, not how fast it began."""


class SnapshotPace:
    """The last points of each snapshot; written by one thread, read by any.

    Args:
        clock: seconds, of any beginning.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._points: dict[str, tuple[tuple[float, int], ...]] = {}

    def note(self, topic: str, rows: int) -> None:
        """So many rows of a snapshot are out by now; fewer than before are of another one."""
        points = self._points.get(topic, ())
        if points and rows < points[-1][1]:
            points = ()
        self._points[topic] = (*points[1 - _POINTS_MAX :], (self._clock(), rows))

    def forget(self, topic: str) -> None:
        """A snapshot is over, or stands still: what comes behind has a pace of its own."""
        self._points.pop(topic, None)

    def left_s(self, topic: str, rows: int) -> float | None:
        """Seconds until a snapshot has so many rows; None where that cannot be said."""
        points = self._points.get(topic, ())
        if len(points) < 2:
            return None
        (began_at, first), (ended_at, last) = points[0], points[-1]
        if ended_at <= began_at or last <= first:
            return None
        return max(rows - last, 0) * (ended_at - began_at) / (last - first)
