"""Application of one batch to all its tables, in a pool of sessions."""

from __future__ import annotations

import queue
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import Final

import structlog
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tailrace_schemas.events.column_types import UnsupportedType
from tailrace_sink.delta.conflicts import is_refused
from tailrace_sink.delta.fence import Fence
from tailrace_sink.delta.file_log import table_bytes
from tailrace_sink.delta.table_properties import set_retention
from tailrace_sink.errors import (
    ApplyFailed,
    BadRecord,
    BadRecordRefused,
    ForeignRecord,
    LakeTableChanged,
    LakeTableUnreadable,
    LedgerMismatch,
    SchemaUnknown,
    SinkError,
    TableError,
    TopicRecreated,
    UnsupportedSchemaChange,
)
from tailrace_sink.fold.companions import companion_kinds
from tailrace_sink.fold.table_batch import TableBatch, TableBatches, without
from tailrace_sink.fold.table_fold import TableFold
from tailrace_sink.fold.topic_reader import TopicReader
from tailrace_sink.kafka.offset_bounds import TopicCheck
from tailrace_sink.log.events import Events
from tailrace_sink.log.sink_parts import SinkParts
from tailrace_sink.options.modes import BadRecords
from tailrace_sink.plan.sink_state import BatchPlan, CutPoint, SinkState
from tailrace_sink.spark.jvm_errors import lacks_file, translated
from tailrace_sink.spark.session import TunedSession
from tailrace_sink.tables.lake_table import table_path
from tailrace_sink.tables.schema_record import Change
from tailrace_sink.upkeep.table_maintenance import Maintenance

_SMALL_TABLE_BYTES: Final = 4 * 1024 * 1024

_log = structlog.get_logger("tailrace.sink")


@dataclass(frozen=True, slots=True)
class Applied:
    """The result of a batch.

    Attributes:
        versions: path below the lake to the version of each table that was written.
        stopped: topic to the error of each table that the lake cannot follow.
        schema_changes: changes of the tables' columns, for the commit row.
    """

    versions: dict[str, int]
    stopped: dict[str, SinkError]
    schema_changes: list[Change]


