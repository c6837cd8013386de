"""One batch: every table of a plan brought to its cut, in a pool of sessions."""

from __future__ import annotations

import queue
from collections.abc import Container, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from tailrace_schemas.envelope import TableSchema
from tailrace_schemas.registry import RegistryError
from tailrace_schemas.topics import TableName
from tailrace_schemas.types import UnsupportedType
from tailrace_sink.apply import TableWork, apply_changes, empty_statement
from tailrace_sink.config import SinkConfig
from tailrace_sink.conflicts import is_refused, retried
from tailrace_sink.ddl import LakeTables, set_retention
from tailrace_sink.decode import WriterSchema, writer_schema
from tailrace_sink.delta_log import table_version
from tailrace_sink.empty_tables import registered_version
from tailrace_sink.errors import (
    AppendSkipped,
    ForeignRecord,
    LakeTableChanged,
    LedgerMismatch,
    SchemaUnknown,
    SinkError,
    TableExcluded,
    TopicMadeAnew,
    UnsupportedSchemaChange,
)
from tailrace_sink.hooks import Hook
from tailrace_sink.jvm_errors import translated
from tailrace_sink.ledger import counted_by_spark, difference
from tailrace_sink.log_table import LogTable
from tailrace_sink.maintenance import Maintenance
from tailrace_sink.metrics import SinkMetrics
from tailrace_sink.progress import BatchPlan, SchemaById
from tailrace_sink.session import TunedSession
from tailrace_sink.topic_ranges import TopicRange
from tailrace_sink.topic_reader import TopicReader
from tailrace_sink.writes import fits_driver

OF_ONE_TABLE: Final = (
    UnsupportedSchemaChange,
    LakeTableChanged,
    AppendSkipped,
    LedgerMismatch,
    TopicMadeAnew,
)
"""Errors that concern one table, whatever the others do; a new snapshot brings it back."""


@dataclass(frozen=True, slots=True)
class _Source:
    """What one batch has for one source table, before its lake table is looked at."""

    table: TableName
    writers: tuple[WriterSchema, ...]
    other_writers: tuple[WriterSchema, ...]
    topic_range: TopicRange
    values: pa.Table | None = None

    @property
    def all_writers(self) -> tuple[WriterSchema, ...]:
        return (*self.writers, *self.other_writers)

    @property
    def versions(self) -> list[TableSchema]:
        return [writer.version for writer in self.writers]


@dataclass(frozen=True, slots=True)
class Applied:
    """What a batch did.

    Attributes:
        versions: path below the lake to the version of each table that was touched.
        stopped: topic to the error of each table that the lake cannot follow.
    """

    versions: dict[str, int]
    stopped: dict[str, SinkError]


