"""How fast the rows of snapshots are published, and so how long they will still take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tailrace_schemas.topics.topic_names import TableName

_POINTS_MAX: Final = 32
"""Of which the pace is made: the last chunks, not how fast it began."""


class SnapshotPace:
    """The last points of each snapshot; written by one thread, read by any.

    Args:
        clock: seconds, of any beginning.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._points: dict[TableName, tuple[tuple[float, int], ...]] = {}

    def note(self, table: TableName, rows: int) -> None:
        """So many rows of a snapshot are out by now; fewer than before are of another one."""
        points = self._points.get(table, ())
        if points and rows < points[-1][1]:
            points = ()
        self._points[table] = (*points[1 - _POINTS_MAX :], (self._clock(), rows))

    def forget(self, table: TableName) -> None:
        """A snapshot is over, or stands still: what comes behind has a pace of its own."""
        self._points.pop(table, None)

    def left_s(self, table: TableName, rows: int) -> float | None:
        """Seconds until a snapshot has so many rows; None where that cannot be said."""
        points = self._points.get(table, ())
        if len(points) < 2:
            return None
        (began_at, first), (ended_at, last) = points[0], points[-1]
        if ended_at <= began_at or last <= first:
            return None
        return max(rows - last, 0) * (ended_at - began_at) / (last - first)
