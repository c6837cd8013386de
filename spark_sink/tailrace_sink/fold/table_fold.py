"""Application of one source table's part of a batch: counted, screened if needed, written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial

import structlog
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tailrace_schemas.events.envelope import TableSchema
from tailrace_schemas.topics.topic_names import TableName
from tailrace_sink.errors import (
    BadRecord,
    LakeTableChanged,
    PartitionValueRefused,
    UnsupportedSchemaChange,
)
from tailrace_sink.fold.apply import TableWork, Values, apply_changes
from tailrace_sink.fold.blame import may_be_records, to_blame, void_by
from tailrace_sink.fold.companions import Companions, followed_companions, start
from tailrace_sink.fold.empty_tables import delete_all, registered_version
from tailrace_sink.fold.history_table import History
from tailrace_sink.fold.lake_tables import LakeTables
from tailrace_sink.fold.ledger import counted_by_spark, rest_of
from tailrace_sink.fold.passing_count import is_enough
from tailrace_sink.fold.snapshot_end import finish
from tailrace_sink.fold.table_batch import TableBatch
from tailrace_sink.log.dead_letters import DeadLetters
from tailrace_sink.log.events import Events
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.options.modes import BadRecords
from tailrace_sink.plan.ledger_difference import difference
from tailrace_sink.plan.sink_state import CutPoint
from tailrace_sink.ports.table_format import TableWriter
from tailrace_sink.ports.writes import NotAsCounted, RowsChanged
from tailrace_sink.spark.jvm_errors import is_analysis_error, translated
from tailrace_sink.tables.lake_table import Kind, LakeTable, table_at, table_path
from tailrace_sink.tables.origins import own_rows
from tailrace_sink.tables.schema_record import Change
from tailrace_sink.watch.hooks import Hook
from tailrace_sink.watch.metrics import SinkMetrics

_log = structlog.get_logger("tailrace.sink")


@contextmanager
def _refused_by_a_companion(table: str, tables: TableWriter) -> Iterator[None]:
    """Write to a table that was just replaced, which refuses nothing that the source has."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        if not (is_analysis_error(error) or tables.is_refused(error)):
            raise
        name, reason = f"{table}: a companion", str(translated("writing", error))
        raise LakeTableChanged(name, "", reason, is_replaced=False) from error


