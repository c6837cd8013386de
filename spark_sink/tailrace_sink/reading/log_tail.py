"""The log's tail: the changes after a commit row, planned as in the fold."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from tailrace_schemas.topics.topic_names import TableName, TopicNames
from tailrace_sink.fold.ledger import counted_by_spark, counted_in, difference, rest_of
from tailrace_sink.fold.table_batch import TableBatch, TableBatches, elsewhere, without
from tailrace_sink.log.log_table import LogTable
from tailrace_sink.log.progress_feed import LogSlices
from tailrace_sink.log.schema_store import SchemaStore
from tailrace_sink.options.batch_bound import Bound
from tailrace_sink.options.modes import BadRecords
from tailrace_sink.options.shared_tables import SharedTables
from tailrace_sink.plan.batch_plan import plan_batch
from tailrace_sink.plan.log_state import LogState
from tailrace_sink.plan.progress_groups import Backlog
from tailrace_sink.plan.progress_record import ProgressRecord
from tailrace_sink.plan.sink_state import BatchPlan, SinkState

_LOCAL_CHANGES_MAX: Final = 20_000
_LOCAL_BYTES_MAX: Final = 64 * 1024 * 1024
_ALL: Final = 1 << 62
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Tail:
    """The part of a cut that is in the log and not in the tables.

    Args:
        spark: the session of the reader.
        last: the newest state row of the log.
        plan: the plan of a fold.
        state: by the commit row before.
    """

    def __init__(
        self,
        spark: SparkSession,
        log: LogTable,
        last: LogState,
        plan: BatchPlan,
        schemas: SchemaStore,
        state: SinkState,
    ) -> None:
        self._spark = spark
        self._log = log
        self.plan = plan
        self.deletes = last.deletes
        self._puts_aside = last.bad_records == BadRecords.DEAD_LETTER
        self._lock = threading.Lock()
        self._local: pa.Table | None = None
        self.names = TopicNames(last.prefix)
        shared = SharedTables(last.into)
        batches = TableBatches(self.names, _every_one, schemas.schema_by_id, shared)
        listed, self.stopped = batches.of(plan.topics)
        found, self.leaving = elsewhere(without(listed, self.stopped), state)
        self.stopped |= found
        self.tables = {batch.table: batch for batch in without(listed, found)}

    def state(self) -> SinkState:
        """Return the state after the tail, as the fold will write it, without versions."""
        following = self.plan.following
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

    def values(self, name: TableName) -> DataFrame:
        """Read the events of one table, as the fold will apply them.

        Raises:
            LedgerMismatch: the events differ from the ledger.
            BadRecord: a record is no change of the table, and dead letters are not configured.
        """
        tail = self.tables[name]
        found, writers = tail.topic_range, tail.all_writers
        if self._is_local:
            of_topic = self._local_values().filter(pc.field("topic") == found.topic)
            values = of_topic.select(["partition", "offset", "value"]).combine_chunks()
            error = difference(str(name), found, counted_in(values, writers))
            frame = self._spark.createDataFrame(values)
        else:
            frame = self._log.values(self._spark, [found])
            error = None
            if writers:
                error = difference(str(name), found, counted_by_spark(frame, writers))
        bad = tail.screen.first(frame, None if error is None else str(error))
        if bad is None:
            if error is not None:
                raise error
            return frame
        if not self._puts_aside:
            raise bad
        return rest_of(tail, frame, bad)

    @property
    def _is_local(self) -> bool:
        topics = self.plan.topics
        return (
            self.plan.count <= _LOCAL_CHANGES_MAX
            and sum(topic.bytes for topic in topics) <= _LOCAL_BYTES_MAX
        )

    def _local_values(self) -> pa.Table:
        """Read the events of all tables at once, as fast as those of one."""
        with self._lock:
            if self._local is None:
                ranges = [found for found in self.plan.topics if found.partitions]
                self._local = self._log.values(self._spark, ranges).toArrow()
            return self._local


def milliseconds(moment: datetime) -> int:
    """Convert a time to whole milliseconds since 1970; without a zone it is UTC.

    A float would turn 1.007 s into 1006 ms.
    """
    zoned = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return (zoned - _EPOCH) // timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class Point:
    """The point up to which to read; without values, the newest one.

    Attributes:
        lsn: source LSN as text.
        commit_ms: source commit time, milliseconds UTC.
    """

    lsn: str | None = None
    commit_ms: int | None = None

    def has(self, closed_lsn: str, commit_ms: int | None) -> bool:
        """Whether a closed LSN is at or before the point."""
        if self.lsn is not None and closed_lsn > self.lsn:
            return False
        return self.commit_ms is None or (commit_ms is not None and commit_ms <= self.commit_ms)

    def is_before(self, closed_lsn: str, commit_ms: int | None) -> bool:
        """Whether a closed LSN of all shards is past the point: the rest of the log is later."""
        if self.lsn is not None and closed_lsn >= self.lsn:
            return True
        return self.commit_ms is not None and commit_ms is not None and commit_ms > self.commit_ms

    def may_be_in(self, least: Mapping[str, Any]) -> bool:
        """Whether a file of the commit table, with its columns' least values, may have a row."""
        lsn, time = (least.get(of) for of in ("through_lsn", "through_commit_time"))
        if self.lsn is not None and lsn is not None and str(lsn) > self.lsn:
            return False
        if self.commit_ms is None or time is None:
            return True
        return milliseconds(datetime.fromisoformat(time)) <= self.commit_ms


