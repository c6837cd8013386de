"""Records and groups that wait for their turn in the commit order. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import islice, pairwise
from typing import Generic, TypeVar

from tailrace.subscribe.bookmark import ShardPlace
from tailrace.subscribe.errors import EventsRemoved
from tailrace.subscribe.groups import Group, Segment, Where
from tailrace_schemas.position.change_position import Operation

T = TypeVar("T")

Key = tuple[bytes, int, int, str, int]
"""Place, shard, group, topic and partition."""

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
    shard: int
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
            key = (self.place, planned.shard, planned.group, *self.where)
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
class ShardQueue:
    """The groups of a shard that are not taken.

    Attributes:
        place: before the first group.
        planned: how many groups at the front are planned.
        passing: how many of them the window passes.
        consumed: next offsets of the partitions that planned groups gave events of.
    """

    place: ShardPlace
    reached: str | None
    groups: deque[Group] = field(default_factory=deque)
    planned: int = 0
    passing: int = 0
    consumed: dict[Where, int] = field(default_factory=dict)

    def first_break(self) -> str | None:
        """The closed LSN at which a window must end, so that a marker has its exact place."""
        for before, group in pairwise(self.groups):
            if before.ended or group.started:
                return before.closed_lsn
        return None

    def begin(self) -> None:
        """The beginnings of snapshots of the first group were taken."""
        if self.planned and not self.place.is_started:
            self.place = replace(self.place, is_started=True)

    def ending(self) -> list[Group]:
        """The groups that the window passes."""
        return list(islice(self.groups, self.passing))

    def passed(self) -> list[Group]:
        """Pass the groups of the window; return them."""
        found = [self.groups.popleft() for _ in range(self.passing)]
        self.planned -= self.passing
        self.passing = 0
        if found:
            last = found[-1]
            started = self.planned > 0
            self.place = ShardPlace(last.next, last.closed_lsn, last.named, started)
        if not self.planned:
            self.consumed.clear()
        return found

    def window(self, cut: str) -> tuple[int, int]:
        """How many groups a window touches, and how many of them it passes."""
        passed = 0
        for group in self.groups:
            if passed and (self.groups[passed - 1].ended or group.started):
                return passed, passed
            if group.closed_lsn > cut:
                return passed + (group.after_lsn < cut), passed
            passed += 1
        return passed, passed


def _removed(segment: Segment, found: int) -> EventsRemoved:
    topic, partition = segment.where
    return EventsRemoved(
        f"topic {topic} partition {partition} holds {found} events at offsets {segment.first} to"
        f" {segment.next - 1}, {segment.count} were published: retention or compaction removed the"
        " others. Fix: begin again with Start.from_snapshot(), and set cleanup.policy=delete and a"
        " longer retention.ms; or subscribe with verify=False if the newest event of each key is"
        " enough"
    )