class BatchApplier:
    """Applies plans to the lake.

    Args:
        spark: the session for reading small batches; every worker gets a new one of its own,
            because temporary views and settings are per session.
        config: the options.
        schema_by_id: looks writer schemas up.
        log: where the events are.
        metrics: where durations go.
        hook: called after each table.
    """

    def __init__(
        self,
        spark: SparkSession,
        config: SinkConfig,
        schema_by_id: SchemaById,
        log: LogTable,
        metrics: SinkMetrics,
        hook: Hook,
    ) -> None:
        self._config = config
        self._schema_by_id = schema_by_id
        self._log = log
        self._metrics = metrics
        self._hook = hook
        self._tables = LakeTables(config)
        self._writers: dict[int, WriterSchema] = {}
        self._pool = ThreadPoolExecutor(config.merge_pool, thread_name_prefix="merge")
        self._sessions = [TunedSession(spark) for _ in range(config.merge_pool)]
        self._idle: queue.SimpleQueue[SparkSession] = queue.SimpleQueue()
        for session in self._sessions:
            self._idle.put(session.spark)
        self._is_small = True
        self._reader = TopicReader(spark, config, log)
        self._maintenance = Maintenance(spark, config)

    def close(self) -> None:
        """Wait for running tables and end the workers."""
        self._pool.shutdown()

    def forget(self) -> None:
        """After a failure, look at the lake's tables anew."""
        self._tables.forget()

    def set_retention(self, paths: Iterable[str]) -> None:
        """Bring known tables to the retention that the options ask for.

        Args:
            paths: below the lake, whether there is a table or not.

        Raises:
            SinkError: the first table's that failed.
        """
        for future in [self._pool.submit(self._set_retention, path) for path in sorted(paths)]:
            future.result()

    def _set_retention(self, path: str) -> None:
        session = self._idle.get()
        try:
            set_retention(session, self._config, path)
        except (PySparkException, Py4JError) as error:
            raise translated(f"table {path}", error) from error
        finally:
            self._idle.put(session)

    def apply(self, plan: BatchPlan) -> Applied:
        """Apply every table of a plan; one that the lake cannot follow stops alone.

        Raises:
            SinkError: the first table's that failed, after all others were finished.
            RegistryError: a schema could not be looked up.
        """
        sources, stopped = self._sources(plan)
        is_small = fits_driver(self._config, plan.count, sum(t.bytes for t in plan.topics))
        if is_small != self._is_small:
            for session in self._sessions:
                session.tune(is_small=is_small)
            self._is_small = is_small
        stopped |= {
            topic.topic: TopicMadeAnew(topic.topic) for topic in plan.topics if topic.is_made_anew
        }
        sources = _without(sources, stopped)
        if is_small:
            ranges = {s.topic_range.topic: s.topic_range for s in sources if s.writers}
            writers = {s.topic_range.topic: s.all_writers for s in sources}
            values, lost = self._reader.values(ranges, writers)
            stopped |= lost
            sources = [
                replace(source, values=values.get(source.topic_range.topic))
                for source in _without(sources, lost)
            ]
        batch = plan.following.batch
        cut = plan.following.closed_lsn
        futures = [self._pool.submit(self._apply_table, source, batch, cut) for source in sources]
        wait(futures)
        others: list[Future[dict[str, int]]] = []
        for source, future in zip(sources, futures, strict=True):
            error = future.exception()
            topic = source.topic_range.topic
            if isinstance(error, OF_ONE_TABLE):
                stopped[topic] = error
            else:
                others.append(future)
        versions: dict[str, int] = {}
        for future in _failed_last(others):
            versions |= future.result()
        return Applied(versions, stopped)

    def _sources(self, plan: BatchPlan) -> tuple[list[_Source], dict[str, SinkError]]:
        """What to apply, and the topics of which nothing can be or is to be."""
        sources: list[_Source] = []
        stopped: dict[str, SinkError] = {}
        for topic_range in plan.topics:
            topic = topic_range.topic
            try:
                writers = [self._writer(i, topic) for i in sorted(topic_range.schema_ids)]
            except (SchemaUnknown, ForeignRecord) as error:
                stopped[topic] = error
                continue
            tables = {writer.version.table for writer in writers}
            if topic_range.is_whole and not topic_range.partitions:
                # A snapshot that found no row: its table is known by the topic's name only.
                named = self._config.topics.table_of(topic_range.topic)
                tables = set() if named is None else {named}
            selected = sorted(filter(self._config.tables.selects, tables))
            if tables and not selected:
                # Logged while it was wanted: what is passed over now is missing from now on.
                stopped[topic] = TableExcluded()
            for table in selected:
                own = tuple(w for w in writers if w.version.table == table)
                other = tuple(w for w in writers if w.version.table != table)
                sources.append(_Source(table, own, other, topic_range))
        return sources, stopped

    def _writer(self, schema_id: int, topic: str) -> WriterSchema:
        found = self._writers.get(schema_id)
        if found is None:
            try:
                schema = self._schema_by_id(schema_id)
            except RegistryError as error:
                if error.retryable:
                    raise
                raise SchemaUnknown(topic, schema_id, str(error)) from error
            found = writer_schema(schema_id, schema, topic)
            self._writers[schema_id] = found
        return found

    def _apply_table(self, source: _Source, batch: int, cut: str) -> dict[str, int]:
        session = self._idle.get()
        try:
            with self._metrics.table_seconds(str(source.table)):
                return self._apply_again(session, source, batch, cut)
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

    def _apply_again(
        self, session: SparkSession, source: _Source, batch: int, cut: str
    ) -> dict[str, int]:
        try:
            return self._apply_in(session, source, batch, cut)
        except AnalysisException:
            # Somebody else may have altered the table since this process looked at it.
            self._tables.forget(source.table)
            return self._apply_in(session, source, batch, cut)

    def _apply_in(
        self, session: SparkSession, source: _Source, batch: int, cut: str
    ) -> dict[str, int]:
        if not source.writers:
            return self._empty(session, source.table, source.topic_range.topic, cut)
        with self._messages(session, source) as values:
            return self._apply_messages(session, source, values, batch, cut)

    @contextmanager
    def _messages(self, session: SparkSession, source: _Source) -> Iterator[DataFrame]:
        """The messages of one source table, as many and the same as the ledger counts."""
        if source.values is not None:
            yield session.createDataFrame(source.values)
            return
        values = self._log.values(session, [source.topic_range])
        # Read once, counted and then written: what is written is what was counted.
        values.persist()
        try:
            counted = counted_by_spark(values, source.all_writers)
            error = difference(str(source.table), source.topic_range, counted)
            if error is not None:
                raise error
            yield values
        finally:
            values.unpersist()

    def _apply_messages(
        self, session: SparkSession, source: _Source, values: DataFrame, batch: int, cut: str
    ) -> dict[str, int]:
        versions = source.versions
        keyed = any(column.key_ordinal for column in versions[0].columns)
        table = self._tables.follow(
            session,
            versions,
            is_changes=not keyed,
            may_replace=keyed and source.topic_range.is_only_whole,
        )
        changes_table = None
        if keyed and self._config.changelog.selects(source.table):
            changes_table = self._tables.follow(session, versions, is_changes=True)
        if source.values is None or source.values.num_rows:
            work = TableWork(
                table,
                changes_table,
                source.writers,
                source.other_writers,
                source.topic_range,
                values,
            )
            apply_changes(session, self._config, work, batch, cut)
        written = [table] if changes_table is None else [table, changes_table]
        self._hook("merged", table.path)
        return {
            found.path: table_version(session, f"{self._config.lake}/{found.path}")
            for found in written
        }

    def _empty(
        self, session: SparkSession, name: TableName, topic: str, cut: str
    ) -> dict[str, int]:
        """The source table was found empty: so is the lake's, with the columns that it has."""
        version = registered_version(self._config, topic, name)
        if version is None:
            known = self._tables.known(session, name)
            tables = [] if known is None else [known]
        else:
            keyed = any(column.key_ordinal for column in version.columns)
            kinds = [not keyed]
            if keyed and self._config.changelog.selects(name):
                kinds.append(True)
            tables = [
                self._tables.follow(
                    session, [version], is_changes=is_changes, may_replace=not is_changes
                )
                for is_changes in kinds
            ]
        for table in tables:
            if table.key and not table.is_changes and not table.is_new:
                statement = empty_statement(self._config, table, cut)
                retried(f"emptying {table.path}", partial(session.sql, statement))
        return {
            table.path: table_version(session, f"{self._config.lake}/{table.path}")
            for table in tables
        }

    def tidy(self, versions: Mapping[str, int]) -> None:
        """Upkeep between two batches, of one table at most.

        Args:
            versions: path below the lake to the newest version of each table.

        Raises:
            SinkError: it failed.
        """
        self._maintenance.run(versions)


def _without(sources: Iterable[_Source], topics: Container[str]) -> list[_Source]:
    return [source for source in sources if source.topic_range.topic not in topics]


def _failed_last(
    futures: Iterable[Future[dict[str, int]]],
) -> list[Future[dict[str, int]]]:
    """The futures with the errors that stop the sink before those that it would try again."""

    def rank(future: Future[dict[str, int]]) -> int:
        error = future.exception()
        if error is None:
            return 2
        return 1 if getattr(error, "retryable", False) else 0

    return sorted(futures, key=rank)
