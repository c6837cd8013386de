"""Records and groups that wait for their turn in the commit order. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import islice, pairwise
from typing import Generic, TypeVar

from tailrace.subscribe.bookmark import Place
from tailrace.subscribe.errors import EventsRemoved
from tailrace.subscribe.groups import Group, Segment, Where
from tailrace_schemas.position.change_position import Operation

T = TypeVar("T")

Key = tuple[bytes, int, str, int]
"""Place, group, topic and partition."""

Decode = Callable[[Where, int, bytes], tuple[bytes, T]]
"""Packed position and event of a record's value."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A segment to give.

    Attributes:
        group: offset of the group's first progress record.
        floor: its rows that were read come after this place.
        count: events that must be found; None if some were taken before.
    """

    segment: Segment
    group: int
    floor: bytes
    count: int | None


@dataclass(slots=True)
class PartitionQueue(Generic[T]):
    """The records of a partition that wait, and which of them are to be given.

    Attributes:
        known: records below this offset are here, or there are none.
        next: records below this offset were given or passed over.
        frontier: offset after the last planned segment.
        found: events of the first planned segment that were given.
        missing: events that were counted by the ledger and not found.
        size: bytes of the records that wait.
        place: of the newest event.
        head: the next event, with its key; its record is still the first that waits.
    """

    where: Where
    known: int = 0
    next: int = 0
    frontier: int = 0
    found: int = 0
    missing: int = 0
    size: int = 0
    place: bytes = b""
    head: tuple[Key, int, T] | None = None
    records: deque[tuple[int, bytes | None, int]] = field(default_factory=deque)
    planned: deque[Planned] = field(default_factory=deque)

    def settle(self, decode: Decode[T], *, verify: bool) -> bool:
        """Find the next event; False while it is not known whether there is one.

        Raises:
            EventsRemoved: a segment lacks events.
            Exception: what ``decode`` raises; a later call tries again.
        """
        while self.head is None and self.planned:
            planned = self.planned[0]
            segment = planned.segment
            while self.records and self.records[0][0] < segment.first:
                self.drop()  # the ledger does not know it: another producer's
            if not self.records and self.known < segment.next:
                return False
            if not self.records or self.records[0][0] >= segment.next:
                lacks = 0 if planned.count is None else planned.count - self.found
                if verify and lacks:
                    raise _removed(segment, self.found)
                self.missing += lacks
                self.planned.popleft()
                self.next, self.found = segment.next, 0
                continue
            offset, value, _ = self.records[0]
            if value is None:
                self.drop()
                continue
            position, event = decode(self.where, offset, value)
            floor = planned.floor if position[-1] == Operation.READ else b""
            self.place = max(position, floor, self.place)
            key = (self.place, planned.group, *self.where)
            self.head = (key, offset, event)
        return True

    def drop(self) -> None:
        """Pass over the first waiting record."""
        offset, _, size = self.records.popleft()
        self.size -= size
        self.next = offset + 1

    def restart(self, offset: int) -> None:
        """Hold nothing, and continue at an offset."""
        self.records.clear()
        self.size = 0
        self.known = self.next = offset


@dataclass(slots=True)
class GroupQueue:
    """The groups that are not taken.

    Attributes:
        place: before the first group.
        window: how many groups at the front are merged now; 0 between two windows.
        consumed: next offsets of the partitions that these groups gave events of.
    """

    place: Place
    groups: deque[Group] = field(default_factory=deque)
    window: int = 0
    consumed: dict[Where, int] = field(default_factory=dict)

    def open(self) -> list[Group]:
        """Begin a window; return its groups.

        It ends before and after a marker, so that the marker has its exact place.
        """
        marked = (n for n, (a, b) in enumerate(pairwise(self.groups), 1) if a.ended or b.started)
        self.window = next(marked, len(self.groups))
        return self.merged()

    def merged(self) -> list[Group]:
        """The groups of the window."""
        return list(islice(self.groups, self.window))

    def begin(self) -> None:
        """The beginnings of snapshots of the first group were taken."""
        if not self.place.is_started:
            self.place = replace(self.place, is_started=True)

    def close(self) -> Group:
        """Pass the groups of the window; return the last one."""
        found = [self.groups.popleft() for _ in range(self.window)]
        self.window, last = 0, found[-1]
        self.place = Place(last.next, last.closed_lsn, last.named)
        self.consumed.clear()
        return last


def _removed(segment: Segment, found: int) -> EventsRemoved:
    topic, partition = segment.where
    return EventsRemoved(
        f"topic {topic} partition {partition} holds {found} events at offsets {segment.first} to"
        f" {segment.next - 1}, {segment.count} were published: retention or compaction removed the"
        " others. Fix: begin again with Start.from_snapshot(), and set cleanup.policy=delete and a"
        " longer retention.ms; or subscribe with verify=False if the newest event of each key is"
        " enough"
    )
