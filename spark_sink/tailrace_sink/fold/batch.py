"""Application of one batch to all its tables, in a pool of sessions."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import Final

import structlog
from pyspark.sql import SparkSession

from tailrace_schemas.topics.topic_names import TableName
from tailrace_service.backoff import Backoff
from tailrace_service.registry.client import RegistryError
from tailrace_sink.errors import (
    ApplyFailed,
    BadRecord,
    BadRecordRefused,
    ForeignRecord,
    LakeRowsChanged,
    LedgerMismatch,
    SchemaUnknown,
    SinkError,
    TableError,
    TopicRecreated,
)
from tailrace_sink.fold.blame import removal_of
from tailrace_sink.fold.patience import Patience, failed_last
from tailrace_sink.fold.table_batch import (
    Staged,
    TableBatch,
    TableBatches,
    elsewhere,
    left_behind,
    sharing,
    with_starts,
    without,
)
from tailrace_sink.fold.table_fold import TableFold
from tailrace_sink.fold.topic_reader import TopicReader
from tailrace_sink.kafka.offset_bounds import TopicCheck
from tailrace_sink.log.events import Events
from tailrace_sink.log.sink_parts import SinkParts
from tailrace_sink.options.modes import BadRecords
from tailrace_sink.plan.sink_state import BatchPlan, CutPoint, SinkState
from tailrace_sink.ports.one_table import of_one_table
from tailrace_sink.ports.table_format import TableWriter
from tailrace_sink.spark.session import TunedSession
from tailrace_sink.tables.lake_table import (
    companion_paths,
    lake_paths,
    source_path,
    table_at,
    table_path,
)
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
        spark: reads small batches, and publishes. Every worker gets a session of its own, as
            temporary views and settings are per session.
    """

    def __init__(self, spark: SparkSession, parts: SinkParts) -> None:
        config = parts.config
        self._config = config
        self._spark = spark
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
        self._patience = Patience(config.apply_attempts, config.lake)
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
            with of_one_table(path):
                self._tables.retain(session.spark, path, since)
        except (TableError, ApplyFailed) as error:
            # A damaged table stops at its next write, not at the start of the sink.
            _log.warning("retention_not_set", table=path, reason=str(error))
        finally:
            self._idle.put(session)

    def apply(self, plan: BatchPlan, before: SinkState, stop: threading.Event) -> Applied | None:
        """Apply every table of a plan; an error in one table stops only that table.

        Others may commit to tables that are staged. Tables are then staged again as often as that
        is needed.

        Args:
            before: state of the tables before the batch.
            stop: if it is set, a table is not staged again.

        Returns:
            None if it was stopped and nothing is published.

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
        sources = [with_starts(self._config, of, before) for of in without(sources, stopped)]
        if is_small:
            sources = self._with_values(sources)
        staged = Staged({}, stopped)
        pauses = Backoff(self._config.retry_backoff_max_s)
        left, wanted = leaving, sources
        while True:
            self._stage(left, wanted, staged, plan, before, is_small=is_small)
            published = self._tables.publish(self._spark, staged.versions)
            staged.versions = dict(published.versions)
            for path, change in published.changed.items():
                self._stop_changed(path, change, sources, staged, before)
            if published.is_done:
                break
            homes = {source_path(path) for path in published.rewritten}
            for home in homes:
                _log.info("lake_table_staged_again", table=home, batch=plan.following.batch)
                self._fold.forget(table_at(home)[0])
                staged.leave_out(home)
            # Others commit without end, so this is no failed attempt.
            if not published.changed and stop.wait(pauses.next_s()):
                return None
            left = [of for of in leaving if of[1] in homes]
            wanted = [of for of in sources if table_path(of.lake_table) in homes]
        self._is_settled = True
        rows_at = {of.table.path: of.home for of in sources}
        changes, empty = self._fold.schema_changes(), frozenset(self._into_empty)
        return Applied(staged.versions, staged.stopped, changes, rows_at, empty)

    def _stage(
        self,
        leaving: Iterable[tuple[TableBatch, str]],
        sources: Iterable[TableBatch],
        staged: Staged,
        plan: BatchPlan,
        before: SinkState,
        *,
        is_small: bool,
    ) -> None:
        """Write the tables of some sources; an error in one of them stops only its table."""
        versions, adrift = self._leave(leaving, before, plan.point)
        staged.versions |= versions
        sources = without(sources, staged.stopped)
        futures = self._submit(sources, plan.point, is_small=is_small)
        wait(futures)
        unreadable = self._patience.over(plan.following.batch, sources, futures, self._removal_of)
        others: list[Future[dict[str, int]]] = []
        for source, future in zip(sources, futures, strict=True):
            error = unreadable.get(source.topic) or future.exception()
            if isinstance(error, TableError):
                staged.stopped[source.topic] = error
                if isinstance(error, LakeRowsChanged) and source.is_shared:
                    adrift.append(error)
            else:
                others.append(future)
        self._refuse_if_asked(staged.stopped.values())
        for future in failed_last(others):
            # In the order of their writes, so the last source of a shared table names its version.
            staged.versions |= future.result()
        for shared_error in adrift:
            # Also sources without changes in this batch, and those that wrote before it was found.
            home = source_path(shared_error.path)
            staged.stop(sharing(before, self._config.topics, home), shared_error)

    def _stop_changed(
        self,
        path: str,
        change: str,
        sources: Iterable[TableBatch],
        staged: Staged,
        before: SinkState,
    ) -> None:
        """Stop the sources of a lake table that somebody else changed while it was staged."""
        home = source_path(path)
        own = [of for of in sources if table_path(of.lake_table) == home]
        topics = {of.topic for of in own}
        is_shared = not own or own[0].is_shared
        if is_shared:
            topics |= set(sharing(before, self._config.topics, home))
        self._fold.forget(table_at(home)[0])
        staged.stop(topics, LakeRowsChanged(path, change, is_shared=is_shared))

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
                with of_one_table(home, is_shared=True):
                    versions |= self._fold.leave(session.spark, source.table, paths, cut)
            except LakeRowsChanged as error:
                adrift.append(error)
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
        session, name = self._idle.get(), str(source.table)
        is_refused = self._tables.is_refused
        try:
            with (
                self._metrics.table_seconds(name),
                of_one_table(
                    name,
                    is_shared=source.is_shared,
                    is_replaced=source.may_be_replaced,
                    is_refused=is_refused,
                ),
            ):
                path = table_path(source.lake_table)
                describe_queries(session.spark, cut.batch, name)
                size = self._tables.bytes(session.spark, path)
                if source.topic_range.is_part and not size:
                    self._into_empty.add(source.topic)
                # A MERGE of few changes reads the table too, so its size counts.
                session.tune(is_small=is_small and size <= _SMALL_TABLE_BYTES)
                session.rewrite(rewrites=size <= self._config.rewrite_below_bytes)
                return self._fold.apply(session.spark, source, cut)
        finally:
            self._idle.put(session)

    def _removal_of(self, source: TableBatch) -> str | None:
        if not source.may_be_replaced:
            return self._tables.removal(table_path(source.lake_table))
        session = self._idle.get()
        try:
            return removal_of(session.spark, self._tables, lake_paths(source.lake_table))
        finally:
            self._idle.put(session)

    def tidy(self, before: Mapping[str, int], after: Mapping[str, int]) -> None:
        """Maintain at most one table, between two batches.

        Args:
            before: path below the lake to the version of each table before the last batch.
            after: the same after it.
        """
        self._compaction.note(before, after)
        self._compact()

    def tidy_all(self, should_stop: Callable[[], bool]) -> None:
        """Maintain all tables that are due."""
        while not should_stop() and self._compact():
            pass

    def _compact(self) -> bool:
        """Compact one table if one is due; one that fails waits until it is due again."""
        try:
            with of_one_table("that is compacted"):
                return self._compaction.run() is not None
        except SinkError as error:
            _log.warning("lake_table_not_compacted", reason=str(error))
            self._metrics.failed(error, str(error))
            return True
