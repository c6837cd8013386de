"""Application of one batch to all its tables, in a pool of sessions."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import Final

import structlog
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tailrace_schemas.events.column_types import UnsupportedType
from tailrace_schemas.topics.topic_names import TableName
from tailrace_service.registry.client import RegistryError
from tailrace_sink.errors import (
    BadRecord,
    BadRecordRefused,
    ForeignRecord,
    LakeRowsChanged,
    LakeTableChanged,
    LedgerMismatch,
    SchemaUnknown,
    SinkError,
    TableError,
    TopicRecreated,
    UnsupportedSchemaChange,
)
from tailrace_sink.fold.blame import removal_of
from tailrace_sink.fold.patience import Patience
from tailrace_sink.fold.table_batch import (
    TableBatch,
    TableBatches,
    elsewhere,
    left_behind,
    sharing,
    without,
)
from tailrace_sink.fold.table_fold import TableFold
from tailrace_sink.fold.topic_reader import TopicReader
from tailrace_sink.kafka.offset_bounds import TopicCheck
from tailrace_sink.log.events import Events
from tailrace_sink.log.sink_parts import SinkParts
from tailrace_sink.options.modes import BadRecords
from tailrace_sink.plan.sink_state import BatchPlan, CutPoint, SinkState
from tailrace_sink.ports.table_format import TableWriter
from tailrace_sink.ports.writes import RowsChanged
from tailrace_sink.spark.jvm_errors import translated
from tailrace_sink.spark.session import TunedSession
from tailrace_sink.tables.lake_table import companion_paths, table_path
from tailrace_sink.tables.schema_record import Change
from tailrace_sink.watch.task_rows import describe_queries

_SMALL_TABLE_BYTES: Final = 4 * 1024 * 1024

_log = structlog.get_logger("tailrace.sink")


@dataclass(frozen=True, slots=True)
class Applied:
    """The result of a batch.

    Attributes:
        versions: path below the lake to the version of each table that was written.
        stopped: topic to the error of each table that the lake cannot follow.
        schema_changes: changes of the tables' columns, for the commit row.
        homes: path of each source table that was written to the path of the lake table with its
            rows; empty if that is its own.
        into_empty: topics of snapshots of which a part came into a table without rows.
    """

    versions: dict[str, int]
    stopped: dict[str, SinkError]
    schema_changes: list[Change]
    homes: dict[str, str]
    into_empty: frozenset[str] = frozenset()


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
            config.topics, config.tables.selects, parts.schemas.schema_by_id, config.shared_tables
        )
        events = Events(parts.log, config.kafka)
        self._fold = TableFold(config, events, parts.metrics, parts.hook)
        self._pool = ThreadPoolExecutor(config.merge_pool, thread_name_prefix="merge")
        sessions = [TunedSession(spark) for _ in range(config.merge_pool)]
        self._idle: queue.SimpleQueue[TunedSession] = queue.SimpleQueue()
        for session in sessions:
            self._idle.put(session)
        check = TopicCheck(parts.spark, config.kafka)
        self._reader = TopicReader(spark, config, events, check)
        self._compaction = parts.tables.compaction(spark)
        self._patience = Patience(config.apply_attempts)
        self._into_empty: set[str] = set()

    def close(self) -> None:
        """Wait for tables in progress and end the workers."""
        self._pool.shutdown()

    def begin(self, tables: TableWriter) -> None:
        """Read the lake's tables from scratch, as the sink that owns the log writes them."""
        self._tables = tables
        self._is_settled = False
        self._fold.begin(tables)

    def set_retention(self, paths: Iterable[str], versions: Mapping[str, int]) -> None:
        """Set the configured retention on tables.

        Args:
            paths: below the lake; those without a table are ignored.
            versions: path to version of each table in the last cut.

        Raises:
            LakeTaken: another sink has started since.
        """
        ordered = sorted(paths)
        for future in [self._pool.submit(self._retain, of, versions.get(of)) for of in ordered]:
            future.result()

    def _retain(self, path: str, since: int | None) -> None:
        session = self._idle.get()
        try:
            self._tables.retain(session.spark, path, since)
        except RowsChanged as error:
            _log.warning("retention_not_set", table=path, reason=str(error))
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
        self._tables.begin(plan.point)
        self._fold.begin_batch(plan.point.batch, before.versions)
        self._into_empty.clear()
        is_small = self._config.fits_driver(plan.count, sum(t.bytes for t in plan.topics))
        lost = self._reader.lost(plan)
        if not is_small:
            plan = self._reader.large_from_kafka(plan)
        sources, stopped = self._batches.of(plan.topics)
        stopped |= {of.topic: TopicRecreated(of.topic) for of in plan.topics if of.is_recreated}
        stopped |= lost
        found, leaving = elsewhere(without(sources, stopped), before)
        stopped |= found
        if not self._is_settled:
            names, shared = self._config.topics, self._config.shared_tables
            stopped |= left_behind(before, names, shared, sources)
        versions, adrift = self._leave(leaving, before, plan.point)
        sources = [self._with_starts(of, before) for of in without(sources, stopped)]
        if is_small:
            sources = self._with_values(sources)
        futures = self._submit(sources, plan.point, is_small=is_small)
        wait(futures)
        unreadable = self._patience.over(plan.following.batch, sources, futures, self._removal_of)
        others: list[Future[dict[str, int]]] = []
        for source, future in zip(sources, futures, strict=True):
            error = unreadable.get(source.topic) or future.exception()
            if isinstance(error, TableError):
                stopped[source.topic] = error
                if isinstance(error, LakeRowsChanged) and source.is_shared:
                    adrift.append(error)
            else:
                others.append(future)
        self._refuse_if_asked(stopped.values())
        for future in _failed_last(others):
            # In the order of their writes, so the last source of a shared table names its version.
            versions |= future.result()
        for shared_error in adrift:
            # Also sources without changes in this batch, and those that wrote before it was found.
            left = sharing(before, self._config.topics, shared_error.path)
            stopped |= dict.fromkeys(left, shared_error)
            for path in (shared_error.path, *companion_paths(shared_error.path)):
                versions.pop(path, None)
        self._tables.publish(versions)
        self._is_settled = True
        homes = {of.table.path: of.home for of in sources}
        changes = self._fold.schema_changes()
        return Applied(versions, stopped, changes, homes, frozenset(self._into_empty))

    def _leave(
        self, sources: Iterable[tuple[TableBatch, str]], before: SinkState, cut: CutPoint
    ) -> tuple[dict[str, int], list[LakeRowsChanged]]:
        """Delete the rows of sources that moved from the tables in which they were.

        Returns:
            The versions of these tables, and the errors of those that somebody else changed.
        """
        versions: dict[str, int] = {}
        adrift = []
        for source, home in sources:
            paths = [path for path in (home, *companion_paths(home)) if path in before.versions]
            session = self._idle.get()
            try:
                versions |= self._fold.leave(session.spark, source.table, paths, cut)
            except LakeRowsChanged as error:
                adrift.append(error)
            except (PySparkException, Py4JError) as error:
                raise translated(f"table {home}", error) from error
            finally:
                self._idle.put(session)
        return versions, adrift

    def _submit(
        self, sources: Sequence[TableBatch], cut: CutPoint, *, is_small: bool
    ) -> list[Future[dict[str, int]]]:
        """Apply all sources: those of one lake table one after the other, so they cannot conflict.

        Returns:
            The future of each source, in their order.
        """
        futures: list[Future[dict[str, int]]] = [Future() for _ in sources]
        by_lake_table: dict[TableName, list[tuple[TableBatch, Future[dict[str, int]]]]] = {}
        for source, future in zip(sources, futures, strict=True):
            by_lake_table.setdefault(source.lake_table, []).append((source, future))

        def apply(group: Iterable[tuple[TableBatch, Future[dict[str, int]]]]) -> None:
            ends: BaseException | None = None
            for source, future in group:
                if ends is not None:
                    future.set_exception(ends)
                    continue
                try:
                    future.set_result(self._apply_table(source, cut, is_small=is_small))
                except (SinkError, RegistryError) as error:
                    future.set_exception(error)
                except BaseException as error:  # noqa: BLE001 - raised by who waits for the future
                    ends = error
                    future.set_exception(error)

        for group in by_lake_table.values():
            self._pool.submit(apply, group)
        return futures

    def _with_starts(self, source: TableBatch, before: SinkState) -> TableBatch:
        """Add the cut that companions of the table start with, if they start."""
        lake_table = source.lake_table
        # Without other sources, a whole table has every row.
        has_all = source.topic_range.is_whole and not source.is_shared
        if has_all or table_path(lake_table) not in before.versions:
            return source
        # A table without a key has every change, and no companions.
        if not any(version.key_columns for version in source.versions):
            return source
        kinds = self._config.companions_of(lake_table)
        new = [kind for kind in kinds if table_path(lake_table, kind) not in before.versions]
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
                path = table_path(source.lake_table)
                describe_queries(session.spark, cut.batch, str(source.table))
                size = self._tables.bytes(session.spark, path)
                if source.topic_range.is_part and not size:
                    self._into_empty.add(source.topic)
                # A MERGE of few changes reads the table too, so its size counts.
                session.tune(is_small=is_small and size <= _SMALL_TABLE_BYTES)
                session.rewrite(rewrites=size <= self._config.rewrite_below_bytes)
                return self._fold.apply(session.spark, source, cut)
        except (PySparkException, Py4JError) as error:
            if self._tables.is_refused(error):
                reason = str(translated("writing", error))
                raise LakeTableChanged(
                    str(source.table), "", reason, is_shared=source.is_shared
                ) from error
            raise translated(f"table {source.table}", error) from error
        except LakeTableChanged as error:
            if not source.is_shared:
                raise
            column, problem = error.column, error.problem
            raise LakeTableChanged(error.table, column, problem, is_shared=True) from error
        except UnsupportedType as error:
            raise UnsupportedSchemaChange(
                str(source.table), "", str(error), "leave its column out of the capture instance"
            ) from error
        finally:
            self._idle.put(session)

    def _removal_of(self, source: TableBatch) -> str | None:
        session = self._idle.get()
        try:
            return removal_of(session.spark, self._tables, table_path(source.lake_table))
        finally:
            self._idle.put(session)

    def tidy(self, before: Mapping[str, int], after: Mapping[str, int]) -> None:
        """Maintain at most one table, between two batches.

        Args:
            before: path below the lake to the version of each table before the last batch.
            after: the same after it.
        """
        self._compaction.note(before, after)
        self._compaction.run()

    def tidy_all(self, should_stop: Callable[[], bool]) -> None:
        """Maintain all tables that are due."""
        while not should_stop() and self._compaction.run() is not None:
            pass


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
