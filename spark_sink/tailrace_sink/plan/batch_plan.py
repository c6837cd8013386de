"""Plan of a batch from progress records: which offsets of which topics are its cut.

Theory of operation. Every Kafka transaction of the publisher has a progress record. Records of one
shard form *groups*. A group ends with the record that closes an LSN, so it holds whole source
transactions. The next cut is the newest closed LSN that every shard has reached, within the bound.

A group at or below the cut is *passed*. A group that only starts below the cut, because its shard
is ahead of the others, is *partial*. Its changes up to the cut are applied now, the others when it
is passed. So it is read twice and filtered by LSN both times.

The topic of a table whose snapshot is not finished is *held* from the first record that names it.
Its offsets from there on are stored. The first cut whose last record no longer names it reads them,
with those that follow. They hold the *whole* table: a row of the lake that they lack was deleted
unseen.

If more is held than a batch takes, it is applied in *parts*, while the table stays outside of the
cut. The last part *finishes* the snapshot, which deletes rows older than the naming (ADR 0051).

Everything here is pure: the same records and state give the same batch. A replay after a crash may
have more records, so a started batch is stored (``intent``) and not planned again.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from tailrace_schemas.topics.topic_names import TopicNames
from tailrace_sink.options.batch_bound import Bound
from tailrace_sink.plan.progress_groups import Backlog, Group, in_order, shards_by_now
from tailrace_sink.plan.progress_record import ProgressRecord
from tailrace_sink.plan.range_sorter import RangeSorter
from tailrace_sink.plan.sink_state import BatchPlan, ShardPosition, SinkState, later_of
from tailrace_sink.plan.topic_ranges import add, begins_below, data_parts


def plan_batch(
    state: SinkState,
    backlog: Backlog,
    names: TopicNames,
    bound: Bound,
    *,
    shards: int = 1,
    up_to: str | None = None,
    stops_at_first: bool = False,
) -> BatchPlan | None:
    """Plan the next batch; None if no further LSN is closed.

    Args:
        state: the state of the tables.
        backlog: waiting progress records; passed ones are dropped from it.
        names: distinguishes data topics from the sink's own.
        bound: of the batch; one closed LSN may exceed it.
        shards: least number of shards, also known from records. The first cut needs all of them.
        up_to: greatest LSN of the cut; None: any.
        stops_at_first: whether what closes the LSN of the cut again, in a later cut of the log, is
            left to the next batch. So each first cut at an LSN can have a commit row.
    """
    groups = backlog.after(state)
    shards = shards_by_now(shards, (group for found in groups.values() for group in found))
    closed = {shard: position.closed_lsn for shard, position in state.shards.items()}
    closed |= {shard: found[-1].closed_lsn for shard, found in groups.items() if found}
    if len(closed) < shards:
        return None
    ceiling = min(closed.values())
    cut = _choose_cut(groups, ceiling if up_to is None else min(ceiling, up_to), bound)
    if cut is None:
        return None
    through = _first_closing(groups, cut) if stops_at_first and cut > state.closed_lsn else None
    passed = [
        group
        for found in groups.values()
        for group in found
        if group.closed_lsn <= cut and (through is None or group.batch <= through)
    ]
    partial = [
        group
        for found in groups.values()
        for group in found
        if group.after_lsn < cut < group.closed_lsn
    ]
    return _build(state, passed, partial, cut, names, bound)


def _choose_cut(groups: Mapping[int, Sequence[Group]], ceiling: str, bound: Bound) -> str | None:
    """Find the greatest closed LSN up to ``ceiling`` within the bound, at least the first one."""
    cut: str | None = None
    changes = size = 0
    by_lsn = itertools.groupby(in_order(groups), key=lambda group: group.closed_lsn)
    for closed_lsn, found in by_lsn:
        if closed_lsn > ceiling:
            break
        for group in found:
            changes, size = changes + group.count, size + group.bytes
        if cut is not None and not bound.allows(changes, size):
            break
        cut = closed_lsn
    return cut


def _first_closing(groups: Mapping[int, Sequence[Group]], cut: str) -> int:
    """Return the batch id of the first cut of the log in which every shard has closed an LSN."""
    return max(
        next(group.batch for group in found if group.closed_lsn >= cut)
        for found in groups.values()
        if found
    )


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
            applied[topic] = replace(found, is_recreated=True)
    offsets = {topic: dict(found) for topic, found in state.offsets.items()}
    for topic, found in applied.items():
        offsets.setdefault(topic, {}).update(
            {partition: end for partition, (_, end) in found.partitions.items()}
        )
    for group in partial:
        held = following_held.keys() | _named(group.records)
        after_lsn = _already_applied(state, group)
        for record in group.records:
            for part in data_parts(record.progress, names):
                if part.topic not in {*held, *stopped} and record.why_lost(part) is None:
                    add(
                        applied,
                        group.shard,
                        part,
                        after_lsn,
                        up_to_lsn=cut,
                        batch=record.batch,
                        in_kafka=record.in_kafka,
                    )

    newest = max(
        (group.records[-1].progress for group in passed),
        key=lambda progress: (progress.closed_lsn, progress.published_ms),
    )
    following = replace(
        state,
        batch=sum(position.next_offset for position in shards.values()),
        closed_lsn=cut,
        closed_commit_ms=later_of(state.closed_commit_ms, newest.closed_commit_ms),
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
        patched=tuple(
            (found.topic, column, group.closed_lsn)
            for group in passed
            for record in group.records
            for found in record.progress.patched
            for column in found.columns
        ),
    )


def _already_applied(state: SinkState, group: Group) -> str | None:
    """Return the LSN up to which an earlier cut applied this group's changes, or None."""
    return state.closed_lsn if state.closed_lsn > group.after_lsn else None


def _named(records: Iterable[ProgressRecord]) -> set[str]:
    return {topic for record in records for topic in record.progress.snapshotting}
