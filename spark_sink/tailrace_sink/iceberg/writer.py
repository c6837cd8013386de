"""The table format port for Iceberg, for the sink.

Each write of a batch is staged on the branch of its table. Publication moves the main branches of
all tables at once. A start sets branches back and stages an interrupted batch again. That changes
nothing if the batch was published.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final

import structlog
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tailrace_sink.errors import AppendSkipped, ApplyFailed
from tailrace_sink.files.counted_files import CountedFiles
from tailrace_sink.files.parquet_files import FileForm
from tailrace_sink.files.range_files import RangeFiles
from tailrace_sink.iceberg.catalog import IcebergCatalog, Outcome, is_conflict
from tailrace_sink.iceberg.files.added import AddedFiles
from tailrace_sink.iceberg.files.found_files import KnownFiles
from tailrace_sink.iceberg.files.table_files import FILES_BYTES, TableFiles
from tailrace_sink.iceberg.files.upsert import upsert
from tailrace_sink.iceberg.foreign_snapshots import exchanged
from tailrace_sink.iceberg.loaded_table import Snapshot
from tailrace_sink.iceberg.names import BRANCH, MAIN, PLACE_PROPERTY, TableId, place_of
from tailrace_sink.iceberg.new_table import NewTable, create_table
from tailrace_sink.iceberg.publication import Publisher
from tailrace_sink.iceberg.replacement import replace_columns
from tailrace_sink.iceberg.stamp import Stamp
from tailrace_sink.iceberg.tables import IcebergTables
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.plan.sink_state import CutPoint
from tailrace_sink.plan.topic_ranges import TopicRange
from tailrace_sink.ports.writes import (
    AppendRefused,
    Check,
    Destination,
    Examine,
    Latest,
    NotAsCounted,
    Once,
    Owner,
    Published,
    RowsChanged,
)
from tailrace_sink.rows.writer_schema import WriterSchema
from tailrace_sink.tables.column_identity import (
    COLUMNS_PROPERTY,
    PENDING_PROPERTY,
    Identity,
    parse_identities,
)
from tailrace_sink.tables.lake_table import (
    DELETES_PROPERTY,
    MODE_PROPERTY,
    SCHEMA_LSN_PROPERTY,
    Feature,
    Kind,
    LakeTable,
    table_at,
)
from tailrace_sink.tables.new_table import columns_ddl

_SCOPE: Final = "tailrace.scope"
"""Entry of a snapshot's summary with the scope of an append."""
_UNKNOWN_BYTES: Final = 1 << 40
"""Size of a table if its newest snapshot lacks it: that of a large one."""
_REFUSED: Final = "NOT_NULL_ASSERT_VIOLATION"

_log = structlog.get_logger("tailrace.sink")