class BatchApplier:
    """Applies plans to the lake.

    Args:
        spark: reads small batches. Every worker gets a session of its own, as temporary views and
            settings are per session.
    """

    def __init__(self, spark: SparkSession, parts: SinkParts) -> None:
        config = parts.config
        self._config = config
        self._metrics = parts.metrics
        self._batches = TableBatches(
            config.topics, config.tables.selects, parts.schemas.schema_by_id
        )
        events = Events(parts.log, config.kafka)
        self._check = TopicCheck(parts.spark, config.kafka)
        self._fold = TableFold(config, events, parts.metrics, parts.hook)
        self._pool = ThreadPoolExecutor(config.merge_pool, thread_name_prefix="merge")
        sessions = [TunedSession(spark) for _ in range(config.merge_pool)]
        self._idle: queue.SimpleQueue[TunedSession] = queue.SimpleQueue()
        for session in sessions:
            self._idle.put(session)
        self._reader = TopicReader(spark, config, events)
        self._maintenance = Maintenance(spark, config)
        self._patience = Patience(config.apply_attempts)

    def close(self) -> None:
        """Wait for tables in progress and end the workers."""
        self._pool.shutdown()

    def begin(self, fence: Fence) -> None:
        """Read the lake's tables from scratch, for the sink that owns the log."""
        self._fence = fence
        self._fold.begin(fence)

    def set_retention(self, paths: Iterable[str]) -> None:
        """Set the configured retention on tables.

        Args:
            paths: below the lake; those without a table are ignored.

        Raises:
            LakeTaken: another sink has started since.
        """
        for future in [self._pool.submit(self._set_retention, path) for path in sorted(paths)]:
            future.result()

    def _set_retention(self, path: str) -> None:
        session = self._idle.get()
        try:
            set_retention(session.spark, self._config, self._fence, path)
        except (PySparkException, Py4JError) as error:
            # A damaged table stops at its next write, not at the start of the sink.
            _log.warning("retention_not_set", table=path, reason=str(translated(path, error)))
        finally:
            self._idle.put(session)

    def apply(self, plan: BatchPlan, before: SinkState) -> Applied:
        """Apply every table of a plan; an error in one table stops only that table.

        Args:
            before: state of the tables before the batch.

        Raises:
            SinkError: of the first table that failed, after all others have ended.
            RegistryError: a schema could not be looked up.
        """
        self._fold.begin_batch(plan.point.batch)
        sources, stopped = self._batches.of(plan.topics)
        is_small = self._config.fits_driver(plan.count, sum(t.bytes for t in plan.topics))
        stopped |= {
            topic.topic: TopicRecreated(topic.topic) for topic in plan.topics if topic.is_recreated
        }
        # Bulk cuts are not in the log, so Kafka may have deleted them since they were planned.
        stopped |= self._check.gone({t.topic: t.from_kafka for t in plan.topics if t.from_kafka})
        sources = [self._with_starts(of, before) for of in without(sources, stopped)]
        if is_small:
            sources = self._with_values(sources)
        futures = [
            self._pool.submit(self._apply_table, source, plan.point, is_small=is_small)
            for source in sources
        ]
        wait(futures)
        unreadable = self._patience.over(plan.following.batch, sources, futures)
        others: list[Future[dict[str, int]]] = []
        for source, future in zip(sources, futures, strict=True):
            error = unreadable.get(source.topic) or future.exception()
            if isinstance(error, TableError):
                stopped[source.topic] = error
            else:
                others.append(future)
        self._refuse_if_asked(stopped.values())
        versions: dict[str, int] = {}
        for future in _failed_last(others):
            versions |= future.result()
        return Applied(versions, stopped, self._fold.schema_changes())

    def _with_starts(self, source: TableBatch, before: SinkState) -> TableBatch:
        """Add the cut that companions of the table start with, if they start."""
        is_whole = source.topic_range.is_whole  # the batch itself has every row
        if is_whole or table_path(source.table) not in before.versions:
            return source
        kinds = companion_kinds(self._config, source.table)
        new = [kind for kind in kinds if table_path(source.table, kind) not in before.versions]
        return replace(source, starts=dict.fromkeys(new, before.point))

    def _with_values(self, sources: Sequence[TableBatch]) -> list[TableBatch]:
        """Add the events of each source, and their difference from the ledger."""
        ranges = {s.topic: s.topic_range for s in sources if s.topic_range.partitions}
        writers = {s.topic: s.all_writers for s in sources}
        values, differ = self._reader.values(ranges, writers)
        return [
            replace(source, values=values.get(source.topic), differs=differ.get(source.topic))
            for source in sources
        ]

    def _refuse_if_asked(self, stopped: Iterable[SinkError]) -> None:
        """Raise the error of a bad record if ``sink.on_bad_record`` is ``fail``.

        Raises:
            BadRecordRefused: a record cannot be applied.
        """
        if self._config.on_bad_record is not BadRecords.FAIL:
            return
        for error in stopped:
            if isinstance(error, BadRecord | LedgerMismatch | SchemaUnknown | ForeignRecord):
                raise BadRecordRefused(str(error)) from error

    def _apply_table(self, source: TableBatch, cut: CutPoint, *, is_small: bool) -> dict[str, int]:
        session = self._idle.get()
        try:
            with self._metrics.table_seconds(str(source.table)):
                size = table_bytes(session.spark, f"{self._config.lake}/{table_path(source.table)}")
                # A MERGE of few changes reads the table too, so its size counts.
                session.tune(is_small=is_small and size <= _SMALL_TABLE_BYTES)
                session.rewrite(rewrites=size <= self._config.rewrite_below_bytes)
                return self._fold.apply(session.spark, source, cut)
        except (PySparkException, Py4JError) as error:
            if is_refused(error):
                reason = str(translated("writing", error))
                raise LakeTableChanged(str(source.table), "", reason) from error
            raise translated(f"table {source.table}", error) from error
        except UnsupportedType as error:
            raise UnsupportedSchemaChange(
                str(source.table), "", str(error), "leave its column out of the capture instance"
            ) from error
        finally:
            self._idle.put(session)

    def tidy(self, before: Mapping[str, int], after: Mapping[str, int]) -> None:
        """Maintain at most one table, between two batches.

        Args:
            before: path below the lake to the version of each table before the last batch.
            after: the same after it.
        """
        self._maintenance.note(before, after)
        self._maintenance.run()

    def tidy_all(self, should_stop: Callable[[], bool]) -> None:
        """Maintain all tables that are due."""
        while not should_stop() and self._maintenance.run() is not None:
            pass


class Patience:
    """Counts a batch's attempts at each table.

    Args:
        attempts: after which a table that fails alone stops.
    """

    def __init__(self, attempts: int) -> None:
        self._attempts = attempts
        self._batch = -1
        self._failed: Counter[str] = Counter()

    def over(
        self,
        batch: int,
        sources: Sequence[TableBatch],
        futures: Sequence[Future[dict[str, int]]],
    ) -> dict[str, SinkError]:
        """Return the errors of tables that stop, by topic.

        If all of several tables fail, the cause is not in the tables. If the only table of a batch
        fails, the write of the commit row shows whether the cause is in the lake.

        Args:
            futures: of the sources in the same order; all have ended.
        """
        if batch != self._batch:
            self._batch, self._failed = batch, Counter()
        failed: dict[str, tuple[TableBatch, ApplyFailed]] = {}
        for source, future in zip(sources, futures, strict=True):
            error = future.exception()
            if isinstance(error, ApplyFailed):
                failed[source.topic] = source, error
                self._failed[source.topic] += 1
        is_general = len(failed) == len(sources) > 1
        return {
            topic: LakeTableUnreadable(str(source.table), self._attempts, error.reason)
            for topic, (source, error) in failed.items()
            if self._failed[topic] >= self._attempts
            and (not is_general or lacks_file(error.cause_classes))
        }


def _failed_last(
    futures: Iterable[Future[dict[str, int]]],
) -> list[Future[dict[str, int]]]:
    """Sort futures: errors that end the sink first, then retryable ones, then results."""

    def rank(future: Future[dict[str, int]]) -> int:
        error = future.exception()
        if error is None:
            return 2
        return 1 if getattr(error, "retryable", False) else 0

    return sorted(futures, key=rank)
