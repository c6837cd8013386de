"""One commit of a Delta table in parts, by Delta's own classes: old rows leave, new ones enter.

Delta's UPDATE has the same parts. Python has no public access to them. MERGE does all of them, but
joins the table three times (ADR 0043). The writer of DataFrames reads the table's whole state for a
transaction version (ADR 0046).
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from tailrace_sink.delta import file_log
from tailrace_sink.delta.classes import log_of, writing_classes
from tailrace_sink.delta.commits import is_missing
from tailrace_sink.delta.files.deletion_vectors import actions_without_rows
from tailrace_sink.delta.files.parquet_files import (
    bounds_of,
    entry_of,
    file_form,
    files_meeting,
)
from tailrace_sink.delta.partition_values import guarded
from tailrace_sink.files.parquet_files import FileForm, ParquetFile
from tailrace_sink.spark.jvm_names import items_of
from tailrace_sink.tables.key_bounds import KeyBound
from tailrace_sink.tables.lake_table import LakeTable, literal, quote

_KEEP_MORE: Final = (
    "CHANGE_DATA_FEED",
    "ROW_TRACKING_ENABLED",
    "ICEBERG_COMPAT_V1_ENABLED",
    "ICEBERG_COMPAT_V2_ENABLED",
    "ICEBERG_COMPAT_V3_ENABLED",
)
"""Features that need more than a changed row leaving one file and entering another."""

_KNOWN_FEATURES: Final = frozenset(
    {
        "allowColumnDefaults",
        "appendOnly",
        "changeDataFeed",
        "checkConstraints",
        "checkpointProtection",
        "clustering",
        "columnMapping",
        "deletionVectors",
        "domainMetadata",
        "generatedColumns",
        "identityColumns",
        "inCommitTimestamp",
        "invariants",
        "timestampNtz",
        "typeWidening",
        "typeWidening-preview",
        "v2Checkpoint",
        "vacuumProtocolCheck",
    }
)
"""Writer features of Delta with which rows may leave a file and enter another. Delta's transaction
checks constraints. Tables with generated or identity columns, which somebody else added, get a
MERGE. A change feed exists only with a property of ``_KEEP_MORE``."""


class DeltaTransaction:
    """A transaction before its commit.

    Args:
        spark: reads and writes; used by this thread only.

    Attributes:
        added: Delta's entries of the files that :meth:`add` wrote.
    """

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._spark = spark
        self._path = path
        classes = writing_classes(spark)
        if classes is None:
            raise RuntimeError("this release of Delta has other classes: ask is_available first")
        self._classes = classes
        self._known, self._log = log_of(spark, path)
        self._known.session.setActiveSession(spark._jsparkSession)  # noqa: SLF001 - no public way
        self._transaction = self._log.startTransaction(classes.none, classes.none)
        self._snapshot = self._transaction.snapshot()
        self._actions: list[Any] = []
        self.added: list[Any] = []

    @property
    def can_upsert(self) -> bool:
        """Whether rows may leave and enter files without further records of them."""
        features = self._snapshot.protocol().writerFeatures()
        if features.isDefined() and not set(_items(features.get())) <= _KNOWN_FEATURES:
            return False
        return not any(map(self._has, _KEEP_MORE))

    @property
    def has_deletion_vectors(self) -> bool:
        """Whether rows may leave a file without a rewrite."""
        return self._has("ENABLE_DELETION_VECTORS_CREATION")

    @property
    def bytes(self) -> int:
        """Bytes of the table's files."""
        return file_log.bytes_of(self._snapshot)

    def property_of(self, name: str) -> str | None:
        """Return one of the table's properties."""
        found = self._snapshot.metadata().configuration().get(name)
        return str(found.get()) if found.isDefined() else None

    def _has(self, feature: str) -> bool:
        """Whether the table has a feature, whatever the spelling of its property."""
        try:
            config = getattr(self._classes.configs, feature)()
        except Py4JError as error:
            if not is_missing(error):
                raise
            return False  # This release does not know the feature; can_upsert refuses it by name.
        found = config.fromMetaData(self._snapshot.metadata())
        return found if isinstance(found, bool) else bool(found.equals(self._classes.some(True)))

    @contextmanager
    def reading(self, bounds: Sequence[KeyBound] = ()) -> Iterator[DataFrame]:
        """Read the table, or those of its files that may have some keys.

        The transaction records what is planned in the block as read. So a commit of somebody else
        to the same files is a conflict.

        Args:
            bounds: of the keys. Delta needs two jobs to skip files by them. The files of a small
                table are compared here instead.
        """
        meeting = self.files_meeting(bounds)
        if meeting is not None:
            self._transaction.readWholeTable()
            yield self.rows_of(meeting)
            return
        self._classes.transactions.setActive(self._transaction)
        try:
            yield self._spark.read.format("delta").load(self._path)
        finally:
            self._classes.transactions.clearActive()

    def files_meeting(self, bounds: Sequence[KeyBound]) -> list[Any] | None:
        """Select the files that may have a key between bounds; None if files are not listed."""
        every = self._every_file
        return None if every is None else files_meeting(every, bounds, self._schema)

    def has_no_file_meeting(self, bounds: Sequence[KeyBound]) -> bool:
        """Whether no listed file may have a key between bounds. The table counts as read then."""
        if self.files_meeting(bounds) != []:
            return False
        self._transaction.readWholeTable()
        return True

    def has_none_between(self, bounds: Sequence[KeyBound]) -> bool:
        """Whether the statistics of all files rule out keys between bounds; False without any."""
        if not bounds:
            return False
        meeting = self.files_meeting(bounds)
        if meeting is None:
            every = list(self._snapshot.allFiles().collect())
            meeting = files_meeting(every, bounds, self._schema)
        return not meeting

    def files(self, names: Iterable[str]) -> dict[str, Any] | None:
        """Return Delta's entries of files by name; None if a name is ambiguous.

        Args:
            names: without folders. Spark gives each file that it writes a unique name.
        """
        wanted = set(names)
        if not wanted:
            return {}
        every = self._every_file
        if every is None:
            listed = ", ".join(map(literal, sorted(wanted)))
            condition = f"substring_index(path, '/', -1) IN ({listed})"
            every = list(self._snapshot.allFiles().filter(condition).collect())
        found = [file for file in every if _name(file) in wanted]
        by_name = {_name(file): file for file in found}
        is_clear = by_name.keys() == wanted and len(found) == len(wanted)
        return by_name if is_clear else None

    def rows_of(self, files: Iterable[Any]) -> DataFrame:
        """Read the rows of some files of the table."""
        chosen = self._known.python.toSeq(list(files))
        return file_log.frame_of(self._spark, self._path, (self._snapshot, chosen))

    def add(self, rows: DataFrame) -> None:
        """Write rows, with the table's columns, into new files.

        Delta's writer stores values as the types of the rows, and its log says those of the table.
        """
        if not self.has_columns(rows):
            types = {f.name: f.dataType for f in self._schema}
            rows = rows.select(*(rows[quote(of)].cast(types[of]) for of in rows.columns))
        rows = guarded(rows, file_log.partition_columns(self._snapshot))
        written = self._transaction.writeFiles(rows._jdf)  # noqa: SLF001 - as above
        self.added = items_of(self._known.collections.asJava(written))
        self._actions.extend(self.added)

    @property
    def file_form(self) -> FileForm | None:
        """How files that Delta's writer did not write must look; None: there may be none."""
        return file_form(self._snapshot, self._path) if self.can_upsert else None

    def add_files(self, files: Iterable[ParquetFile]) -> None:
        """Add files in the table's folder that have its :attr:`file_form`."""
        self.added = [self._classes.actions.fromJson(entry_of(file)) for file in files]
        self._actions.extend(self.added)

    def bounds_of_added(self, table: LakeTable) -> list[KeyBound]:
        """Compute the bounds of the keys in the files that this commit adds."""
        return bounds_of(self.added, table, self._schema)

    @property
    def columns(self) -> list[str]:
        """Names of all columns of the table."""
        return self._schema.names

    def has_columns(self, rows: DataFrame) -> bool:
        """Whether the table has every column of some rows, with the same type."""
        types = {f.name: f.dataType.simpleString() for f in self._schema}
        return all(types.get(name) == type_ for name, type_ in rows.dtypes)

    def is_new_version(self, application: str, version: int) -> bool:
        """Use a transaction version for this commit, unless it is in the table.

        Another commit of the same application in between is a conflict.

        Args:
            application: scope of the version (Delta's ``txnAppId``).

        Returns:
            False if this version or a later one is in the table: nothing remains to commit.
        """
        known = file_log.version_of(self._snapshot, application)
        if known is not None and known >= version:
            return False
        self._transaction.readTxn().addOne(application)
        self.add_version(application, version)
        return True

    def add_version(self, application: str, version: int) -> None:
        """Use a transaction version for this commit, whatever version the table has."""
        now_ms = self._classes.some(round(time.time() * 1000))
        self._actions.append(self._classes.set_transaction(application, version, now_ms))

    def remove(self, files: Iterable[Any]) -> None:
        """Remove whole files."""
        self._actions.extend(file.remove() for file in files)

    def remove_rows(self, rows: Mapping[str, array[int]], files: Mapping[str, Any]) -> None:
        """Remove rows from files by deletion vectors.

        Args:
            rows: file name to row indexes (``_metadata.row_index``).
            files: file name to Delta's entry.
        """
        self._actions.extend(actions_without_rows(self._classes, self._log, rows, files))

    def commit_merge(
        self, metrics: Mapping[str, int], stamp: tuple[str, int] | None = None
    ) -> int | None:
        """Commit what was added and removed, if anything was, and return the version.

        It is one of Delta's own operations. For any other, Delta would read the whole state of the
        table after the commit to write its checksum file.

        Args:
            metrics: of Delta's MERGE, for the table's history.
            stamp: scope and number of a transaction version that says whose commit it is.

        Raises:
            PySparkException, Py4JError: also when another commit came first (``conflicts``).
        """
        if not self._actions:
            return None
        if stamp is not None:
            self.add_version(*stamp)
        context = self._spark.sparkContext._jsc.sc()  # noqa: SLF001 - as above
        counted = {name: self._classes.metrics.createMetric(context, name) for name in metrics}
        for name, count in metrics.items():
            counted[name].set(count)
        self._transaction.registerSQLMetrics(
            self._spark._jsparkSession,  # noqa: SLF001 - as above
            self._known.python.toScalaMap(counted),
        )
        return self._commit(self._classes.merged)

    def commit_append(self, metadata: str | None) -> int:
        """Commit what was added, and return the version.

        Args:
            metadata: user metadata of the commit, shown in the table's history.

        Raises:
            PySparkException, Py4JError: see :meth:`commit_merge`.
        """
        return self._commit(self._classes.appended(metadata))

    def commit_property(self, name: str, value: str) -> int:
        """Commit a new value of a property, and return the version.

        Every other commit in progress becomes a conflict.

        Raises:
            PySparkException, Py4JError: see :meth:`commit_merge`.
        """
        known = self._snapshot.metadata()
        properties = known.configuration().updated(name, value)
        changed = known.copy(
            known.id(),
            known.name(),
            known.description(),
            known.format(),
            known.schemaString(),
            known.partitionColumns(),
            properties,
            known.createdTime(),
        )
        self._transaction.updateMetadata(changed, False)
        return self._commit(self._classes.altered(self._known.python.toScalaMap({name: value})))

    def _commit(self, operation: Any) -> int:
        return int(self._transaction.commit(self._known.python.toSeq(self._actions), operation))

    @cached_property
    def _schema(self) -> StructType:
        return file_log.schema_of(self._snapshot)

    @cached_property
    def _every_file(self) -> list[Any] | None:
        """All files of the table; None if its checksum file does not list them."""
        return file_log.listed_files(self._spark, self._path, self._snapshot)


def _name(file: Any) -> str:
    return str(file.path()).rpartition("/")[2]


def _items(scala: Any) -> list[str]:
    """Convert a Scala collection of names."""
    return [name for name in str(scala.mkString("\n")).split("\n") if name]
