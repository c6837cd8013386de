"""The table format port for Delta: one commit a table, which readers see at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tailrace_schemas.topics.topic_names import TableName
from tailrace_sink.delta.append_once import append_once
from tailrace_sink.delta.conflicts import is_conflict, is_refused, retried
from tailrace_sink.delta.described_table import features_of, lake_table_of
from tailrace_sink.delta.fence import Fence, epochs_scope
from tailrace_sink.delta.file_log import (
    current_snapshot,
    partition_columns,
    table_bytes,
    table_metadata,
    table_version,
    transaction_version,
)
from tailrace_sink.delta.files.append_files import append_files, form_of_files
from tailrace_sink.delta.foreign_commits import OwnVersions
from tailrace_sink.delta.old_versions import at_version
from tailrace_sink.delta.partition_values import require_held
from tailrace_sink.delta.table_maintenance import Maintenance
from tailrace_sink.delta.table_properties import (
    alter_statement,
    create_statement,
    new_table_properties,
    retain,
    without_refusals,
)
from tailrace_sink.delta.upsert import upsert
from tailrace_sink.delta.warm_up import warm_up
from tailrace_sink.files.counted_files import CountedFiles
from tailrace_sink.files.parquet_files import FileForm
from tailrace_sink.files.range_files import RangeFiles
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.plan.scopes import sink_scope
from tailrace_sink.plan.sink_state import CutPoint
from tailrace_sink.plan.topic_ranges import TopicRange
from tailrace_sink.ports.writes import (
    Check,
    Destination,
    Examine,
    Latest,
    Once,
    Owner,
    Published,
)
from tailrace_sink.rows.same_rows import only_others_differ
from tailrace_sink.rows.writer_schema import WriterSchema
from tailrace_sink.tables.lake_table import (
    MODE_PROPERTY,
    NO_ZONE,
    OWNER_PROPERTY,
    Feature,
    Kind,
    LakeTable,
    quote,
    table_at,
    table_path,
)
from tailrace_sink.tables.new_table import columns_ddl


class DeltaTables:
    """The tables of a lake, as any session reads them (``TableReader``)."""

    def __init__(self, lake: str) -> None:
        self._lake = lake

    def version(self, spark: SparkSession, path: str) -> int:
        """Return the newest version of a table; -1 if there is none."""
        return table_version(spark, self._at(path))

    def described(
        self, spark: SparkSession, table: TableName, kind: Kind, at: int | None = None
    ) -> LakeTable | None:
        """Describe a table by its metadata, now or at a version."""
        metadata = table_metadata(spark, self._at(table_path(table, kind)), at)
        return None if metadata is None else lake_table_of(table, metadata, kind)

    def rows(self, spark: SparkSession, path: str, at: int | None = None) -> DataFrame:
        """Read a table, now or at a version."""
        if at is not None:
            return at_version(spark, self._at(path), at)
        return spark.read.format("delta").load(self._at(path))

    def name(self, path: str) -> str:
        """Return a table's name in SQL; ``VERSION AS OF`` may follow it in a query."""
        return f"delta.{quote(self._at(path))}"

    def require_own_rows(
        self, spark: SparkSession, path: str, since: int, log: str, prefix: str
    ) -> None:
        """Require that only the sink has changed rows of a table since a version."""
        known = OwnVersions(self._lake, epochs_scope(log), sink_scope(prefix))
        spares = partial(self._spares, spark, path)
        known.builds_on(spark, self._at(path), since, spares=spares)

    def _spares(self, spark: SparkSession, path: str, version: int) -> bool:
        """Whether a commit changed only columns of a mirror that somebody else has added."""
        table = self.described(spark, *table_at(path), version)
        return only_others_differ(table, partial(self.rows, spark, path), version - 1, version)

    def _at(self, path: str) -> str:
        return f"{self._lake}/{path}"


