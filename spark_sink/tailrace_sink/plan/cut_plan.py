"""Which progress records, with the changes that they count, make the next cut of the log.

Pure. The log takes whole groups (whole source transactions), as many as there are within the bound,
and does not look at snapshots or at what the lake's tables can follow: that is the fold's part,
which plans from the same progress records once they are in the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from tailrace_schemas.records.progress import PartitionProgress
from tailrace_schemas.topics.topic_names import TopicNames
from tailrace_sink.options.batch_options import Bound
from tailrace_sink.plan.progress_groups import Backlog, Group, in_order, shards_by_now
from tailrace_sink.plan.progress_record import ProgressRecord
from tailrace_sink.plan.sink_state import ShardPosition, SinkState
from tailrace_sink.plan.topic_ranges import data_parts

Named = Mapping[int, frozenset[str]]
"""Topics of unfinished snapshots that the last record of each shard names."""


@dataclass(slots=True)
class LogRange:
    """Offsets of one topic to copy.

    Attributes:
        partitions: partition to (first, next).
        count: changes that the ledger counts there.
        schema_ids: ids of their writer schemas.
        bytes: of their values, as far as the ledger tells.
    """

    partitions: dict[int, tuple[int, int]] = field(default_factory=dict)
    count: int = 0
    schema_ids: set[int] = field(default_factory=set)
    bytes: int = 0

    def take(self, part: PartitionProgress) -> None:
        """Add what one Kafka transaction wrote to a partition."""
        known = self.partitions.get(part.partition)
        if known is not None and part.first_offset < known[1]:
            # The topic was made again: what the older one held is gone.
            self.partitions, self.count, self.bytes = {}, 0, 0
            known = None
        first = part.first_offset if known is None else known[0]
        self.partitions[part.partition] = (first, part.next_offset)
        self.count += part.count
        self.bytes += part.bytes or 0
        self.schema_ids |= set(part.schema_ids)

    def from_offsets(self, starts: Mapping[int, int]) -> LogRange | None:
        """What of it is at or after some offsets, counted as before; None when nothing is."""
        partitions = {
            partition: (max(first, starts.get(partition, first)), end)
            for partition, (first, end) in self.partitions.items()
            if end > starts.get(partition, first)
        }
        return replace(self, partitions=partitions) if partitions else None


@dataclass(frozen=True, slots=True)
class LogCut:
    """One cut of the log: what to append, and the state that it leads to.

    Attributes:
        records: the progress records, in the order of their shards.
        topics: ranges to copy, by topic.
        following: the log's state after it.
        named: topics of unfinished snapshots after it, by shard.
        published_ms: when its newest record was published, milliseconds UTC.
        moves: whether it tells anything beyond "still here".
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
    *,
    shards: int = 1,
) -> LogCut | None:
    """The next cut of the log, or None when no group is complete.

    Args:
        state: where the log stands; its positions are what counts.
        named: as the last cut left it.
        backlog: the progress records that wait; what is in the log is dropped from it.
        names: tells data topics from ours.
        bound: how much is taken; one group always is.
        shards: how many shards there are at least; the cut has no newer LSN before all were heard
            of. Records say it, too.
    """
    taken: list[Group] = []
    changes = size = 0
    for group in in_order(backlog.after(state)):
        changes, size = changes + group.count, size + group.bytes
        if taken and not bound.allows(changes, size):
            break
        taken.append(group)
    if not taken:
        return None
    return _cut(state, named, taken, names, shards_by_now(shards, taken))


def _cut(
    state: SinkState, named: Named, groups: Iterable[Group], names: TopicNames, shards: int
) -> LogCut:
    positions = dict(state.shards)
    topics: dict[str, LogRange] = {}
    records: list[ProgressRecord] = []
    now_named = dict(named)
    commit_ms: dict[int, int | None] = {}
    is_renamed = False
    for group in groups:
        last = group.records[-1]
        positions[group.shard] = ShardPosition(last.partition, last.offset + 1, group.closed_lsn)
        commit_ms[group.shard] = last.progress.closed_commit_ms
        records += group.records
        for record in group.records:
            found = frozenset(record.progress.snapshotting)
            is_renamed = is_renamed or found != now_named.get(group.shard, frozenset())
            now_named[group.shard] = found
        for part in data_parts(group.records, names):
            topics.setdefault(part.topic, LogRange()).take(part)
    closed_lsn, closed_ms = state.closed_lsn, state.closed_commit_ms
    if len(positions) >= shards:
        slowest = min(positions, key=lambda shard: positions[shard].closed_lsn)
        if positions[slowest].closed_lsn != closed_lsn:
            closed_lsn = positions[slowest].closed_lsn
            closed_ms = commit_ms.get(slowest, closed_ms)
    newest = records[-1].progress
    following = replace(
        state,
        batch=sum(position.next_offset for position in positions.values()),
        closed_lsn=closed_lsn,
        closed_commit_ms=closed_ms,
        shards=positions,
        server=newest.server,
        database=newest.database,
    )
    return LogCut(
        records=tuple(records),
        topics=topics,
        following=following,
        named=now_named,
        published_ms=max(record.progress.published_ms for record in records),
        moves=bool(topics) or closed_lsn != state.closed_lsn or is_renamed,
    )
