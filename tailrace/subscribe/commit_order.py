"""The events of all partitions in commit order, up to each closed LSN. Pure.

Theory of operation. Within a partition the events have the order of their positions. Progress
records say which offsets belong to which group of source transactions, and up to which LSN every
event is published. So events are merged window by window:

- A *window* has the groups that are known.
- In a window the partition with the least position comes next, once each partition that may still
  have an event has shown its next one.

A row that was read has the position of its fence, before the changes of that commit. It may be
published after them. So its place is never before the event that precedes it in its partition, nor
before the LSN that ended the group before. Equal places are ordered by group, topic and partition.
So the sequence depends on the topics alone, not on what arrives when.

The beginning and the end of a table's snapshot divide windows, so that they have their exact place.

Memory: records that wait are counted for each partition. The caller stops fetching a partition that
holds too many (:meth:`CommitOrder.waiting_bytes`).
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Generic, TypeVar, cast

from tailrace.subscribe.bookmark import Place
from tailrace.subscribe.errors import EventsRemoved
from tailrace.subscribe.groups import Group, Where
from tailrace.subscribe.queues import Decode, GroupQueue, Key, PartitionQueue, Planned
from tailrace_schemas.position.change_position import ChangePosition
from tailrace_schemas.position.lsn import LSN_BYTES, Lsn

T = TypeVar("T")

_AFTER_COMMIT: Final = ChangePosition.end_of(Lsn.ZERO).to_bytes()[LSN_BYTES:]


@dataclass(frozen=True, slots=True)
class Ready(Generic[T]):
    """The next event in commit order.

    Attributes:
        place: its position, or that of the event that it cannot precede, packed.
    """

    where: Where
    offset: int
    place: bytes
    event: T


@dataclass(frozen=True, slots=True)
class Started:
    """A table's snapshot begins: what follows is the whole table."""

    topic: str
    after_lsn: str


@dataclass(frozen=True, slots=True)
class Ended:
    """A table is whole at a closed LSN.

    Attributes:
        columns: those that a patch made whole; of a snapshot empty.
    """

    topic: str
    closed_lsn: str
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WindowEnd:
    """Every event up to an LSN has been taken.

    Attributes:
        commit_ms: its commit time, milliseconds UTC; None if unknown.
    """

    closed_lsn: str
    commit_ms: int | None


Taken = Ready[T] | Started | Ended | WindowEnd


