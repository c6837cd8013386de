"""The events of the log's tail, read by Spark."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from tailrace_schemas.topics.topic_names import TableName
from tailrace_sink.fold.ledger import counted_by_spark, counted_in, rest_of
from tailrace_sink.log.log_table import LogTable
from tailrace_sink.log.schema_store import SchemaStore
from tailrace_sink.plan.ledger_difference import difference
from tailrace_sink.plan.sink_state import SinkState
from tailrace_sink.reading.point import Point
from tailrace_sink.reading.tail_plan import TailPlan, plan_tail

_LOCAL_CHANGES_MAX: Final = 20_000
_LOCAL_BYTES_MAX: Final = 64 * 1024 * 1024


class Tail:
    """The events of the part of a cut that is in the log and not in the tables.

    Args:
        spark: the session of the reader.
    """

    def __init__(self, spark: SparkSession, log: LogTable, plan: TailPlan) -> None:
        self._spark = spark
        self._log = log
        self.plan = plan
        self._lock = threading.Lock()
        self._local: pa.Table | None = None

    def values(self, name: TableName) -> DataFrame:
        """Read the events of one table, as the fold will apply them.

        Raises:
            LedgerMismatch: the events differ from the ledger.
            BadRecord: a record is no change of the table, and dead letters are not configured.
        """
        tail = self.plan.tables[name]
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
        if not self.plan.has_dead_letters:
            raise bad
        return rest_of(tail, frame, bad)

    @property
    def _is_local(self) -> bool:
        topics = self.plan.batch.topics
        return (
            self.plan.batch.count <= _LOCAL_CHANGES_MAX
            and sum(topic.bytes for topic in topics) <= _LOCAL_BYTES_MAX
        )

    def _local_values(self) -> pa.Table:
        """Read the events of all tables at once, as fast as those of one."""
        with self._lock:
            if self._local is None:
                ranges = [found for found in self.plan.batch.topics if found.partitions]
                self._local = self._log.values(self._spark, ranges).toArrow()
            return self._local


@dataclass(slots=True)
class TailReader:
    """Finds the tails of one lake, and caches what does not change."""

    spark: SparkSession
    lake: str
    _log: LogTable | None = field(default=None, init=False)
    _schemas: SchemaStore | None = field(default=None, init=False)

    def log(self) -> LogTable | None:
        """Return the lake's log; None if it has none."""
        if self._log is None:
            self._log = LogTable.of_lake(self.spark, f"{self.lake}/_tailrace/log")
        return self._log

    def tail(self, state: SinkState, point: Point) -> Tail | None:
        """Return the tail after a commit row up to a point; None if it is empty.

        Raises:
            SinkError: the log starts after the commit row, or lacks a schema.
        """
        log = self.log()
        last = None if log is None else log.last()
        if log is None or last is None or last.state.batch <= state.batch:
            return None
        if self._schemas is None:
            self._schemas = SchemaStore.of_lake(self.spark, self.lake)
        plan = plan_tail(log, last, self._schemas.schema_by_id, state, point)
        return None if plan is None else Tail(self.spark, log, plan)
