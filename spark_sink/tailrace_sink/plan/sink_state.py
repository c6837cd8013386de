"""State of the lake before and after a batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from tailrace_schemas.topics.topic_names import TableName
from tailrace_sink.plan.progress_record import ProgressRecord
from tailrace_sink.plan.topic_ranges import TopicRange
from tailrace_sink.tables.lake_table import table_at

_PARTS = 3
"""Parts of a table's name, with which its topic ends: their dots are escaped."""


@dataclass(frozen=True, slots=True)
class Position:
    """The position up to which the progress records were applied.

    Attributes:
        partition: of the progress topic.
        next_offset: of the first record that is not passed.
        closed_lsn: of the last passed record.
    """

    partition: int
    next_offset: int
    closed_lsn: str

    @classmethod
    def after(cls, record: ProgressRecord) -> Self:
        """Return the position after a record."""
        return cls(record.partition, record.offset + 1, record.progress.closed_lsn)


@dataclass(frozen=True, slots=True)
class CutPoint:
    """A cut of the tables.

    Attributes:
        lsn: the closed LSN of the cut.
        commit_ms: source commit time of that LSN, milliseconds UTC; None if unknown.
    """

    batch: int
    lsn: str
    commit_ms: int | None = None


def later_of(known_ms: int | None, found_ms: int | None) -> int | None:
    """Return the later of two commit times, of which either may be unknown."""
    if known_ms is None or found_ms is None:
        return found_ms if known_ms is None else known_ms
    return max(known_ms, found_ms)


@dataclass(frozen=True, slots=True)
class SinkState:
    """The state of the lake by its last commit row.

    Attributes:
        batch: batch id, which grows with every cut; 0 before the first. It is the offset after the
            cut's last progress record.
        closed_lsn: of the cut; empty before the first.
        closed_commit_ms: source commit time of that LSN, milliseconds UTC; or a later one of an
            earlier cut, if the source's clock was set back. So a time means one cut for good.
        position: in the progress topic; None before the first cut.
        held: topic of each unfinished snapshot to its held offsets.
        stopped: topic to reason of each table that only a new snapshot brings back.
        offsets: next offsets of the lake, by topic and partition.
        versions: path below the lake to the version of each table in the cut.
        homes: path of a source table to the path of the lake table with its rows. Has those whose
            rows are in a table with others, and those of which only parts are applied.
        server: logical name of the source; empty before the first cut.
    """

    batch: int = 0
    closed_lsn: str = ""
    closed_commit_ms: int | None = None
    position: Position | None = None
    held: Mapping[str, TopicRange] = field(default_factory=dict)
    stopped: Mapping[str, str] = field(default_factory=dict)
    offsets: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    versions: Mapping[str, int] = field(default_factory=dict)
    homes: Mapping[str, str] = field(default_factory=dict)
    server: str = ""
    database: str = ""

    @property
    def point(self) -> CutPoint:
        """The cut of the state."""
        return CutPoint(self.batch, self.closed_lsn, self.closed_commit_ms)

    @property
    def left_out(self) -> dict[str, frozenset[TableName]]:
        """Sources whose rows are not at the cut, by the path of the table that they share.

        They are held or stopped. A table that has no other source is left out as a whole.
        """
        names = (topic.split(".")[-_PARTS:] for topic in (*self.held, *self.stopped))
        away = {"/".join(parts) for parts in names}
        found: dict[str, set[TableName]] = {}
        for path, home in self.homes.items():
            if path in away and home != path:
                found.setdefault(home, set()).add(table_at(path)[0])
        return {home: frozenset(tables) for home, tables in found.items()}

    @property
    def next_offset(self) -> int | None:
        """Offset of the first progress record that is not passed; None before the first cut."""
        return None if self.position is None else self.position.next_offset

    def home_of(self, path: str) -> str | None:
        """Return the path of the lake table with a source table's rows; None if it is unknown."""
        return self.homes.get(path) or (path if path in self.versions else None)


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """The plan of one batch: the ranges to apply and the state after it.

    Attributes:
        topics: ranges to apply, ordered by topic.
        following: state after the batch, with the table versions of before.
        published_ms: when the newest record was published, milliseconds UTC.
        moves: whether readers see a difference: changes, or a newer LSN.
        patched: topic, column and LSN from which on a column of it is whole.
    """

    topics: tuple[TopicRange, ...]
    following: SinkState
    published_ms: int
    moves: bool
    patched: tuple[tuple[str, str, str], ...] = ()

    @property
    def point(self) -> CutPoint:
        """The cut after the batch."""
        return self.following.point

    @property
    def count(self) -> int:
        """Changes in all ranges by the ledger."""
        return sum(topic.count for topic in self.topics)