class IcebergWriter(IcebergTables):
    """The tables of a lake, as the sink with one epoch writes them (``TableWriter``)."""

    branch = BRANCH
    reserved: Final = frozenset(
        {
            *("_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id"),
            *("_last_updated_sequence_number", "_change_type", "_change_ordinal"),
            "_commit_snapshot_id",
        }
    )
    """See: Iceberg's ``MetadataColumns``; its Spark catalog refuses a table with any of them."""

    def __init__(
        self, catalog: IcebergCatalog, config: SinkConfig, owner: Owner, files: RangeFiles
    ) -> None:
        options = config.iceberg_options
        super().__init__(catalog, config.lake, options.namespace)
        self._config = config
        self._owner = owner
        self._files = files
        commits = options.commits
        self._publisher = Publisher(catalog, owner.log, owner.epoch, owner.check, commits)
        self._stamp = Stamp(owner.log, owner.epoch)
        self._staged: set[str] = set()
        self._known = KnownFiles()

    def begin(self, cut: CutPoint) -> None:
        """Begin a batch, to which all writes belong from now on."""
        # A table that stopped during an earlier batch has changes that are never published.
        for path in sorted(self._staged):
            try:
                self._publisher.take(self._id(path))
            except ApplyFailed as error:
                # It is taken again before it is read again, and sets its branch back then.
                _log.warning("branch_not_set_back", table=path, reason=str(error))
        self._staged.clear()
        attempt = uuid.uuid4().hex[:8]
        self._stamp = Stamp(self._owner.log, self._owner.epoch, cut.batch, cut.lsn, attempt)

    def publish(self, spark: SparkSession, versions: Mapping[str, int]) -> Published[str]:
        """Let readers see the versions of a batch's tables, all at once."""
        paths = {self._id(path): path for path in sorted(versions)}

        def spares(name: TableId, snapshot: Snapshot) -> bool:
            try:
                return self._spares(spark, paths[name], snapshot)
            except (PySparkException, Py4JError) as error:
                raise self._catalog.failure(f"comparing rows of table {name}", error) from error

        staged = {name: versions[path] for name, path in paths.items()}
        found = self._publisher.publish(staged, self._stamp, spares)
        again = {table_at(paths[name])[0] for name in found.rewritten}
        # What is staged of these is set back when they are read again; the others stop.
        self._staged -= {path for path in self._staged if table_at(path)[0] in again}
        self._staged -= {paths[name] for name in found.changed}
        if found.is_done and not self._config.into:
            # A source that stopped may have staged more on a shared table.
            self._staged -= versions.keys()
        return Published(
            {paths[name]: version for name, version in found.versions.items()},
            found.is_done,
            {paths[name]: change for name, change in found.changed.items()},
            [paths[name] for name in found.rewritten],
        )

    def name(self, path: str) -> str:
        """Return a table's name in SQL, with what is staged."""
        return self._id(path).staged_sql(self._catalog.name)

    def bytes(self, spark: SparkSession, path: str) -> int:
        """Return the bytes of the table's files; 0 if there is none."""
        found = self.loaded(path)
        if found is None:
            return 0
        size = self.total(found, FILES_BYTES)
        return _UNKNOWN_BYTES if size is None else size

    def take(self, spark: SparkSession, path: str) -> None:
        """Take a table from an older sink, before it is read; set its branch back."""
        # A table that several sources share may be read again after one has staged its changes.
        if path not in self._staged and self.loaded(path) is not None:
            self._publisher.take(self._id(path))

    def builds_on(self, spark: SparkSession, path: str, since: int | None) -> int:
        """Return the published snapshot on which a batch builds, after looking at those between.

        -1: none, as all rows are about to be written.
        """
        if since is None:
            return -1
        found = self.loaded(path)
        self._require_own(spark, path, found, since, self._owner.log)
        head = None if found is None else found.head(MAIN)
        return -1 if head is None else head

    def written(self, spark: SparkSession, path: str, since: int) -> int:
        """Return the staged snapshot; its publication compares what it was staged on."""
        found = self.loaded(path)
        change = None if found is None else exchanged(found, since)
        if change is not None:
            raise RowsChanged(path, change)
        head = None if found is None else found.head(BRANCH)
        return -1 if head is None else head

    def create(self, spark: SparkSession, table: LakeTable) -> None:
        """Create a table if there is none."""
        options = self._config.iceberg_options
        properties = {
            **self._config.table_properties,
            COLUMNS_PROPERTY: table.identities,
            DELETES_PROPERTY: table.deletes,
            SCHEMA_LSN_PROPERTY: table.schema_lsn,
            PLACE_PROPERTY: place_of(self._lake, table.path),
            **({MODE_PROPERTY: table.mode} if table.mode else {}),
        }
        key = table.key if table.kind is Kind.MIRROR else ()
        if not all(column.is_required for column in table.columns if column.key_ordinal):
            key = ()  # Iceberg's identifier fields are never NULL; those of an index may be.
        new = NewTable(
            columns_ddl(table, required=key),
            key=key,
            layout=self._config.layout_of(table.table, table.kind),
            properties=properties,
            data=f"{options.data}/{table.path}" if options.data else "",
        )
        owned = Stamp(self._owner.log, self._owner.epoch)
        create_table(self._catalog, self._id(table.path), new, owned)

    def replace(self, spark: SparkSession, table: LakeTable) -> LakeTable:
        """Replace a table's columns at once, and delete its rows with the batch."""
        self._owner.check()
        found = self.loaded(table.path)
        if found is None:
            raise ApplyFailed(f"replacing table {table.table}", "it was dropped meanwhile")
        text, schema = found.property(COLUMNS_PROPERTY), found.java.schema()
        identities: Mapping[str, Identity] = {}
        with suppress(ValueError):  # If the property is damaged, older cuts lack these columns.
            identities = parse_identities(text)
        identities = {n: i for n, i in identities.items() if schema.findField(n) is not None}
        properties = {COLUMNS_PROPERTY: table.identities, PENDING_PROPERTY: ""}
        replace_columns(
            self._catalog,
            found,
            columns_ddl(table),
            identities,
            self._config.layout_of(table.table, table.kind).partition_by,
            properties,
        )
        self.run(spark, table.path, f"DELETE FROM {self.name(table.path)}")
        now = self.described(spark, table.table, table.kind)
        if now is None:
            raise ApplyFailed(f"replacing table {table.table}", "it was dropped meanwhile")
        few = now.has_few_widenings
        return replace(table, columns=now.columns, features=now.features, has_few_widenings=few)

    def alter(self, spark: SparkSession, path: str, change: str | Feature) -> None:
        """Change a table's columns or properties; readers see it before the batch."""
        if isinstance(change, Feature):
            return  # An Iceberg table has each from its start.
        self._owner.check()
        spark.sql(f"ALTER TABLE {self._published_name(path)} {change}")

    def append(
        self,
        rows: DataFrame,
        path: str,
        once: Once,
        check: Check | None = None,
        examine: Examine | None = None,
    ) -> None:
        """Append rows once; keys are not compared, so rows that may repeat some are merged."""
        if examine is not None:
            raise AppendRefused
        spark = rows.sparkSession
        if self._is_done(spark, path, once):
            return
        before = self.version(spark, path)
        self._staged.add(path)
        self._catalog.statements.append(rows, self.name(path), self._summary(once))
        if check is None:
            return
        try:
            check()
        except NotAsCounted:
            self._set_back(path, before)
            raise

    def upsert(self, spark: SparkSession, table: LakeTable, latest: Latest) -> bool:
        """Apply the last change of each key in one commit; False if a MERGE is needed."""
        files = self._files_of(table.path, self._summary(None))
        if files is None:
            return False
        self._staged.add(table.path)
        store, there = self._config.store, partial(self.rows, spark, table.path)
        s3 = None if store is None else store.pyarrow()
        return upsert(files, there, table, latest, self._config.delete_mode, s3)

    def run(
        self,
        spark: SparkSession,
        path: str,
        statement: str,
        once: Once | None = None,
        rows: DataFrame | None = None,
    ) -> None:
        """Run a statement that changes rows; with ``once``, once."""
        if once is None or not self._is_done(spark, path, once):
            self._staged.add(path)
            self._catalog.statements.run(spark, statement, self._summary(once))

    def done(self, spark: SparkSession, path: str, once: Once) -> int | None:
        """Return the newest batch of a scope in a table, if it is a given one or later."""
        table = self.loaded(path)
        if table is None:
            return None
        for found in table.history(table.head(BRANCH)):
            stamp = found.stamp
            if stamp is None or stamp.log != self._owner.log or stamp.batch is None:
                continue
            if stamp.batch < once.batch:
                return None  # Batches grow, and a table may have thousands of snapshots.
            if table.summary_entry(found.id, _SCOPE) == once.scope:
                return stamp.batch
        return None

    def _is_done(self, spark: SparkSession, path: str, once: Once) -> bool:
        found = self.done(spark, path, once)
        if found is not None and found > once.batch:
            raise AppendSkipped(self._published_name(path), once.batch, found)
        return found is not None

    def _summary(self, once: Once | None) -> dict[str, str]:
        """Return the entries of the summary of each snapshot of the batch."""
        return self._stamp.summary | ({} if once is None else {_SCOPE: once.scope})

    def _set_back(self, path: str, version: int) -> None:
        table = self.loaded(path)
        if table is None or table.head(BRANCH) == version:
            return
        done = self._catalog.commit_one(table.with_heads({BRANCH: version}))
        if done.outcome is not Outcome.DONE:
            raise NotAsCounted(f"{path}: its branch could not be set back: {done.reason}")

    def write_files(
        self,
        spark: SparkSession,
        writers: Sequence[WriterSchema],
        ranges: TopicRange,
        destinations: Sequence[Destination],
    ) -> dict[str, CountedFiles]:
        """Write the changes of a bulk range into files of some tables."""

        def form_of(path: str) -> FileForm | None:
            files = self._files_of(path, {})
            return None if files is None else files.form

        return self._files.written(
            spark, writers, ranges, destinations, form_of, self._append_files
        )

    def _append_files(
        self, spark: SparkSession, written: CountedFiles, once: Once, examine: Examine | None
    ) -> None:
        """Append files once (``WrittenFiles.append``)."""
        if self._is_done(spark, written.table.path, once):
            return
        table = self._files_of(written.table.path, self._summary(once))
        files = None if table is None else written.offered(table.form)
        if table is None or files is None or written.form.has_null(files):
            raise NotAsCounted(f"{written.table.path} was altered, or refuses a row")
        if examine is not None:
            there = spark.table(self.name(written.table.path)).alias("t")
            new = written.changes(spark, written.table)
            examine(AddedFiles(written.form, files, new, table, there))
        self._staged.add(written.table.path)
        table.append(written.form, files)

    def _files_of(self, path: str, summary: Mapping[str, str]) -> TableFiles | None:
        """Return a table's files; None if Iceberg's own writer must write them."""
        found = self.loaded(path)
        # Another class for files may have rights and places that are not those of sink.s3.
        if found is None or "io-impl" in self._config.iceberg_options.properties:
            return None

        def types() -> dict[str, str]:
            return {of.name: of.type for of in self._columns(found.java.schema())}

        return TableFiles(self._catalog.file_classes, found, types, summary, self._known)

    def removal(self, path: str) -> str:
        """Return what an operator does to remove a table."""
        return f"drop the table {self._catalog.name}.{self._id(path)} in the catalog"

    def retain(self, spark: SparkSession, path: str, since: int | None) -> None:
        """Leave the table's properties as they are."""

    def is_refused(self, error: PySparkException | Py4JError) -> bool:
        """Whether a column refused a NULL: those of a key that had none do."""
        return isinstance(error, PySparkException) and error.getCondition() == _REFUSED

    def is_conflict(self, error: PySparkException | Py4JError) -> bool:
        """Whether a commit conflicted with another one."""
        return is_conflict(error)
