"""Plan of a cut of the log: which progress records, with the changes that they count. Pure.

The log takes whole groups (whole source transactions) within the bound. It ignores snapshots and
the state of tables. The fold considers these later, from the same progress records in the log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tailrace_schemas.records.progress import PartitionProgress
from tailrace_schemas.topics.topic_names import TopicNames
from tailrace_sink.options.batch_bound import Bound
from tailrace_sink.plan.progress_groups import Backlog, Group
from tailrace_sink.plan.progress_record import ProgressRecord
from tailrace_sink.plan.sink_state import Position, SinkState, later_of
from tailrace_sink.plan.topic_ranges import data_parts

Named = frozenset[str]
"""Topics of unfinished snapshots, named by the last record."""


@dataclass(slots=True)
class LogRange:
    """Offsets of one topic to copy.

    Attributes:
        partitions: partition to (first, next).
        count: changes by the ledger.
        bytes: of values, as far as the ledger counts them.
        rows: snapshot rows among the changes, as far as the ledger counts them.
    """

    partitions: dict[int, tuple[int, int]] = field(default_factory=dict)
    count: int = 0
    schema_ids: set[int] = field(default_factory=set)
    bytes: int = 0
    rows: int = 0

    def take(self, part: PartitionProgress) -> None:
        """Add the offsets that one Kafka transaction wrote to a partition."""
        known = self.partitions.get(part.partition)
        if known is not None and part.first_offset < known[1]:
            # The topic was created again, and the changes of the old one are gone.
            self.partitions, self.count, self.bytes, self.rows = {}, 0, 0, 0
            known = None
        first = part.first_offset if known is None else known[0]
        self.partitions[part.partition] = (first, part.next_offset)
        self.count += part.count
        self.bytes += part.bytes or 0
        self.rows += 0 if part.operations is None else part.operations.reads
        self.schema_ids |= set(part.schema_ids)

    def to_json(self) -> dict[str, Any]:
        """Convert to the value in the state row of a cut that is not copied."""
        return {
            "offsets": {str(partition): list(of) for partition, of in self.partitions.items()},
            "changes": self.count,
            "rows": self.rows,
            "bytes": self.bytes,
            "schema_ids": sorted(self.schema_ids),
        }

    @classmethod
    def of_json(cls, found: Mapping[str, Any]) -> LogRange:
        """Read the value of :meth:`to_json`."""
        partitions = {int(p): (first, end) for p, (first, end) in found["offsets"].items()}
        ids = set(found["schema_ids"])
        return cls(partitions, found["changes"], ids, found["bytes"], found["rows"])

    def from_offsets(self, starts: Mapping[int, int]) -> LogRange | None:
        """Return the part at or after some offsets, with the same count; None if it is empty."""
        partitions = {
            partition: (max(first, starts.get(partition, first)), end)
            for partition, (first, end) in self.partitions.items()
            if end > starts.get(partition, first)
        }
        return replace(self, partitions=partitions) if partitions else None


@dataclass(frozen=True, slots=True)
class LogCut:
    """One cut of the log: the records and events to append, and the state after it.

    Attributes:
        records: progress records in order.
        topics: ranges to copy, by topic.
        following: state of the log after the cut.
        named: topics of unfinished snapshots after the cut.
        published_ms: when the newest record was published, milliseconds UTC.
        moves: whether it has more than heartbeats.
    """

    records: tuple[ProgressRecord, ...]
    topics: dict[str, LogRange]
    following: SinkState
    named: Named
    published_ms: int
    moves: bool

    @property
    def count(self) -> int:
        """Changes by the ledger."""
        return sum(found.count for found in self.topics.values())


def plan_cut(
    state: SinkState,
    named: Named,
    backlog: Backlog,
    names: TopicNames,
    bound: Bound,
) -> LogCut | None:
    """Plan the next cut of the log; None if no group is complete.

    Args:
        state: of the log; only its positions matter.
        named: topics of unfinished snapshots after the last cut.
        backlog: waiting progress records; those in the log are dropped from it.
        names: distinguishes data topics from the sink's own.
        bound: of the cut; a single group may exceed it.
    """
    taken: list[Group] = []
    changes = size = 0
    for group in backlog.after(state):
        changes, size = changes + group.count, size + group.bytes
        if taken and not bound.allows(changes, size):
            break
        taken.append(group)
    if not taken:
        return None
    return _cut(state, named, taken, names)


def _cut(state: SinkState, named: Named, groups: Sequence[Group], names: TopicNames) -> LogCut:
    topics: dict[str, LogRange] = {}
    records = tuple(record for group in groups for record in group.records)
    is_renamed = False
    for record in records:
        found = frozenset(record.progress.snapshotting)
        is_renamed = is_renamed or found != named
        named = found
        for part in data_parts(record.progress, names):
            topics.setdefault(part.topic, LogRange()).take(part)
    last = records[-1]
    newest = last.progress
    following = replace(
        state,
        batch=last.offset + 1,
        closed_lsn=newest.closed_lsn,
        closed_commit_ms=later_of(state.closed_commit_ms, newest.closed_commit_ms),
        position=Position.after(last),
        server=newest.server,
        database=newest.database,
    )
    return LogCut(
        records=records,
        topics=topics,
        following=following,
        named=named,
        published_ms=max(record.progress.published_ms for record in records),
        moves=bool(topics) or newest.closed_lsn != state.closed_lsn or is_renamed,
    )
