"""One commit that takes rows out of a Delta table and puts others in, by Delta's own classes.

It is what Delta's UPDATE does, in parts: a transaction that notes what is read, new files,
deletion vectors for what left the old ones, a commit that conflicts with whoever was quicker. There
is no public way to take these parts from Python, and the one statement that does all of them,
MERGE, joins the table three times (ADR 0043).
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession

from tailrace_sink.key_bounds import KeyBound
from tailrace_sink.lake_table import literal

_DELTA: Final = "org.apache.spark.sql.delta"
_DELETION_VECTORS: Final = "delta.enableDeletionVectors"
_PHYSICAL_NAME: Final = "delta.columnMapping.physicalName"
_KEEP_MORE: Final = (
    "delta.enableChangeDataFeed",
    "delta.enableRowTracking",
    "delta.enableIcebergCompatV1",
    "delta.enableIcebergCompatV2",
    "delta.enableIcebergCompatV3",
)
"""Features that want more of a changed row than that it left one file and came in another."""


class DeltaTransaction:
    """A commit in the making.

    Args:
        spark: the session to read and write in; this thread's own.
        path: of the table.
    """

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._spark = spark
        self._path = path
        self._jvm = _jvm(spark)
        classes = _classes(self._jvm)
        if classes is None:
            raise RuntimeError("can_upsert was not asked")
        self._classes = classes
        session = spark._jsparkSession  # noqa: SLF001 - Delta has no public way from Python
        classes.session.setActiveSession(session)
        self._log = classes.delta_log.forTable(session, path)
        self._transaction = self._log.startTransaction(classes.none, classes.none)
        self._snapshot = self._transaction.snapshot()
        known = self._snapshot.checksumOpt()
        self._checksum = known.get() if known.isDefined() else None
        self._actions = self._jvm.java.util.ArrayList()

    @property
    def can_upsert(self) -> bool:
        """Whether rows may be taken out and put in, with nothing else kept of them."""
        properties = self._snapshot.metadata().configuration()
        on = self._classes.some("true")
        return not any(properties.get(name).equals(on) for name in _KEEP_MORE)

    @property
    def bytes(self) -> int:
        """Of the table's files."""
        known = self._checksum
        # The version's checksum file has it; else Delta reads all of its log, which takes a job.
        return int(self._snapshot.sizeInBytes() if known is None else known.tableSizeBytes())

    @property
    def has_deletion_vectors(self) -> bool:
        """Whether rows may leave a file that stays."""
        found = self._snapshot.metadata().configuration().get(_DELETION_VECTORS)
        return bool(found.equals(self._classes.some("true")))

    @contextmanager
    def reading(self, bounds: Sequence[KeyBound] = ()) -> Iterator[DataFrame]:
        """The table as the transaction sees it, or those of its files that may have some keys.

        What is planned in the block is noted as read, so that a commit of somebody else who wrote
        there in the meantime is a conflict.

        Args:
            bounds: between which the keys are. Delta leaves files out by conditions on them, which
                takes two jobs; the files of a small table are compared here.
        """
        every = self._every_file()
        if every is not None:
            self._transaction.readWholeTable()
            yield self.rows_of(self._meeting(every, bounds))
            return
        self._classes.transactions.setActive(self._transaction)
        try:
            yield self._spark.read.format("delta").load(self._path)
        finally:
            self._classes.transactions.clearActive()

    def _meeting(self, files: Iterable[Any], bounds: Sequence[KeyBound]) -> list[Any]:
        """The files whose statistics do not rule out a key between some bounds."""
        if not bounds:
            return list(files)
        schema = json.loads(self._snapshot.metadata().schema().json())
        physical = {
            field["name"]: field["metadata"].get(_PHYSICAL_NAME, field["name"])
            for field in schema["fields"]
        }
        meeting = []
        for file in files:
            statistics = json.loads(file.stats() or "{}")
            lowest, highest = (statistics.get(name, {}) for name in ("minValues", "maxValues"))
            names = ((bound, physical[bound.column.name]) for bound in bounds)
            if all(bound.meets(lowest.get(name), highest.get(name)) for bound, name in names):
                meeting.append(file)
        return meeting

    def files(self, names: Iterable[str]) -> dict[str, Any]:
        """Delta's entries of some files, with their statistics.

        Args:
            names: without folders; each file of a table has its own.

        Raises:
            LookupError: one is not there, or more than once.
        """
        wanted = set(names)
        if not wanted:
            return {}
        every = self._every_file()
        if every is None:
            listed = ", ".join(map(literal, sorted(wanted)))
            condition = f"substring_index(path, '/', -1) IN ({listed})"
            every = list(self._snapshot.allFiles().filter(condition).collect())
        found = [file for file in every if _name(file) in wanted]
        by_name = {_name(file): file for file in found}
        if by_name.keys() != wanted or len(found) != len(wanted):
            raise LookupError(f"{len(found)} of {len(wanted)} files of {self._path}")
        return by_name

    def rows_of(self, files: Iterable[Any]) -> DataFrame:
        """The rows that some files of the table have."""
        classes = self._classes
        chosen = classes.python.toSeq(self._list(files))
        frame = self._log.createDataFrame(self._snapshot, chosen, False, classes.none)
        return DataFrame(frame, self._spark)

    def add(self, rows: DataFrame) -> None:
        """Write rows into new files.

        Args:
            rows: with the table's columns.
        """
        written = self._transaction.writeFiles(rows._jdf)  # noqa: SLF001 - as above
        self._actions.addAll(self._classes.collections.asJava(written))

    def remove(self, files: Iterable[Any]) -> None:
        """Take whole files out."""
        for file in files:
            self._actions.add(file.remove())

    def remove_rows(self, rows: Mapping[str, array[int]], files: Mapping[str, Any]) -> None:
        """Take rows out of files that stay, by deletion vectors; all of them are in one new file.

        Args:
            rows: name of a file to the row indexes in it, as ``_metadata.row_index`` tells them.
            files: name to the entry of each.
        """
        classes = self._classes
        store = classes.vector_store(self._log.newDeltaHadoopConf())
        root, number = self._log.dataPath(), classes.uuid.randomUUID()
        path = classes.vector.assembleDeletionVectorPath(root, number, "")
        writer = store.createWriter(store.pathWithFileSystem(path))
        try:
            for name, indexes in rows.items():
                file = files[name]
                bitmap = classes.bitmap.apply(self._longs(indexes))
                if file.deletionVector() is not None:
                    bitmap.merge(store.read(file.deletionVector(), root))
                bitmap.runOptimize()
                left = bitmap.cardinality()
                place = writer.write(bitmap.serializeAsByteArray(classes.portable))
                total = file.numPhysicalRecords()
                if total.isDefined() and int(total.get()) == left:
                    self._actions.add(file.remove())
                    continue
                vector = classes.vector.onDiskWithRelativePath(
                    number, "", place.length(), left, classes.some(place.offset()), classes.none
                )
                changed = file.removeRows(vector, True, True)
                self._actions.add(changed._1())  # noqa: SLF001 - a pair of Scala's
                self._actions.add(changed._2())  # noqa: SLF001 - as above
        finally:
            writer.close()

    def commit(self, metrics: Mapping[str, int]) -> None:
        """Commit what was added and removed; nothing is written where nothing was.

        Args:
            metrics: of Delta's MERGE, for the table's history; ``operationNumSourceRows`` is one.

        Raises:
            PySparkException, Py4JError: also when somebody else was quicker (``conflicts``).
        """
        if self._actions.isEmpty():
            return
        classes = self._classes
        context = self._spark.sparkContext._jsc.sc()  # noqa: SLF001 - as above
        counted = self._jvm.java.util.HashMap()
        for name, count in metrics.items():
            metric = classes.metrics.createMetric(context, name)
            metric.set(count)
            counted.put(name, metric)
        self._transaction.registerSQLMetrics(
            self._spark._jsparkSession,  # noqa: SLF001 - as above
            classes.python.toScalaMap(counted),
        )
        none, nothing = classes.none, classes.python.toSeq(self._list([]))
        operation = classes.merge(none, none, none, none, nothing, nothing, nothing)
        self._transaction.commit(classes.python.toSeq(self._actions), operation)

    def _every_file(self) -> list[Any] | None:
        """All files of the table, where its checksum file lists them: it does so for a few."""
        known = None if self._checksum is None else self._checksum.allFiles()
        if known is None or not known.isDefined():
            return None
        return list(self._classes.collections.asJava(known.get()))

    def _list(self, items: Iterable[Any]) -> Any:
        listed = self._jvm.java.util.ArrayList()
        for item in items:
            listed.add(item)
        return listed

    def _longs(self, numbers: array[int]) -> Any:
        """Numbers as a sequence of Scala's, passed in one piece."""
        order = self._jvm.java.nio.ByteOrder.LITTLE_ENDIAN
        packed = array("q", numbers)
        if _IS_BIG_ENDIAN:
            packed.byteswap()
        buffer = self._jvm.java.nio.ByteBuffer.wrap(packed.tobytes()).order(order).asLongBuffer()
        longs = self._jvm.java.nio.LongBuffer.allocate(len(packed)).put(buffer)
        return self._classes.sequence.unsafeWrapArray(longs.array())