class DeltaWriter(DeltaTables):
    """The tables of a lake, as the sink with one epoch writes them (``TableWriter``)."""

    reserved: Final[frozenset[str]] = frozenset()

    def __init__(self, config: SinkConfig, owner: Owner, files: RangeFiles) -> None:
        super().__init__(config.lake)
        self._config = config
        own = OwnVersions(config.lake, epochs_scope(owner.log), sink_scope(config.prefix))
        self._fence = Fence(owner, own)
        self._files = files
        self._batch = 0

    def begin(self, cut: CutPoint) -> None:
        """Begin a batch; each write has the batch id that it needs."""
        self._batch = cut.batch

    def publish(self, spark: SparkSession, versions: Mapping[str, int]) -> Published[str]:
        """Do nothing: each commit of a table is visible."""
        return Published(versions, is_done=True)

    def bytes(self, spark: SparkSession, path: str) -> int:
        """Return the bytes of the table's files; 0 if there is none."""
        return table_bytes(spark, self._at(path))

    def take(self, spark: SparkSession, path: str) -> None:
        """Take a table from an older sink, before it is read."""
        self._fence.enter(spark, self._at(path))

    def builds_on(self, spark: SparkSession, path: str, since: int | None) -> int:
        """Return the version on which a batch builds, after reading commits since another one."""
        if since is None:
            return self.version(spark, path)
        spares = partial(self._spares, spark, path)
        return self._fence.own.builds_on(spark, self._at(path), since, self._batch, spares)

    def written(self, spark: SparkSession, path: str, since: int) -> int:
        """Return the version with what a batch wrote."""
        return self.builds_on(spark, path, since)

    def create(self, spark: SparkSession, table: LakeTable) -> None:
        """Create a table if there is none."""
        mode = {MODE_PROPERTY: table.mode} if table.mode else {}
        owner = {OWNER_PROPERTY: self._fence.owner.text}
        properties = {**new_table_properties(self._config), **owner, **mode}
        location, layout = self._at(table.path), self._config.layout_of(table.table, table.kind)
        spark.sql(create_statement(table, location, properties, *layout))

    def replace(self, spark: SparkSession, table: LakeTable) -> LakeTable:
        """Overwrite a table by an empty one of other columns; earlier versions stay.

        CREATE OR REPLACE TABLE refuses another schema at a path (Delta 4.4.0).
        """
        location = self._at(table.path)
        found = table_metadata(spark, location)
        features = frozenset() if found is None else features_of(found)
        needed = sorted(table.features - features)
        if any(column.type == NO_ZONE for column in table.columns):
            needed.append(Feature.NO_ZONE)
        for change in () if found is None else without_refusals(found.properties):
            self.alter(spark, table.path, change)
        for feature in needed:
            self.alter(spark, table.path, feature)
        no_rows: list[tuple[Any, ...]] = []
        empty = spark.createDataFrame(no_rows, columns_ddl(table))
        writer = empty.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
        partition_by, cluster_by = self._config.layout_of(table.table, table.kind)
        if partition_by:
            writer = writer.partitionBy(*partition_by)
        elif cluster_by:
            writer = writer.clusterBy(*cluster_by)
        self._fence.write(spark, location, partial(writer.save, location))
        return replace(table, features=features | table.features)

    def alter(self, spark: SparkSession, path: str, change: str | Feature) -> None:
        """Change a table's columns or properties."""
        location = self._at(path)
        self._fence.alter(spark, location, alter_statement(location, change))

    def append(
        self,
        rows: DataFrame,
        path: str,
        once: Once,
        check: Check | None = None,
        examine: Examine | None = None,
    ) -> None:
        """Append rows once, with the batch id as Delta's transaction version."""
        location = self._at(path)
        with self._refusing(rows.sparkSession, path, lambda: rows):
            append_once(rows, location, once.scope, once.batch, check, self._fence, examine)

    def upsert(self, spark: SparkSession, table: LakeTable, latest: Latest) -> bool:
        """Apply the last change of each key in one commit; False if a MERGE is needed."""
        config, location = self._config, self._at(table.path)
        mode, below = config.delete_mode, config.rewrite_below_bytes
        write = partial(upsert, spark, location, table, latest, mode, below, self._fence)
        with self._refusing(spark, table.path, lambda: latest.rows):
            return retried(f"upsert into {table.path}", write)

    def run(
        self,
        spark: SparkSession,
        path: str,
        statement: str,
        once: Once | None = None,
        rows: DataFrame | None = None,
    ) -> None:
        """Run a statement that changes rows; with ``once``, once."""
        location, run = self._at(path), partial(spark.sql, statement)
        if rows is not None:
            self._require_held(spark, path, rows)
        with self._refusing(spark, path, lambda: rows):
            if once is None:
                self._fence.write(spark, location, run)
            else:
                self._fence.write_once(spark, location, once.scope, once.batch, run)

    def _require_held(
        self, spark: SparkSession, path: str, rows: DataFrame, *, has_failed: bool = False
    ) -> None:
        partitions = partition_columns(current_snapshot(spark, self._at(path)))
        require_held(rows, partitions, str(table_at(path)[0]), has_failed=has_failed)

    @contextmanager
    def _refusing(
        self, spark: SparkSession, path: str, read: Callable[[], DataFrame | None]
    ) -> Iterator[None]:
        """Look for what no partition holds in the rows of a write that failed."""
        try:
            yield
        except (PySparkException, Py4JError):
            with suppress(PySparkException, Py4JError):
                if (rows := read()) is not None:
                    self._require_held(spark, path, rows, has_failed=True)
            raise

    def done(self, spark: SparkSession, path: str, once: Once) -> int | None:
        """Return the newest batch of a scope in a table, if it is a given one or later."""
        found = transaction_version(spark, self._at(path), once.scope)
        return found if found is not None and found >= once.batch else None

    def write_files(
        self,
        spark: SparkSession,
        writers: Sequence[WriterSchema],
        ranges: TopicRange,
        destinations: Sequence[Destination],
    ) -> dict[str, CountedFiles]:
        """Write the changes of a bulk range into files of some tables."""
        append = partial(append_files, self._fence)

        def form_of(path: str) -> FileForm | None:
            return form_of_files(spark, self._at(path))

        return self._files.written(spark, writers, ranges, destinations, form_of, append)

    def removal(self, path: str) -> str:
        """Return what an operator does to remove a table."""
        return f"move the folder {self._at(path)} away"

    def retain(self, spark: SparkSession, path: str, since: int | None) -> None:
        """Update properties for retention and maintenance to the options."""
        retain(spark, self._config, self._fence, path, since)

    def is_refused(self, error: PySparkException | Py4JError) -> bool:
        """Whether a constraint or a property of the table refused a write."""
        return is_refused(error)

    def is_conflict(self, error: PySparkException | Py4JError) -> bool:
        """Whether a commit conflicted with another one."""
        return is_conflict(error)


class DeltaFormat(DeltaTables):
    """Delta as the format of a lake's tables (``TableFormat``)."""

    versions_slow_writes = False

    def __init__(self, config: SinkConfig) -> None:
        super().__init__(config.lake)
        self._config = config
        self._files = RangeFiles(config)

    def writer(self, owner: Owner) -> DeltaWriter:
        """Return the tables as one sink writes them."""
        return DeltaWriter(self._config, owner, self._files)

    def prove(self) -> None:
        """Do nothing: what the store must do is proven for the log."""

    def warm_up(self, spark: SparkSession) -> None:
        """Do the first writes, which take long, into tables of the sink's own."""
        warm_up(spark, self._config)

    def expire(self, spark: SparkSession, path: str, oldest: int, *, is_full: bool) -> bool:
        """Leave it to the caller, which removes files of the log alike."""
        return False

    def compaction(self, spark: SparkSession) -> Maintenance:
        """Return the compaction, in a session of its own."""
        return Maintenance(spark, self._config)
