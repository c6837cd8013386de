"""Groups of progress records, each with whole source transactions of one shard."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tailrace_sink.errors import ForeignRecord, LsnWentBackwards, ProgressGap
from tailrace_sink.plan.progress_record import ProgressRecord
from tailrace_sink.plan.sink_state import SinkState


@dataclass(frozen=True, slots=True)
class Group:
    """Records of one shard up to and including one that closes an LSN.

    Attributes:
        count: changes by the ledger.
        bytes: of values, as far as the ledger counts them.
    """

    shard: int
    records: tuple[ProgressRecord, ...]
    count: int
    bytes: int

    @classmethod
    def of(cls, shard: int, records: Sequence[ProgressRecord]) -> Group:
        """Create the group of some records."""
        parts = (part for record in records for part in record.progress.partitions)
        size = sum(part.bytes or 0 for part in parts)
        return cls(shard, tuple(records), sum(record.count for record in records), size)

    @property
    def after_lsn(self) -> str:
        """Closed LSN of the record before the group."""
        return self.records[0].progress.after_lsn

    @property
    def closed_lsn(self) -> str:
        """LSN that the group closes."""
        return self.records[-1].progress.closed_lsn

    @property
    def batch(self) -> int:
        """Batch id of the cut of the log with its last record."""
        return self.records[-1].batch


def in_order(groups: Mapping[int, Iterable[Group]]) -> Iterator[Group]:
    """Merge the groups of all shards by the LSNs that they close."""
    return heapq.merge(*groups.values(), key=lambda group: (group.closed_lsn, group.shard))


def shards_by_now(shards: int, groups: Iterable[Group]) -> int:
    """Return the number of shards after some groups.

    Args:
        shards: the least number of shards.
        groups: their records name the number of shards.
    """
    told = (record.progress.shards for group in groups for record in group.records)
    return max(shards, max(told, default=1))


class Backlog:
    """Progress records that are not passed yet, as groups by shard.

    Each record is examined once, when it is added. Passed records are dropped from the front. So
    the cost of a plan does not grow with the backlog.

    Args:
        state: the start; records before it are ignored.
    """

    def __init__(self, state: SinkState) -> None:
        self._source = (state.server, state.database)
        self._shards: dict[int, _Shard] = {}
        for shard, position in state.shards.items():
            self._shards[shard] = _Shard(position.next_offset, position.closed_lsn)

    @classmethod
    def of(cls, state: SinkState, records: Iterable[ProgressRecord]) -> Backlog:
        """Create the backlog of records in any order."""
        backlog = cls(state)
        backlog.add(records)
        return backlog

    @property
    def count(self) -> int:
        """Changes by the ledger."""
        return sum(shard.count for shard in self._shards.values())

    @property
    def length(self) -> int:
        """Number of records."""
        return sum(shard.length for shard in self._shards.values())

    def bytes_of(self, shard: int) -> int:
        """Bytes of the records of one shard, as they are in the topic."""
        return self._shards[shard].size if shard in self._shards else 0

    def records(self) -> Iterator[ProgressRecord]:
        """All records, shard by shard."""
        for shard in self._shards.values():
            yield from (record for group in shard.groups for record in group.records)
            yield from shard.open

    def add(self, records: Iterable[ProgressRecord]) -> None:
        """Add records, for each shard in order; known ones are ignored.

        Raises:
            ProgressGap: a record does not start where the one before it ended.
            LsnWentBackwards: a record closes an older LSN than the one before it.
            ForeignRecord: a record is from another database.
        """
        for record in sorted(records, key=lambda record: (record.partition, record.offset)):
            progress = record.progress
            number = progress.shard
            shard = self._shards.setdefault(number, _Shard(0, None))
            if record.offset < shard.next_offset:
                continue
            self._check_source(record)
            if shard.through is not None:
                if progress.closed_lsn < shard.through:
                    raise LsnWentBackwards(
                        number, shard.through, progress.closed_lsn, record.offset
                    )
                if progress.after_lsn > shard.through:
                    raise ProgressGap(number, shard.through, progress.after_lsn, record.offset)
            shard.add(number, record)

    def after(self, state: SinkState) -> dict[int, Sequence[Group]]:
        """Return the groups after a state, by shard, and drop those before it."""
        for number, position in state.shards.items():
            known = self._shards.get(number)
            if known is None or known.next_offset < position.next_offset:
                self._shards[number] = _Shard(position.next_offset, position.closed_lsn)
            else:
                known.pass_to(position.next_offset)
        return {number: shard.groups for number, shard in self._shards.items()}

    def _check_source(self, record: ProgressRecord) -> None:
        progress = record.progress
        if not self._source[1]:
            self._source = (progress.server, progress.database)
        if self._source != (progress.server, progress.database):
            server, database = self._source
            raise ForeignRecord(
                f"progress record at offset {record.offset} is about {progress.server}/"
                f"{progress.database}, the lake follows {server}/{database}: LSNs of two databases"
                " do not compare. Fix: give each database a prefix and a lake of its own"
            )


class _Shard:
    """The waiting groups of one shard."""

    def __init__(self, next_offset: int, through: str | None) -> None:
        self.next_offset = next_offset
        self.through = through
        self.groups: deque[Group] = deque()
        self.open: list[ProgressRecord] = []
        self.count = self.length = self.size = 0

    def add(self, number: int, record: ProgressRecord) -> None:
        """Add the next record."""
        self.next_offset = record.offset + 1
        self.through = record.progress.closed_lsn
        self.open.append(record)
        self._count([record], 1)
        if record.progress.closed:
            self.groups.append(Group.of(number, self.open))
            self.open = []

    def pass_to(self, next_offset: int) -> None:
        """Drop the groups before an offset."""
        while self.groups and self.groups[0].records[-1].offset < next_offset:
            self._count(self.groups.popleft().records, -1)

    def _count(self, records: Sequence[ProgressRecord], sign: int) -> None:
        self.length += sign * len(records)
        self.count += sign * sum(record.count for record in records)
        self.size += sign * sum(len(record.value) for record in records)