def _name(file: Any) -> str:
    return str(file.path()).rpartition("/")[2]


_IS_BIG_ENDIAN: Final = array("H", b"\x00\x01")[0] == 1


def is_available(spark: SparkSession) -> bool:
    """Whether this release of Delta has the parts; they are not its public interface."""
    return _classes(_jvm(spark)) is not None


def _jvm(spark: SparkSession) -> Any:
    jvm = spark._jvm  # noqa: SLF001 - as above
    if jvm is None:
        raise RuntimeError("the sink needs a Spark session with a JVM, not Spark Connect")
    return jvm


@dataclass(frozen=True, slots=True)
class _Classes:
    """Classes of the JVM, named once: Py4J looks for each part of a name in every jar."""

    bitmap: Any
    collections: Any
    delta_log: Any
    merge: Any
    metrics: Any
    none: Any
    portable: Any
    python: Any
    sequence: Any
    session: Any
    some: Any
    transactions: Any
    uuid: Any
    vector: Any
    vector_store: Any


@lru_cache(maxsize=1)
def _classes(jvm: Any) -> _Classes | None:
    delta = jvm.org.apache.spark.sql.delta
    try:
        return _Classes(
            bitmap=delta.deletionvectors.RoaringBitmapArray,
            collections=jvm.scala.jdk.javaapi.CollectionConverters,
            delta_log=delta.DeltaLog,
            merge=getattr(jvm, f"{_DELTA}.DeltaOperations$Merge"),
            metrics=jvm.org.apache.spark.sql.execution.metric.SQLMetrics,
            none=jvm.scala.Option.empty(),
            portable=delta.deletionvectors.RoaringBitmapArrayFormat.Portable(),
            python=jvm.org.apache.spark.api.python.PythonUtils,
            sequence=jvm.scala.collection.immutable.ArraySeq,
            session=jvm.org.apache.spark.sql.SparkSession,
            some=jvm.scala.Option.apply,
            transactions=_module(jvm, f"{_DELTA}.OptimisticTransaction"),
            uuid=jvm.java.util.UUID,
            vector=delta.actions.DeletionVectorDescriptor,
            vector_store=delta.storage.dv.HadoopFileSystemDVStore,
        )
    except (Py4JError, TypeError):  # a package without the class cannot be called
        return None


def _module(jvm: Any, name: str) -> Any:
    """A Scala object whose methods Java does not see as static ones."""
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    return jvm.java.lang.Class.forName(f"{name}$", True, loader).getField("MODULE$").get(None)