class TableFold:
    """Applies tables, each in the caller's session; thread-safe after :meth:`begin`."""

    def __init__(
        self, config: SinkConfig, events: Events, metrics: SinkMetrics, hook: Hook
    ) -> None:
        self._config = config
        self._events = events
        self._metrics = metrics
        self._hook = hook
        self._dead_letters = DeadLetters(config, events)

    def begin(self, tables: TableWriter) -> None:
        """Read the lake's tables from scratch, as the sink that owns the log writes them."""
        self._writer = tables
        self._tables = LakeTables(self._config, tables)

    def begin_batch(self, batch: int, versions: Mapping[str, int]) -> None:
        """Begin a batch on tables of the last cut (:meth:`LakeTables.begin_batch`)."""
        self._tables.begin_batch(batch, versions)

    def forget(self, table: TableName) -> None:
        """Read a lake table and its companions again before they are written."""
        self._tables.forget(table)

    def schema_changes(self) -> list[Change]:
        """Return the changes of columns in the batch."""
        return self._tables.schema_changes()

    def apply(self, session: SparkSession, source: TableBatch, cut: CutPoint) -> dict[str, int]:
        """Apply one table's part of a batch.

        Args:
            session: used by this thread only.

        Returns:
            Path below the lake to the version of each table that was written.

        Raises:
            TableError: this table must stop.
            RowsChanged: so it must, as somebody else changed rows.
            PySparkException, Py4JError: Spark failed, and no record is the cause.
        """
        if source.topic_range.is_whole and not source.is_shared:
            self._tables.adopt(source.lake_table)
        with self._read_again_if_changed(source.lake_table):
            try:
                return self._apply(session, source, cut)
            except (PySparkException, Py4JError) as error:
                if not is_analysis_error(error):
                    raise
                # Somebody else may have altered the table since this process read it.
                self._tables.forget(source.lake_table)
                return self._apply(session, source, cut)

    @contextmanager
    def _read_again_if_changed(self, table: TableName) -> Iterator[None]:
        """Let the next source of a lake table find, too, that somebody else changed rows of it."""
        try:
            yield
        except RowsChanged:
            self._tables.forget(table)
            raise

    def _apply(self, session: SparkSession, source: TableBatch, cut: CutPoint) -> dict[str, int]:
        if source.is_empty:
            return self._empty(session, source, cut)
        written: dict[str, int] = {}
        if source.topic_range.partitions:
            written = self._apply_changes(session, source, cut)
        if source.topic_range.finishes is not None:
            written |= self._finish(session, source, cut)
        return written

    def _apply_changes(
        self, session: SparkSession, source: TableBatch, cut: CutPoint
    ) -> dict[str, int]:
        values = cache(partial(self._messages, session, source))
        if source.values is None and is_enough(source):
            written = self._write_and_count(session, source, values, cut)
            if written is not None:
                return written
        differs = source.differs
        if source.values is None and source.all_writers:
            counted = counted_by_spark(values(), source.all_writers)
            differs = difference(str(source.table), source.topic_range, counted)
        bad: BadRecord | None = None
        if differs is not None or source.missing:
            bad = source.screen.first(values(), None if differs is None else str(differs))
        if bad is None and differs is not None:
            raise differs
        if bad is None:
            try:
                return self._write(session, source, values, cut)
            except (PySparkException, Py4JError) as error:
                bad = to_blame(error, self._writer, source.screen, values())
                if bad is None:
                    raise
        if self._config.on_bad_record is not BadRecords.DEAD_LETTER:
            raise bad
        return self._put_aside(session, source, values, bad, cut)

    def _write_and_count(
        self, session: SparkSession, source: TableBatch, values: Values, cut: CutPoint
    ) -> dict[str, int] | None:
        """Write and count in one pass; None if the changes must be counted before."""
        try:
            return self._write(session, source, values, cut, is_counted=False)
        except NotAsCounted as error:
            _log.warning("changes_recounted", table=str(source.table), reason=str(error))
        except (UnsupportedSchemaChange, LakeTableChanged, PartitionValueRefused):
            # A replaced table loses its rows, so the new ones must be counted first.
            return None
        except (PySparkException, Py4JError) as error:
            if not (source.comes_whole or may_be_records(error, self._writer)):
                raise
        return None

    def _put_aside(
        self,
        session: SparkSession,
        source: TableBatch,
        values: Values,
        bad: BadRecord,
        cut: CutPoint,
    ) -> dict[str, int]:
        """Store the bad records in the dead letters, and apply the others.

        Raises:
            LedgerMismatch: the good records are not what the ledger counts.
            BadRecord: no record of a whole table is good.
        """
        good = rest_of(source, values(), bad)
        count = self._dead_letters.put(session, source.screen, source.topic_range, cut)
        if count:
            self._metrics.dead_letters.labels(table=str(source.table)).inc(count)
        _log.error(
            "dead_letters_stored",
            table=str(source.table),
            records=count,
            first=str(bad),
            into=self._config.dead_letters_path,
        )
        if not source.writers:
            return {}
        return self._write(session, source, lambda: good, cut, lacks_changes=True)

    def _messages(self, session: SparkSession, source: TableBatch) -> DataFrame:
        """Read the messages from files of one version of the log, so each read is the same.

        They are not cached: reading the files again is faster (measured), and needs less memory.
        """
        if source.values is not None:
            # One partition: reducing it needs no exchange between tasks.
            return session.createDataFrame(source.values).coalesce(1)
        return self._events.many(session, source.topic_range)

    def _write(
        self,
        session: SparkSession,
        source: TableBatch,
        values: Values,
        cut: CutPoint,
        *,
        lacks_changes: bool = False,
        is_counted: bool = True,
    ) -> dict[str, int]:
        if not source.writers:
            return {}
        versions = source.versions
        kind = Kind.of(versions[0])
        may_replace = is_counted and kind is Kind.MIRROR and source.comes_whole
        table = self._follow(session, source, versions, may_replace=may_replace)
        if lacks_changes:
            table = self._tables.doubt_deletes(session, table)
        companions = Companions()
        if kind is Kind.MIRROR:
            companions = self._companions(session, source, versions)
        work = TableWork(
            table,
            companions.changes,
            source.writers,
            source.other_writers,
            source.topic_range,
            values,
            None if lacks_changes else source.values,
            is_counted,
            source.repeats_keys,
            self._writer,
        )
        try:
            self._carry_out(session, source, work, companions.history, cut)
        except (PySparkException, Py4JError, PartitionValueRefused) as error:
            reason = may_replace and void_by(error, session, self._writer, table.path)
            if not reason:
                raise
            # The whole table comes, which needs nothing that the lake has.
            table = self._tables.replaced(session, versions, reason)
            work = replace(work, table=table)
            with _refused_by_a_companion(str(source.lake_table), self._writer):
                self._carry_out(session, source, work, companions.history, cut)
        self._hook("merged", table.path)
        return self._versions(session, [table, *companions.tables])

    def _carry_out(
        self,
        session: SparkSession,
        source: TableBatch,
        work: TableWork,
        history_table: LakeTable | None,
        cut: CutPoint,
    ) -> None:
        """Start the table's companions if needed, then apply the changes."""
        config = self._config
        companions = Companions(work.changes_table, history_table)
        for kind, after in source.starts.items():
            path = start(session, config, self._writer, companions, work.table, kind, after, cut)
            self._hook("started", path)
        if source.values is not None and not source.values.num_rows:
            return
        apply_changes(session, config, work, cut)
        if history_table is not None:
            self._hook("mirrored", work.table.path)
            History(config, self._writer, history_table, work.table).follow(session, work, cut)

    def _finish(self, session: SparkSession, source: TableBatch, cut: CutPoint) -> dict[str, int]:
        """Delete the rows that a snapshot in parts lacks."""
        versions, config, writer = source.versions, self._config, self._writer
        if not versions or Kind.of(versions[0]) is not Kind.MIRROR:
            return {}
        table = self._follow(session, source, versions)
        companions = self._companions(session, source, versions)
        finish(session, config, writer, self._events, source, table, companions.changes, cut)
        if companions.history is not None:
            History(config, writer, companions.history, table).close_gone(session, cut)
        self._hook("finished", table.path)
        return self._versions(session, [table, *companions.tables])

    def _empty(self, session: SparkSession, source: TableBatch, cut: CutPoint) -> dict[str, int]:
        """Empty the lake table of a source table without rows; create it if needed."""
        version = registered_version(self._config, source.topic, source.table)
        table = self._tables.at(session, table_path(source.lake_table))
        companions = Companions()
        if version is not None:
            may_replace = Kind.of(version) is Kind.MIRROR and not source.is_shared
            table = self._follow(session, source, [version], may_replace=may_replace)
            if table.kind is Kind.MIRROR:
                companions = self._companions(session, source, [version])
        if table is None:
            return {}
        table = replace(table, origin=source.table if source.is_shared else None)
        if table.kind is Kind.MIRROR and table.key and not table.is_new:
            delete_all(session, self._config, self._writer, table, companions, cut)
        return self._versions(session, [table, *companions.tables])

    def _follow(
        self,
        session: SparkSession,
        source: TableBatch,
        versions: list[TableSchema],
        *,
        may_replace: bool = False,
    ) -> LakeTable:
        """Create or alter the lake table of a source."""
        kind, into = Kind.of(versions[0]), source.lake_table
        table = self._tables.follow(session, versions, kind, into=into, may_replace=may_replace)
        if not table.is_shared or table.is_new or not source.topic_range.is_whole:
            return table
        # A source that comes to others has no rows there, so its snapshot is appended.
        rows = self._writer.rows(session, table.path)
        return replace(table, is_new=not rows.where(own_rows(table)).limit(1).collect())

    def _companions(
        self, session: SparkSession, source: TableBatch, versions: list[TableSchema]
    ) -> Companions:
        """Create or alter the companions of a source's mirror."""
        return followed_companions(session, self._config, self._tables, versions, source.lake_table)

    def leave(
        self, session: SparkSession, source: TableName, paths: Sequence[str], cut: CutPoint
    ) -> dict[str, int]:
        """Delete the rows of a source from a lake table that it shares with others. Idempotent.

        Args:
            paths: of the lake table and then its companions; at least one.

        Returns:
            As :meth:`apply`.

        Raises:
            RowsChanged: somebody else changed rows.
        """
        found = {}
        with self._read_again_if_changed(table_at(paths[0])[0]):
            for path in paths:
                table = self._tables.at(session, path)
                if table is not None:
                    found[table.kind] = replace(table, origin=source)
            table = found.get(Kind.MIRROR)
            if table is None or not table.key:
                return {}
            companions = Companions(found.get(Kind.CHANGES), found.get(Kind.HISTORY))
            delete_all(session, self._config, self._writer, table, companions, cut)
            return self._versions(session, [table, *companions.tables])

    def _versions(self, session: SparkSession, tables: Iterable[LakeTable]) -> dict[str, int]:
        """Map paths below the lake to the newest version of each table.

        Raises:
            RowsChanged: somebody else changed rows meanwhile.
        """
        return {table.path: self._tables.written(session, table.path) for table in tables}
