"""The newest small cuts, in memory from their append until the fold needs them.

Delta and Spark take half a second to plan a read of a few hundred rows, which the process that
wrote them can skip. Only committed cuts are stored here; all others are read from the log.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from tailrace_sink.plan.topic_ranges import TopicRange

EVENTS: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
    ]
)
"""Stored columns of an event."""


class RecentCuts:
    """Consecutive cuts up to the newest; one thread adds them, another one reads.

    Args:
        bytes_max: of all events together; the oldest cuts are dropped first.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._lock = threading.Lock()
        self._cuts: deque[tuple[int, pa.Table]] = deque()
        self._bytes = 0
        self._since: int | None = None
        self._newest: int | None = None

    def keep(self, before: int, batch: int, events: pa.Table | None) -> None:
        """Add a committed cut.

        Args:
            before: batch id of the previous cut. If that is not the last stored one, all stored
                cuts are dropped.
            events: at least the columns of ``EVENTS``; None: they are only in the log.
        """
        with self._lock:
            if events is None or before != self._newest:
                self._cuts.clear()
                self._bytes = 0
                self._since = batch if events is None else before
            self._newest = batch
            if events is None:
                return
            kept = events.select(EVENTS.names).cast(EVENTS)
            self._cuts.append((batch, kept))
            self._bytes += kept.nbytes
            while self._bytes > self._bytes_max:
                self._since, dropped = self._cuts.popleft()
                self._bytes -= dropped.nbytes

    def forget(self, through: int) -> None:
        """Drop the cuts that the tables have.

        Args:
            through: batch id of the last one.
        """
        with self._lock:
            while self._cuts and self._cuts[0][0] <= through:
                self._since, dropped = self._cuts.popleft()
                self._bytes -= dropped.nbytes

    def values(self, ranges: Iterable[TopicRange]) -> dict[str, pa.Table] | None:
        """Return the events of ranges.

        Args:
            ranges: of different topics; all are in the log.

        Returns:
            Partition, offset, key and value by topic; None if a cut of theirs may not be stored.
            The log has a cut before it is stored here, so the newest one may be missing, too.
        """
        listed = list(ranges)
        with self._lock:
            since, newest, cuts = self._since, self._newest, list(self._cuts)
        if since is None or newest is None:
            return None
        if not all(since < found.from_batch <= found.to_batch <= newest for found in listed):
            return None
        return {found.topic: _events(found, cuts) for found in listed}


def _events(found: TopicRange, cuts: Iterable[tuple[int, pa.Table]]) -> pa.Table:
    """Select the events of one range from cuts."""
    of_batches = [events for batch, events in cuts if found.from_batch <= batch <= found.to_batch]
    events = events_of(found.topic, pa.concat_tables([EVENTS.empty_table(), *of_batches]))
    wanted = pa.scalar(False)
    for partition, (first, end) in found.partitions.items():
        offsets = events["offset"]
        inside = pc.and_(pc.greater_equal(offsets, first), pc.less(offsets, end))
        wanted = pc.or_(wanted, pc.and_(inside, pc.equal(events["partition"], partition)))
    return events.filter(wanted)


def events_of(topic: str, events: pa.Table) -> pa.Table:
    """Select partition, offset, key and value of the events of one topic."""
    found = events.filter(pc.equal(events["topic"], topic))
    return found.select(["partition", "offset", "key", "value"]).combine_chunks()
