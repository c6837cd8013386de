"""One commit of a Delta table in parts: rows out of it, others in, by Delta's own classes.

It is what Delta's UPDATE does: a transaction that notes what is read, new files, deletion vectors
for what left the old ones, a commit that conflicts with whoever was quicker. There is no public way
to take these parts from Python. The one statement that does all of them, MERGE, joins the table
three times (ADR 0043); the writer of DataFrames reads the table's whole state for a transaction
version that a file has (ADR 0046).
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from tailrace_sink.delta.batch_rows import listed_files
from tailrace_sink.delta.classes import log_of, writing_classes
from tailrace_sink.delta.commits import in_parts
from tailrace_sink.delta.deletion_vectors import actions_without_rows
from tailrace_sink.delta.file_log import bytes_of, frame_of, schema_of, version_of
from tailrace_sink.delta.file_statistics import bounds_of, files_meeting
from tailrace_sink.spark.jvm_names import items_of
from tailrace_sink.tables.key_bounds import KeyBound
from tailrace_sink.tables.lake_table import LakeTable, literal

_KEEP_MORE: Final = (
    "CHANGE_DATA_FEED",
    "ROW_TRACKING_ENABLED",
    "ICEBERG_COMPAT_V1_ENABLED",
    "ICEBERG_COMPAT_V2_ENABLED",
    "ICEBERG_COMPAT_V3_ENABLED",
)
"""Features that want more of a changed row than that it left one file and came in another."""

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
"""Writer features of Delta that ask nothing of rows that leave a file and come in another. Delta's
transaction sees to constraints; generated and identity columns are somebody else's, so that a MERGE
is taken; changes are fed only where a property of ``_KEEP_MORE`` says so."""


class DeltaTransaction:
    """A commit in the making.

    Args:
        spark: the session to read and write in; this thread's own.
        path: of the table.

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
        """Whether rows may be taken out and put in, with nothing else kept of them."""
        features = self._snapshot.protocol().writerFeatures()
        if features.isDefined() and not set(_items(features.get())) <= _KNOWN_FEATURES:
            return False
        return not any(map(self._has, _KEEP_MORE))

    @property
    def has_deletion_vectors(self) -> bool:
        """Whether rows may leave a file that stays."""
        return self._has("ENABLE_DELETION_VECTORS_CREATION")

    @property
    def bytes(self) -> int:
        """Of the table's files."""
        return bytes_of(self._snapshot)

    def property_of(self, name: str) -> str | None:
        """One of the table's properties."""
        found = self._snapshot.metadata().configuration().get(name)
        return str(found.get()) if found.isDefined() else None

    def _has(self, feature: str) -> bool:
        """Whether the table has a feature of Delta's, however its property is spelled."""
        config = getattr(self._classes.configs, feature)()
        found = config.fromMetaData(self._snapshot.metadata())
        return found if isinstance(found, bool) else bool(found.equals(self._classes.some(True)))

    @contextmanager
    def reading(self, bounds: Sequence[KeyBound] = ()) -> Iterator[DataFrame]:
        """The table as the transaction sees it, or those of its files that may have some keys.

        What is planned in the block is noted as read, so that a commit of somebody else who wrote
        there in the meantime is a conflict.

        Args:
            bounds: between which the keys are. Delta leaves files out by conditions on them, which
                takes two jobs; the files of a small table are compared here.
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
        """The files that may have a key between some bounds; None where files are not listed."""
        every = self._every_file
        return None if every is None else files_meeting(every, bounds, self._schema)

    def has_none_between(self, bounds: Sequence[KeyBound]) -> bool:
        """Whether the statistics of every file rule out a key between some bounds.

        Args:
            bounds: of some key columns; without any nothing is ruled out.
        """
        if not bounds:
            return False
        meeting = self.files_meeting(bounds)
        if meeting is None:
            every = list(self._snapshot.allFiles().collect())
            meeting = files_meeting(every, bounds, self._schema)
        return not meeting

    def files(self, names: Iterable[str]) -> dict[str, Any] | None:
        """Delta's entries of some files, with their statistics; None where names are ambiguous.

        Args:
            names: without folders; each file that Spark wrote has its own.
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
        """The rows that some files of the table have."""
        chosen = self._known.python.toSeq(list(files))
        return frame_of(self._spark, self._path, (self._snapshot, chosen))

    def add(self, rows: DataFrame) -> None:
        """Write rows into new files.

        Args:
            rows: with the table's columns.
        """
        written = self._transaction.writeFiles(rows._jdf)  # noqa: SLF001 - as above
        self.added = items_of(self._known.collections.asJava(written))
        self._actions.extend(self.added)

    def bounds_of_added(self, table: LakeTable) -> list[KeyBound]:
        """The bounds of the keys in the files that this commit adds, by their statistics."""
        return bounds_of(self.added, table, self._schema)

    @property
    def columns(self) -> list[str]:
        """Names of the table's columns, of whoever they are."""
        return self._schema.names

    def has_columns(self, rows: DataFrame) -> bool:
        """Whether every column of some rows is the table's, of the same type."""
        types = {f.name: f.dataType.simpleString() for f in self._schema}
        return all(types.get(name) == type_ for name, type_ in rows.dtypes)

    def is_new_version(self, application: str, version: int) -> bool:
        """Take a transaction version for this commit, if the table does not have it yet.

        Another commit that takes one of the same application in the meantime is a conflict.

        Args:
            application: Delta's ``txnAppId``.
            version: Delta's ``txnVersion``.

        Returns:
            False where the table has it, or a later one: there is nothing to commit.
        """
        known = version_of(self._snapshot, application)
        if known is not None and known >= version:
            return False
        self._transaction.readTxn().addOne(application)
        self.add_version(application, version)
        return True

    def add_version(self, application: str, version: int) -> None:
        """Take a transaction version for this commit, whatever the table has."""
        now_ms = self._classes.some(round(time.time() * 1000))
        self._actions.append(self._classes.set_transaction(application, version, now_ms))

    def remove(self, files: Iterable[Any]) -> None:
        """Take whole files out."""
        self._actions.extend(file.remove() for file in files)

    def remove_rows(self, rows: Mapping[str, array[int]], files: Mapping[str, Any]) -> None:
        """Take rows out of files that stay, by deletion vectors.

        Args:
            rows: name of a file to the row indexes in it, as ``_metadata.row_index`` tells them.
            files: name to the entry of each.
        """
        self._actions.extend(actions_without_rows(self._classes, self._log, rows, files))

    def commit_merge(self, metrics: Mapping[str, int]) -> None:
        """Commit what was added and removed; nothing is written where nothing was.

        It is one of Delta's own operations: of another one it would read the whole state of the
        table after the commit, for its checksum file.

        Args:
            metrics: of Delta's MERGE, for the table's history; ``operationNumSourceRows`` is one.

        Raises:
            PySparkException, Py4JError: also when somebody else was quicker (``conflicts``).
        """
        if not self._actions:
            return
        context = self._spark.sparkContext._jsc.sc()  # noqa: SLF001 - as above
        counted = {name: self._classes.metrics.createMetric(context, name) for name in metrics}
        for name, count in metrics.items():
            counted[name].set(count)
        self._transaction.registerSQLMetrics(
            self._spark._jsparkSession,  # noqa: SLF001 - as above
            self._known.python.toScalaMap(counted),
        )
        self._commit(self._classes.merged)

    def commit_append(self, metadata: str | None) -> None:
        """Commit what was added.

        Args:
            metadata: the commit's user metadata, for the table's history.

        Raises:
            PySparkException, Py4JError: as for :meth:`commit_merge`.
        """
        self._commit(self._classes.appended(metadata))

    def commit_property(self, name: str, value: str) -> None:
        """Commit with another value of a property: whatever else is in the making is a conflict.

        Raises:
            PySparkException, Py4JError: as for :meth:`commit_merge`.
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
        self._commit(self._classes.altered(self._known.python.toScalaMap({name: value})))

    def _commit(self, operation: Any) -> None:
        self._transaction.commit(self._known.python.toSeq(self._actions), operation)

    @cached_property
    def _schema(self) -> StructType:
        return schema_of(self._snapshot)

    @cached_property
    def _every_file(self) -> list[Any] | None:
        """All files of the table, where its checksum file lists them: it does so for a few."""
        return listed_files(self._spark, self._path, self._snapshot)


def _name(file: Any) -> str:
    return str(file.path()).rpartition("/")[2]


def has_none_between(spark: SparkSession, path: str, bounds: Sequence[KeyBound]) -> bool:
    """Whether a Delta table is known to have no key between some bounds."""

    def looked_up() -> bool:
        return DeltaTransaction(spark, path).has_none_between(bounds)

    return in_parts(spark, "reading the statistics of a table", looked_up) or False


def _items(scala: Any) -> list[str]:
    """The items of a Scala collection of names."""
    return [name for name in str(scala.mkString("\n")).split("\n") if name]
