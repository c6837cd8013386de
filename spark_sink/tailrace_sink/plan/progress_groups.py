"""Groups of progress records, each with whole source transactions."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tailrace_sink.errors import ForeignRecord, LsnWentBackwards, ProgressGap
from tailrace_sink.plan.progress_record import ProgressRecord
from tailrace_sink.plan.sink_state import SinkState


@dataclass(frozen=True, slots=True)
class Group:
    """Records up to and including one that closes an LSN.

    Attributes:
        count: changes by the ledger.
        bytes: of values, as far as the ledger counts them.
    """

    records: tuple[ProgressRecord, ...]
    count: int
    bytes: int

    @classmethod
    def of(cls, records: Sequence[ProgressRecord]) -> Group:
        """Create the group of some records."""
        parts = (part for record in records for part in record.progress.partitions)
        size = sum(part.bytes or 0 for part in parts)
        return cls(tuple(records), sum(record.count for record in records), size)

    @property
    def closed_lsn(self) -> str:
        """LSN that the group closes."""
        return self.last.progress.closed_lsn

    @property
    def last(self) -> ProgressRecord:
        """The record that closes it."""
        return self.records[-1]


class Backlog:
    """Progress records that are not passed yet, as groups.

    Each record is examined once, when it is added. Passed records are dropped from the front. So
    the cost of a plan does not grow with the backlog.

    Attributes:
        count: changes by the ledger.
        size: bytes of the ``length`` records, as they are in the topic.

    Args:
        state: the start; records before it are ignored.
    """

    def __init__(self, state: SinkState) -> None:
        self._source = (state.server, state.database)
        self._groups: deque[Group] = deque()
        self._open: list[ProgressRecord] = []
        self._next_offset = 0
        self._closed_lsn: str | None = None
        self.count = self.length = self.size = 0
        self.after(state)

    @classmethod
    def of(cls, state: SinkState, records: Iterable[ProgressRecord]) -> Backlog:
        """Create the backlog of records in any order."""
        backlog = cls(state)
        backlog.add(records)
        return backlog

    def records(self) -> Iterator[ProgressRecord]:
        """All records in order."""
        yield from (record for group in self._groups for record in group.records)
        yield from self._open

    def add(self, records: Iterable[ProgressRecord]) -> None:
        """Add records; known ones are ignored.

        Raises:
            ProgressGap: a record does not start where the one before it ended.
            LsnWentBackwards: a record closes an older LSN than the one before it.
            ForeignRecord: a record is from another database.
        """
        for record in sorted(records, key=lambda record: record.offset):
            if record.offset < self._next_offset:
                continue
            self._check(record)
            self._next_offset = record.offset + 1
            self._closed_lsn = record.progress.closed_lsn
            self._open.append(record)
            self._count([record], 1)
            if record.progress.closed:
                self._groups.append(Group.of(self._open))
                self._open = []

    def after(self, state: SinkState) -> Sequence[Group]:
        """Return the groups after a state, and drop those before it."""
        at = state.position
        if at is None:
            return self._groups
        if self._next_offset < at.next_offset:
            self._next_offset, self._closed_lsn = at.next_offset, at.closed_lsn
            self._groups.clear()
            self._open.clear()
            self.count = self.length = self.size = 0
        while self._groups and self._groups[0].last.offset < at.next_offset:
            self._count(self._groups.popleft().records, -1)
        return self._groups

    def _count(self, records: Sequence[ProgressRecord], sign: int) -> None:
        self.length += sign * len(records)
        self.count += sign * sum(record.count for record in records)
        self.size += sign * sum(len(record.value) for record in records)

    def _check(self, record: ProgressRecord) -> None:
        progress, known = record.progress, self._closed_lsn
        if not self._source[1]:
            self._source = (progress.server, progress.database)
        if self._source != (progress.server, progress.database):
            server, database = self._source
            raise ForeignRecord(
                f"progress record at offset {record.offset} is about {progress.server}/"
                f"{progress.database}, the lake follows {server}/{database}: LSNs of two databases"
                " do not compare. Fix: give each database a prefix and a lake of its own"
            )
        if known is not None and progress.closed_lsn < known:
            raise LsnWentBackwards(known, progress.closed_lsn, record.offset)
        if known is not None and progress.after_lsn > known:
            raise ProgressGap(known, progress.after_lsn, record.offset)
