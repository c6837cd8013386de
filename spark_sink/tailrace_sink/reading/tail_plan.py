"""The plan of the log's tail: what a cut takes from the log, as a fold would. Pure.

Readers with and without Spark plan alike; they differ in how they read events and rows.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from tailrace_schemas.topics.topic_names import TableName, TopicNames
from tailrace_sink.errors import SinkError
from tailrace_sink.fold.table_batch import TableBatch, TableBatches, elsewhere, without
from tailrace_sink.log.progress_feed import LogSlices, ProgressLog
from tailrace_sink.options.batch_bound import Bound
from tailrace_sink.options.modes import BadRecords
from tailrace_sink.options.shared_tables import SharedTables
from tailrace_sink.plan.batch_plan import plan_batch
from tailrace_sink.plan.log_state import LogState
from tailrace_sink.plan.progress_groups import Backlog
from tailrace_sink.plan.progress_record import ProgressRecord, SchemaById
from tailrace_sink.plan.sink_state import BatchPlan, SinkState, later_of
from tailrace_sink.reading.point import Point

_ALL: Final = 1 << 62


@dataclass(frozen=True, slots=True)
class TailPlan:
    """The part of a cut that is in the log and not in the tables.

    Attributes:
        batch: the plan of a fold.
        names: topics of the publisher.
        deletes: how the lake treats deleted rows (``sink.delete_mode``).
        has_dead_letters: whether bad records are left out instead of stopping their table.
        tables: part of each source table.
        stopped: error of each topic that the fold will stop.
        leaving: sources whose rows leave a shared table, with its path.
    """

    batch: BatchPlan
    names: TopicNames
    deletes: str
    has_dead_letters: bool
    tables: Mapping[TableName, TableBatch]
    stopped: Mapping[str, SinkError]
    leaving: tuple[tuple[TableBatch, str], ...]

    def state(self) -> SinkState:
        """Return the state after the tail, as the fold will write it, without versions."""
        following = self.batch.following
        stopped = {topic: str(error) for topic, error in self.stopped.items()}
        homes = {**following.homes, **{b.table.path: b.home for b in self.tables.values()}}
        homes = {path: home for path, home in homes.items() if home}
        return replace(following, homes=homes, stopped={**following.stopped, **stopped})

    def of(self, lake_table: TableName) -> list[TableBatch]:
        """Return the sources of a lake table that the tail changes, in the order of the fold."""
        return [
            batch
            for batch in self.tables.values()
            if batch.lake_table == lake_table and (batch.writers or batch.is_empty)
        ]

    def new_tables(self) -> set[TableName]:
        """Return the lake tables whose rows may be only in the log."""
        return {found.lake_table for found in self.tables.values() if found.writers}


def plan_tail(
    log: ProgressLog, last: LogState, schema_by_id: SchemaById, state: SinkState, point: Point
) -> TailPlan | None:
    """Plan the tail after a commit row up to a point; None if it is empty.

    Args:
        last: the newest state of the log.
        state: by the commit row.

    Raises:
        SinkError: the log starts after the commit row, or lacks a schema.
    """
    names = TopicNames(last.prefix)
    slices = LogSlices(log, names.progress, schema_by_id)
    records = records_up_to(slices, state, point, last.state.batch)
    # A table of which only parts are applied has no version in the commit row. The log has all.
    held = {topic: replace(found, rest=None) for topic, found in state.held.items()}
    state = replace(state, held=held)

    def planned(through: int) -> BatchPlan | None:
        backlog = Backlog.of(state, (record for record in records if record.batch <= through))
        return plan_batch(state, backlog, names, Bound(_ALL), up_to=point.lsn)

    plan = planned(last.state.batch)
    if _lacks_rows(plan):
        batches = [state.batch, *sorted({record.batch for record in records})]
        lacks = bisect_left(batches, True, key=lambda through: _lacks_rows(planned(through)))
        plan = planned(batches[lacks - 1])
    if plan is None or not plan.moves:
        return None
    shared = SharedTables(last.into)
    listed, stopped = TableBatches(names, _every_one, schema_by_id, shared).of(plan.topics)
    found, leaving = elsewhere(without(listed, stopped), state)
    return TailPlan(
        batch=plan,
        names=names,
        deletes=last.deletes,
        has_dead_letters=last.bad_records == BadRecords.DEAD_LETTER,
        tables={batch.table: batch for batch in without(listed, {*stopped, *found})},
        stopped=stopped | found,
        leaving=tuple(leaving),
    )


def _lacks_rows(plan: BatchPlan | None) -> bool:
    """Whether a bulk snapshot ends in a plan: the log lacks its rows, so the tail ends before."""
    return plan is not None and any(found.in_kafka for found in plan.topics)


def records_up_to(
    slices: LogSlices, state: SinkState, point: Point, newest: int
) -> list[ProgressRecord]:
    """Read the progress records after a commit row up to a point, and none of later slices.

    A record that closes an LSN again makes another cut. An LSN means the first of them, unless the
    point names a batch.

    Args:
        newest: batch of the log's newest cut as the read began. Without it, a log that grows
            faster than it is read would be read for ever.

    Raises:
        SinkError: the records do not continue the state.
    """
    if point.lsn is not None and point.batch is None and state.closed_lsn >= point.lsn:
        return []
    records, through = list[ProgressRecord](), state.batch
    latest_ms, closing = state.closed_commit_ms, newest
    newest = newest if point.batch is None else min(newest, point.batch)
    while through < newest and (found := slices.after(through)) is not None:
        # Only a batch reads the events of a bulk cut, so the tail ends before it.
        ends = min((r.batch for r in found.records if r.in_kafka), default=None)
        for record in sorted(found.records, key=lambda record: record.offset):
            # The latest time so far: one that went back would leave a hole before it.
            latest_ms = later_of(latest_ms, record.progress.closed_commit_ms)
            is_asked = point.has(record.progress.closed_lsn, latest_ms)
            if point.batch is None and point.is_closed_by(record.progress):
                closing = min(closing, record.batch)
            if is_asked and record.batch <= newest and (ends is None or record.batch < ends):
                records.append(record)
        if ends is not None or point.is_before(
            found.state.closed_lsn, found.state.closed_commit_ms
        ):
            break
        through = found.state.batch
    return [record for record in records if record.batch <= closing]


def _every_one(_table: TableName) -> bool:
    """Select every table: the log only has those that the configuration selects."""
    return True