class CommitOrder(Generic[T]):
    """Merges partitions.

    Args:
        decode: of a value that is not a tombstone.
        begins: offsets below which events were taken before, see :attr:`consumed`.
        verify: whether each segment must hold the events that the ledger counts.
    """

    def __init__(
        self,
        decode: Decode[T],
        place: Place,
        begins: Mapping[Where, int] | None = None,
        *,
        verify: bool = True,
    ) -> None:
        self._decode = decode
        self._groups = GroupQueue(place)
        self._begins = dict(begins or {})
        self.verify = verify
        self._partitions: dict[Where, PartitionQueue[T]] = {}
        self._fetch: dict[Where, int] = {}
        self._last = WindowEnd("", None)
        self._ready: deque[Started | Ended] = deque()
        self._has_ended = False
        self._heap: list[tuple[Key, Where]] = []
        self._unsettled: dict[Where, PartitionQueue[T]] = {}

    def add(self, group: Group) -> None:
        """Add the next group."""
        self._groups.groups.append(group)

    def push(self, where: Where, offset: int, value: bytes | None, size: int) -> None:
        """Add the next record of a partition; None is a tombstone."""
        partition = self._partitions.get(where)
        if partition is not None and offset >= partition.known:
            partition.records.append((offset, value, size))
            partition.size += size
            partition.known = offset + 1

    def reached_end(self, where: Where, offset: int) -> None:
        """The partition has no further record below an offset."""
        partition = self._partitions.get(where)
        if partition is not None:
            partition.known = max(partition.known, offset)

    def to_fetch(self) -> dict[Where, int]:
        """Partitions to fetch from an offset from now on, until :meth:`fetching` says so."""
        return dict(self._fetch)

    def fetching(self, where: Where) -> None:
        """A partition is fetched."""
        del self._fetch[where]

    def waiting_bytes(self, where: Where) -> int:
        """Bytes of a partition that wait here."""
        return self._partitions[where].size if where in self._partitions else 0

    @property
    def waiting_groups(self) -> int:
        """How many groups are not passed."""
        return len(self._groups.groups)

    def next_of(self, where: Where) -> int:
        """The offset below which everything of a partition was taken."""
        return self._partitions[where].next

    @property
    def missing(self) -> int:
        """Events that the topics lack, where that is no error."""
        return sum(partition.missing for partition in self._partitions.values())

    @property
    def is_idle(self) -> bool:
        """Whether nothing can be taken until another group is added."""
        return not self._groups.groups and not self._ready

    @property
    def place(self) -> Place:
        """The place of the first progress record whose events are not all taken."""
        return self._groups.place

    @property
    def consumed(self) -> dict[Where, int]:
        """Next offsets of partitions that groups from :attr:`place` on have given events of."""
        return self._begins | self._groups.consumed

    def take(self) -> Taken[T] | None:
        """The next in order; None until more is known.

        Raises:
            EventsRemoved: a segment lacks events.
            Exception: what ``decode`` raises. Nothing is taken then, and a later call tries again.
        """
        if not self._groups.window and not self._ready and not self._open():
            return self._where_it_begins()
        if self._ready:
            return self._ready.popleft()
        self._groups.begin()
        for where, partition in list(self._unsettled.items()):
            if partition.settle(self._decode, verify=self.verify):
                del self._unsettled[where]
                if partition.head is not None:
                    heapq.heappush(self._heap, (partition.head[0], where))
        if self._unsettled:
            return None
        return self._give() if self._heap else self._close()

    def _open(self) -> bool:
        """Open the next window; False if no further LSN is closed."""
        groups = self._groups.open()
        if groups and not self._groups.place.is_started:
            self._ready += (Started(topic, groups[0].after_lsn) for topic in groups[0].started)
        for group in groups:
            self._plan(group)
        return bool(groups)

    def _where_it_begins(self) -> WindowEnd | None:
        """The end of what was taken before, once, if nothing has followed it yet."""
        lsn = self._groups.place.lsn
        if lsn is None or self._last.closed_lsn:
            return None
        self._last = WindowEnd(lsn, None)
        return self._last

    def _plan(self, group: Group) -> None:
        floor = bytes.fromhex(group.after_lsn.replace(":", "")) + _AFTER_COMMIT
        for segment in group.segments:
            begin = self._begins.get(segment.where, 0)
            if begin > segment.first:
                self._groups.consumed[segment.where] = begin
            if begin <= segment.next:
                self._begins.pop(segment.where, None)
            if begin >= segment.next:
                continue
            first = max(segment.first, begin)
            partition = self._partitions.get(segment.where)
            if partition is None or first < partition.frontier:
                partition = self._begin(segment.where, first, partition)
            count = segment.count if begin <= segment.first else None
            partition.frontier = segment.next
            given = replace(segment, first=first)
            partition.planned.append(Planned(given, group.first, floor, count))
            if partition.head is None:
                self._unsettled[segment.where] = partition

    def _begin(
        self, where: Where, first: int, known: PartitionQueue[T] | None
    ) -> PartitionQueue[T]:
        """Begin with a partition; again, if its topic was created again."""
        if known is not None and (known.planned or known.head is not None):
            raise EventsRemoved(
                f"topic {where[0]} was deleted and created again, with events that were not read."
                " Fix: begin again with Start.from_snapshot()"
            )
        partition = known or PartitionQueue[T](where)
        partition.restart(first)
        self._partitions[where] = partition
        self._fetch[where] = first
        return partition

    def _give(self) -> Ready[T]:
        key, where = heapq.heappop(self._heap)
        partition = self._partitions[where]
        _, offset, event = cast("tuple[Key, int, T]", partition.head)
        partition.head = None
        partition.found += 1
        partition.drop()
        self._groups.consumed[where] = offset + 1
        self._unsettled[where] = partition
        return Ready(where, offset, key[0], event)

    def _close(self) -> Started | Ended | WindowEnd:
        """End the window; the tables that are whole come first, and only then it is passed."""
        if not self._has_ended:
            self._has_ended = True
            for group in self._groups.merged():
                self._ready += (Ended(of, group.closed_lsn, c) for of, c in group.ended)
            if self._ready:
                return self._ready.popleft()
        self._has_ended = False
        last = self._groups.close()
        commit_ms = last.commit_ms
        if commit_ms is None and self._last.closed_lsn == last.closed_lsn:
            commit_ms = self._last.commit_ms
        self._last = WindowEnd(last.closed_lsn, commit_ms)
        return self._last
