"""How fast the rows of snapshots are published, and so how long they will still take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tailrace_schemas.topics.topic_names import TableName

_POINTS_MAX: Final = 32
"""Points that determine the pace: the last chunks, not the start."""


class SnapshotPace:
    """The last points of each snapshot; written by one thread, read by any.

    Args:
        clock: seconds, from any start.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._points: dict[TableName, tuple[tuple[float, int], ...]] = {}

    def note(self, table: TableName, rows: int) -> None:
        """Record the published rows of a snapshot; fewer than before mean another snapshot."""
        points = self._points.get(table, ())
        if points and rows < points[-1][1]:
            points = ()
        self._points[table] = (*points[1 - _POINTS_MAX :], (self._clock(), rows))

    def forget(self, table: TableName) -> None:
        """Drop the points of a snapshot that ended or paused; its next pace is another one."""
        self._points.pop(table, None)

    def left_s(self, table: TableName, rows: int) -> float | None:
        """Return the seconds until a snapshot has so many rows; None if unknown."""
        points = self._points.get(table, ())
        if len(points) < 2:
            return None
        (began_at, first), (ended_at, last) = points[0], points[-1]
        if ended_at <= began_at or last <= first:
            return None
        return max(rows - last, 0) * (ended_at - began_at) / (last - first)
