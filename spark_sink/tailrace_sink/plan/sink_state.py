"""Where the lake stands, and what a batch leads to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tailrace_sink.plan.topic_ranges import TopicRange


@dataclass(frozen=True, slots=True)
class ShardPosition:
    """How far a shard's progress records were applied.

    Attributes:
        partition: partition of the progress topic that the shard writes to.
        next_offset: offset of the first record that is not passed.
        closed_lsn: closed LSN of the last passed record.
    """

    partition: int
    next_offset: int
    closed_lsn: str


@dataclass(frozen=True, slots=True)
class CutPoint:
    """A cut of the tables.

    Attributes:
        batch: the batch id.
        lsn: the closed LSN.
        commit_ms: commit time of that LSN at the source, milliseconds UTC; None when not known.
    """

    batch: int
    lsn: str
    commit_ms: int | None = None


@dataclass(frozen=True, slots=True)
class SinkState:
    """Where the lake stands: what the last commit row says.

    Attributes:
        batch: batch id, grows with every cut; 0 before the first.
        closed_lsn: the cut's LSN; empty before the first.
        closed_commit_ms: commit time of that LSN at the source, milliseconds UTC.
        shards: positions in the progress topic.
        held: topics of unfinished snapshots with the offsets that wait.
        stopped: topics of tables that the lake cannot follow, and why; only a new snapshot brings
            them back.
        offsets: next offsets by topic and partition that the lake holds.
        versions: table (path below the lake) to its version in this cut.
        server: the source's logical name; empty before the first cut.
        database: the source database.
    """

    batch: int = 0
    closed_lsn: str = ""
    closed_commit_ms: int | None = None
    shards: Mapping[int, ShardPosition] = field(default_factory=dict)
    held: Mapping[str, TopicRange] = field(default_factory=dict)
    stopped: Mapping[str, str] = field(default_factory=dict)
    offsets: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    versions: Mapping[str, int] = field(default_factory=dict)
    server: str = ""
    database: str = ""

    @property
    def point(self) -> CutPoint:
        """Where it stands."""
        return CutPoint(self.batch, self.closed_lsn, self.closed_commit_ms)


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """One cut: what to read, and the state that it leads to (without the table versions).

    Attributes:
        topics: ranges to read and apply, ordered by topic; empty when nothing changed.
        following: the state after the batch; table versions are still those before.
        published_ms: when the newest record of the cut was published, milliseconds UTC.
        moves: whether readers would see a difference: changes, or a newer LSN.
    """

    topics: tuple[TopicRange, ...]
    following: SinkState
    published_ms: int
    moves: bool

    @property
    def point(self) -> CutPoint:
        """Where it leads to."""
        return self.following.point

    @property
    def count(self) -> int:
        """Records in all ranges by the ledger."""
        return sum(topic.count for topic in self.topics)
