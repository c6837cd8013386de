"""Progress records, assembled into groups of whole source transactions. Pure.

A group ends with the record that closes an LSN. Its events are changes of (``after_lsn``,
``closed_lsn``] and snapshot rows at ``closed_lsn`` (``tailrace_schemas.records.progress``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from tailrace.subscribe.errors import ProgressGap, SourceWentBack
from tailrace_schemas.records.progress import Progress

Where = tuple[str, int]
"""Topic and partition."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Offsets [first, next) that one Kafka transaction filled.

    Attributes:
        count: events by the ledger, tombstones left out.
    """

    where: Where
    first: int
    next: int
    count: int


@dataclass(frozen=True, slots=True)
class Group:
    """The records up to and including one that closes an LSN.

    Attributes:
        first: offset of its first record in the progress topic.
        next: offset after its last record.
        commit_ms: commit time of ``closed_lsn``, milliseconds UTC.
        started: topics of tables whose snapshot begins with it.
        ended: topics of tables that are whole at ``closed_lsn``; with columns if a patch made only
            these whole.
        named: topics that its last record names: tables that are not part of the cut.
    """

    first: int
    next: int
    after_lsn: str
    closed_lsn: str
    commit_ms: int | None
    segments: tuple[Segment, ...]
    started: tuple[str, ...] = ()
    ended: tuple[tuple[str, tuple[str, ...]], ...] = ()
    named: frozenset[str] = frozenset()

    def without(self, topics: frozenset[str]) -> Group:
        """The group without some topics."""
        return replace(
            self,
            segments=tuple(part for part in self.segments if part.where[0] not in topics),
            started=tuple(topic for topic in self.started if topic not in topics),
            ended=tuple(one for one in self.ended if one[0] not in topics),
        )


@dataclass(slots=True)
class GroupRecords:
    """Assembles groups.

    Attributes:
        reached: closed LSN of the newest record; None before the first.
        named: topics that the newest record names: tables that are not part of the cut.
    """

    is_wanted: Callable[[str], bool]
    reached: str | None = None
    named: frozenset[str] = frozenset()
    _open: list[Segment] = field(default_factory=list)
    _first: int | None = None
    _started: dict[str, None] = field(default_factory=dict)
    _left: dict[str, None] = field(default_factory=dict)

    def add(self, offset: int, record: Progress) -> Group | None:
        """Add the next record; return the group that it ends, if it ends one.

        Raises:
            ProgressGap: the record does not start where the one before it ended.
            SourceWentBack: it closes an older LSN.
        """
        self._check(offset, record)
        after = record.after_lsn if self.reached is None else self.reached
        if self._first is None:
            self._first = offset
        self._name(record)
        self._open += (
            Segment((part.topic, part.partition), part.first_offset, part.next_offset, part.count)
            for part in record.partitions
            if self.is_wanted(part.topic)
        )
        self.reached = record.closed_lsn
        if not record.closed:
            return None
        patched = (p for p in record.patched if self.is_wanted(p.topic))
        group = Group(
            self._first,
            offset + 1,
            after,
            record.closed_lsn,
            record.closed_commit_ms,
            tuple(self._open),
            tuple(self._started),
            (
                *((topic, ()) for topic in self._left),
                *((p.topic, tuple(p.columns)) for p in patched),
            ),
            self.named,
        )
        self._first, self._open, self._started, self._left = None, [], {}, {}
        return group

    def _name(self, record: Progress) -> None:
        found = frozenset(filter(self.is_wanted, record.snapshotting))
        for topic in sorted(found - self.named):
            self._started[topic] = None
            self._left.pop(topic, None)
        for topic in sorted(self.named - found):
            self._left[topic] = None
        self.named = found

    def _check(self, offset: int, record: Progress) -> None:
        if self.reached is None:
            return
        where = f"progress record at offset {offset}"
        if record.after_lsn > self.reached:
            raise ProgressGap(
                f"{where} begins after LSN {record.after_lsn}, the record before it ended at"
                f" {self.reached}: the records between them are gone. Fix: begin again with"
                " Start.from_snapshot(), and raise retention.ms of the progress topic"
            )
        if record.closed_lsn < self.reached:
            raise SourceWentBack(
                f"{where} closes LSN {record.closed_lsn}, older than {self.reached}: the source was"
                " restored or replaced. Fix: begin again with Start.from_snapshot()"
            )