@dataclass(slots=True)
class TailReader:
    """Finds the tails of one lake, and caches what does not change."""

    spark: SparkSession
    lake: str
    _log: LogTable | None = field(default=None, init=False)
    _schemas: SchemaStore | None = field(default=None, init=False)

    def tail(self, state: SinkState, point: Point) -> Tail | None:
        """Return the tail after a commit row up to a point; None if it is empty.

        Raises:
            SinkError: the log starts after the commit row, or lacks a schema.
        """
        if self._log is None:
            self._log = LogTable.of_lake(self.spark, f"{self.lake}/_tailrace/log")
        last = None if self._log is None else self._log.last()
        if self._log is None or last is None or last.state.batch <= state.batch:
            return None
        if self._schemas is None:
            folder = f"{self.lake}/_tailrace/schemas"
            self._schemas = SchemaStore(self.spark, self._log.path, folder)
        names = TopicNames(last.prefix)
        slices = LogSlices(self._log, names.progress, self._schemas.schema_by_id)
        backlog = backlog_up_to(slices, state, point)
        # A table of which only parts are applied has no version in the commit row. The log has all.
        held = {topic: replace(found, rest=None) for topic, found in state.held.items()}
        state = replace(state, held=held)
        plan = plan_batch(state, backlog, names, Bound(_ALL), shards=max(1, len(last.state.shards)))
        if plan is None or not plan.moves or any(found.in_kafka for found in plan.topics):
            # The last case: a snapshot ends here, and the log lacks its rows.
            return None
        return Tail(self.spark, self._log, last, plan, self._schemas, state)


def backlog_up_to(slices: LogSlices, state: SinkState, point: Point) -> Backlog:
    """Read the progress records after a commit row up to a point, and none of later slices.

    Raises:
        SinkError: the records do not continue the state.
    """
    backlog, through = Backlog(state), slices.start(state)
    while (found := slices.after(through)) is not None:
        # Only a batch reads the events of a bulk cut, so the tail ends before it.
        bulk = (r.batch for r in found.records if r.in_kafka and _is_after(r, state))
        ends = min(bulk, default=None)
        backlog.add(
            record
            for record in found.records
            if point.has(record.progress.closed_lsn, record.progress.closed_commit_ms)
            and (ends is None or record.batch < ends)
        )
        if ends is not None or point.is_before(
            found.state.closed_lsn, found.state.closed_commit_ms
        ):
            break
        through = found.state.batch
    return backlog


def _is_after(record: ProgressRecord, state: SinkState) -> bool:
    """Whether a state lacks a record."""
    position = state.shards.get(record.progress.shard)
    return position is None or record.offset >= position.next_offset


def _every_one(_table: TableName) -> bool:
    """Select every table: the log only has those that the configuration selects."""
    return True
