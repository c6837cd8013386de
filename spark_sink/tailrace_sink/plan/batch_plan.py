"""Plan of a batch from progress records: which offsets of which topics are its cut.

Theory of operation. Every Kafka transaction of the publisher has a progress record. Records form
*groups*. A group ends with the record that closes an LSN, so it holds whole source transactions.
The next cut is the newest closed LSN within the bound. The groups at or below it are *passed*.

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

from collections.abc import Sequence
from dataclasses import replace

from tailrace_schemas.topics.topic_names import TopicNames
from tailrace_sink.options.batch_bound import Bound
from tailrace_sink.plan.progress_groups import Backlog, Group
from tailrace_sink.plan.range_sorter import RangeSorter
from tailrace_sink.plan.sink_state import BatchPlan, Position, SinkState, later_of
from tailrace_sink.plan.topic_ranges import begins_below


def plan_batch(
    state: SinkState,
    backlog: Backlog,
    names: TopicNames,
    bound: Bound,
    *,
    up_to: str | None = None,
    stops_at_first: bool = False,
) -> BatchPlan | None:
    """Plan the next batch; None if no further LSN is closed.

    Args:
        state: the state of the tables.
        backlog: waiting progress records; passed ones are dropped from it.
        names: distinguishes data topics from the sink's own.
        bound: of the batch; one closed LSN may exceed it.
        up_to: greatest LSN of the cut; None: any.
        stops_at_first: whether what closes the LSN of the cut again, in a later cut of the log, is
            left to the next batch. So each first cut at an LSN can have a commit row.
    """
    passed = _passed(backlog.after(state), bound, up_to)
    if passed and stops_at_first and passed[-1].closed_lsn > state.closed_lsn:
        cut = passed[-1].closed_lsn
        first = next(group.last.batch for group in passed if group.closed_lsn == cut)
        passed = [group for group in passed if group.closed_lsn < cut or group.last.batch <= first]
    return _build(state, passed, names, bound) if passed else None


def _passed(groups: Sequence[Group], bound: Bound, up_to: str | None) -> list[Group]:
    """Choose groups within the bound: all that close an LSN, of at least the first LSN."""
    passed: list[Group] = []
    ends = changes = size = 0
    for group in groups:
        if up_to is not None and group.closed_lsn > up_to:
            break
        if passed and group.closed_lsn != passed[-1].closed_lsn:
            ends = len(passed)
        changes, size = changes + group.count, size + group.bytes
        if ends and not bound.allows(changes, size):
            return passed[:ends]
        passed.append(group)
    return passed


def _build(state: SinkState, passed: Sequence[Group], names: TopicNames, bound: Bound) -> BatchPlan:
    records = [record for group in passed for record in group.records]
    sorter = RangeSorter(state.held, state.stopped)
    sorter.take(records, names)
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
    last = records[-1]
    newest = last.progress
    following = replace(
        state,
        batch=last.offset + 1,
        closed_lsn=newest.closed_lsn,
        closed_commit_ms=later_of(state.closed_commit_ms, newest.closed_commit_ms),
        position=Position.after(last),
        held=following_held,
        stopped=stopped,
        offsets=offsets,
        server=newest.server,
        database=newest.database,
    )
    return BatchPlan(
        topics=tuple(applied[topic] for topic in sorted(applied)),
        following=following,
        published_ms=max(group.last.progress.published_ms for group in passed),
        moves=bool(applied) or newest.closed_lsn != state.closed_lsn,
        patched=tuple(
            (found.topic, column, group.closed_lsn)
            for group in passed
            for record in group.records
            for found in record.progress.patched
            for column in found.columns
        ),
    )
