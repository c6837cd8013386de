"""From progress records to batches: which offsets of which topics make the next cut.

Theory of operation. Every Kafka transaction of the publisher carries one progress record. Records
of one shard form *groups*: a group ends with the record that closes an LSN, so it holds whole
source transactions. The next cut is the newest closed LSN that every shard has reached, bounded by
the number of changes. A group at or below the cut is *passed*; one that only begins below it (its
shard is ahead of the others) is *partial*: its changes up to the cut are taken now, the rest when
it is passed, so it is read twice and filtered by LSN both times. Topics of tables whose snapshot is
not finished are *held* from the first record that names them: their offsets from there on are
remembered and read, together with what follows, by the first cut whose last record no longer names
them. What is released so holds the table *whole*: every row that the source has, so a row that the
lake has and this does not was deleted while nobody followed the table. Where more waits than a
batch takes, it is applied in *parts* as it comes, the table still out of the cut; the last part
then *finishes* it, which takes away what is older than the naming (ADR 0051).

Everything here is pure: the same records and the same state give the same batch. A replay after a
crash may have more records, so what was begun is written down (``intent``) and not planned again.
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, cast

import fastavro

from tailrace_schemas.framing import split_frame
from tailrace_schemas.progress import PROGRESS_SCHEMA, Progress
from tailrace_schemas.topics import TopicNames
from tailrace_sink.errors import ForeignRecord, LsnWentBackwards, ProgressGap
from tailrace_sink.topic_ranges import (
    ProgressRecord,
    RangeSorter,
    TopicRange,
    add,
    begins_below,
    data_parts,
)

SchemaById = Callable[[int], dict[str, Any]]
"""Looks a registered schema up by its id."""

_READER = fastavro.parse_schema(PROGRESS_SCHEMA)


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


@dataclass(frozen=True, slots=True)
class CutPoint:
    """Where a batch leads to.

    Attributes:
        batch: the batch id.
        lsn: the closed LSN.
        commit_ms: commit time of that LSN at the source, milliseconds UTC; None when not known.
    """

    batch: int
    lsn: str
    commit_ms: int | None = None


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
        state = self.following
        return CutPoint(state.batch, state.closed_lsn, state.closed_commit_ms)

    @property
    def count(self) -> int:
        """Records in all ranges by the ledger."""
        return sum(topic.count for topic in self.topics)


def decode_progress(value: bytes, schema_by_id: SchemaById) -> Progress:
    """A progress record from its framed bytes; a newer writer's extra fields are ignored.

    Raises:
        ForeignRecord: not a progress record.
    """
    try:
        schema_id, body = split_frame(value)
        writer = _parsed(schema_by_id, schema_id)
        raw = cast("dict[str, Any]", fastavro.schemaless_reader(io.BytesIO(body), writer, _READER))
        return Progress.from_record(raw)
    except (ValueError, EOFError, TypeError, KeyError, IndexError) as error:
        raise ForeignRecord(
            f"the progress topic holds a record that is not one of ours ({error}); remove foreign"
            " producers from the topic"
        ) from error


@lru_cache(maxsize=64)
def _parsed(schema_by_id: SchemaById, schema_id: int) -> Any:
    return fastavro.parse_schema(schema_by_id(schema_id))


@dataclass(frozen=True, slots=True)
class Group:
    """Records of one shard up to and including one that closes an LSN."""

    shard: int
    records: tuple[ProgressRecord, ...]

    @property
    def after_lsn(self) -> str:
        """Closed LSN of the record before the group."""
        return self.records[0].progress.after_lsn

    @property
    def closed_lsn(self) -> str:
        """The LSN that the group closes."""
        return self.records[-1].progress.closed_lsn

    @property
    def count(self) -> int:
        """Changes by the ledger."""
        return sum(record.count for record in self.records)

    @property
    def bytes(self) -> int:
        """Bytes of their values, as far as the ledger tells."""
        parts = (part for record in self.records for part in record.progress.partitions)
        return sum(part.bytes or 0 for part in parts)


@dataclass(frozen=True, slots=True)
class Bound:
    """How much one cut or batch takes; at least one closed LSN, whatever it has.

    Attributes:
        changes: by the ledger.
        bytes: of their values, as far as the ledger tells.
    """

    changes: int
    bytes: int = 1 << 62

    def allows(self, changes: int, size: int) -> bool:
        """Whether so many changes of so many bytes are within it."""
        return changes <= self.changes and size <= self.bytes


def plan_batch(
    state: SinkState,
    records: Iterable[ProgressRecord],
    names: TopicNames,
    bound: Bound,
    *,
    shards: int = 1,
) -> BatchPlan | None:
    """The next cut, or None when no further LSN is closed.

    Args:
        state: where the lake stands.
        records: progress records in any order; those already passed are ignored.
        names: tells data topics from ours.
        bound: how much is taken; one closed LSN always is.
        shards: how many shards there are at least; no cut before all were heard of. Records say it,
            too.

    Raises:
        ProgressGap: a record does not join on to the one before it.
        LsnWentBackwards: a record closes an older LSN than the one before it.
        ForeignRecord: a record is from another database.
    """
    groups = groups_by_shard(state, records)
    shards = shards_by_now(shards, (group for found in groups.values() for group in found))
    closed = {shard: position.closed_lsn for shard, position in state.shards.items()}
    closed |= {shard: found[-1].closed_lsn for shard, found in groups.items() if found}
    if len(closed) < shards:
        return None
    cut = _choose_cut(groups, min(closed.values()), bound)
    if cut is None:
        return None
    passed = [group for found in groups.values() for group in found if group.closed_lsn <= cut]
    partial = [
        group
        for found in groups.values()
        for group in found
        if group.after_lsn < cut < group.closed_lsn
    ]
    return _build(state, passed, partial, cut, names, bound)


def shards_by_now(shards: int, groups: Iterable[Group]) -> int:
    """How many shards there are when some groups are passed.

    Args:
        shards: how many there are at least.
        groups: of records, each of which says it.
    """
    told = (record.progress.shards for group in groups for record in group.records)
    return max(shards, max(told, default=1))


def groups_by_shard(state: SinkState, records: Iterable[ProgressRecord]) -> dict[int, list[Group]]:
    """The groups of records that were not passed, by shard.

    Raises:
        ProgressGap: a record does not join on to the one before it.
        LsnWentBackwards: a record closes an older LSN than the one before it.
        ForeignRecord: a record is from another database.
    """
    by_shard: dict[int, list[ProgressRecord]] = {}
    for record in sorted(records, key=lambda record: (record.partition, record.offset)):
        by_shard.setdefault(record.progress.shard, []).append(record)
    return {shard: _groups(state, shard, found) for shard, found in by_shard.items()}


def _groups(state: SinkState, shard: int, records: Sequence[ProgressRecord]) -> list[Group]:
    position = state.shards.get(shard)
    through = position.closed_lsn if position else None
    groups: list[Group] = []
    open_records: list[ProgressRecord] = []
    for record in records:
        if position is not None and record.offset < position.next_offset:
            continue
        progress = record.progress
        if state.database and (progress.server, progress.database) != (
            state.server,
            state.database,
        ):
            raise ForeignRecord(
                f"progress record at offset {record.offset} is about {progress.server}/"
                f"{progress.database}, the lake follows {state.server}/{state.database}: LSNs of"
                " two databases do not compare; give each a prefix and a lake of its own"
            )
        if through is not None:
            if progress.closed_lsn < through:
                raise LsnWentBackwards(shard, through, progress.closed_lsn, record.offset)
            if progress.after_lsn > through:
                raise ProgressGap(shard, through, progress.after_lsn, record.offset)
        through = progress.closed_lsn
        open_records.append(record)
        if progress.closed:
            groups.append(Group(shard, tuple(open_records)))
            open_records = []
    return groups


def _choose_cut(groups: Mapping[int, Sequence[Group]], ceiling: str, bound: Bound) -> str | None:
    """The greatest closed LSN up to ``ceiling`` whose groups keep the bound, at least the first."""
    reachable = sorted(
        (group for found in groups.values() for group in found if group.closed_lsn <= ceiling),
        key=lambda group: group.closed_lsn,
    )
    cut: str | None = None
    changes = size = 0
    for closed_lsn, found in itertools.groupby(reachable, key=lambda group: group.closed_lsn):
        for group in found:
            changes, size = changes + group.count, size + group.bytes
        if cut is not None and not bound.allows(changes, size):
            break
        cut = closed_lsn
    return cut


def _build(
    state: SinkState,
    passed: Sequence[Group],
    partial: Sequence[Group],
    cut: str,
    names: TopicNames,
    bound: Bound,
) -> BatchPlan:
    shards = dict(state.shards)
    sorter = RangeSorter(state.held, state.stopped)
    for group in passed:
        last = group.records[-1]
        known = shards.get(group.shard)
        if known is None or known.next_offset <= last.offset:
            shards[group.shard] = ShardPosition(last.partition, last.offset + 1, group.closed_lsn)
        sorter.take(group.records, names, _already_applied(state, group))
    applied, following_held, stopped = sorter.result(bound.allows)
    for topic, found in applied.items():
        if found.is_whole or found.is_part:
            continue
        if begins_below(found, state.offsets.get(topic, {})):
            applied[topic] = replace(found, is_made_anew=True)
    offsets = {topic: dict(found) for topic, found in state.offsets.items()}
    for topic, found in applied.items():
        offsets.setdefault(topic, {}).update(
            {partition: end for partition, (_, end) in found.partitions.items()}
        )
    for group in partial:
        held = following_held.keys() | _named(group.records)
        after_lsn = _already_applied(state, group)
        for record in group.records:
            for part in data_parts([record], names):
                if part.topic not in {*held, *stopped, *record.lost}:
                    add(applied, group.shard, part, after_lsn, up_to_lsn=cut, batch=record.batch)

    newest = max(
        (group.records[-1].progress for group in passed),
        key=lambda progress: (progress.closed_lsn, progress.published_ms),
    )
    following = replace(
        state,
        batch=sum(position.next_offset for position in shards.values()),
        closed_lsn=cut,
        closed_commit_ms=newest.closed_commit_ms,
        shards=shards,
        held=following_held,
        stopped=stopped,
        offsets=offsets,
        server=newest.server,
        database=newest.database,
    )
    return BatchPlan(
        topics=tuple(applied[topic] for topic in sorted(applied)),
        following=following,
        published_ms=max(group.records[-1].progress.published_ms for group in passed),
        moves=bool(applied) or cut != state.closed_lsn,
    )


def _already_applied(state: SinkState, group: Group) -> str | None:
    """The LSN up to which an earlier cut took this group's changes, or None when it took none."""
    return state.closed_lsn if state.closed_lsn > group.after_lsn else None


def _named(records: Iterable[ProgressRecord]) -> set[str]:
    return {topic for record in records for topic in record.progress.snapshotting}
