"""Names of Delta's own classes in the JVM, in this module only.

Delta has no public Python interface to a table's version, or to a commit in parts. The classes that
read exist in every supported release of Delta. Those that write may be missing
(``writing_classes``); then the public interface is used.

For each part of a name (``org``, ``org.apache``) Py4J searches every jar for a class, at each use.
So each name is looked up once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from py4j.java_gateway import JavaClass
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from tailrace_sink.delta.files.long_sequences import LongSequences
from tailrace_sink.spark.jvm_names import jvm_of

_DELTA: Final = "org.apache.spark.sql.delta"


@dataclass(frozen=True, slots=True)
class DeltaClasses:
    """Classes that read a table."""

    collections: Any
    delta_log: Any
    iterator: Any
    none: Any
    path: Any
    python: Any
    session: Any


@dataclass(frozen=True, slots=True)
class WritingClasses:
    """Classes that write a commit.

    Attributes:
        actions: reads an entry of the log.
        altered: creates the operation that sets properties.
        appended: creates the operation of an append with some user metadata.
        merged: the operation of a MERGE.
    """

    actions: Any
    altered: Callable[[Any], Any]
    appended: Callable[[str | None], Any]
    bitmap: Any
    configs: Any
    longs: LongSequences
    merged: Any
    metrics: Any
    none: Any
    portable: Any
    set_transaction: Any
    some: Any
    transactions: Any
    uuid: Any
    vector: Any
    vector_store: Any


def has_delta_log(spark: SparkSession) -> bool:
    """Whether Delta's log can be read: not in Spark Connect, nor with another vendor's Delta."""
    try:
        return isinstance(_reading_classes(jvm_of(spark)).delta_log, JavaClass)
    except (AttributeError, Py4JError, RuntimeError, TypeError):
        return False


def log_of(spark: SparkSession, path: str) -> tuple[DeltaClasses, Any]:
    """Return the JVM's classes, and Delta's log of the table at a path."""
    classes = _reading_classes(jvm_of(spark))
    session = spark._jsparkSession  # noqa: SLF001 - as above
    return classes, classes.delta_log.forTable(session, path)


def writing_classes(spark: SparkSession) -> WritingClasses | None:
    """Return the classes of a commit; None if this release of Delta lacks one."""
    jvm = jvm_of(spark)
    return None if _given_up(jvm) else _writing_classes(jvm)


def give_up_writing(spark: SparkSession) -> bool:
    """Make :func:`writing_classes` return None from now on; whether it did not before."""
    known = _given_up(jvm_of(spark))
    is_first = not known
    known.append(True)
    return is_first


@lru_cache(maxsize=1)
def _reading_classes(jvm: Any) -> DeltaClasses:
    return DeltaClasses(
        collections=jvm.scala.jdk.javaapi.CollectionConverters,
        delta_log=jvm.org.apache.spark.sql.delta.DeltaLog,
        iterator=jvm.scala.collection.Iterator,
        none=jvm.scala.Option.empty(),
        path=jvm.org.apache.hadoop.fs.Path,
        python=jvm.org.apache.spark.api.python.PythonUtils,
        session=jvm.org.apache.spark.sql.SparkSession,
    )


@lru_cache(maxsize=1)
def _given_up(_jvm: Any) -> list[bool]:
    """A list that is filled once a class turned out to be missing in the JVM."""
    return []


@lru_cache(maxsize=1)
def _writing_classes(jvm: Any) -> WritingClasses | None:
    delta, some = jvm.org.apache.spark.sql.delta, jvm.scala.Option.apply
    none, python = jvm.scala.Option.empty(), jvm.org.apache.spark.api.python.PythonUtils
    nothing = python.toSeq([])
    try:
        merge = getattr(jvm, f"{_DELTA}.DeltaOperations$Merge")
        write = getattr(jvm, f"{_DELTA}.DeltaOperations$Write")
        append_mode = jvm.org.apache.spark.sql.SaveMode.Append

        # Its parameters differ between releases, so it is tried here: 5 more since Delta 4.1.
        further = _further(lambda rest: write(append_mode, none, none, none, *rest), none)

        def appended(metadata: str | None) -> Any:
            return write(append_mode, none, none, some(metadata), *further)

        return WritingClasses(
            actions=delta.actions.Action,
            altered=getattr(jvm, f"{_DELTA}.DeltaOperations$SetTableProperties"),
            appended=appended,
            bitmap=delta.deletionvectors.RoaringBitmapArray,
            configs=delta.DeltaConfigs,
            longs=LongSequences.of(jvm),
            merged=merge(none, none, none, none, nothing, nothing, nothing),
            metrics=jvm.org.apache.spark.sql.execution.metric.SQLMetrics,
            none=none,
            portable=delta.deletionvectors.RoaringBitmapArrayFormat.Portable(),
            set_transaction=delta.actions.SetTransaction,
            some=some,
            transactions=scala_object(jvm, f"{_DELTA}.OptimisticTransaction"),
            uuid=jvm.java.util.UUID,
            vector=delta.actions.DeletionVectorDescriptor,
            vector_store=delta.storage.dv.HadoopFileSystemDVStore,
        )
    except (Py4JError, TypeError):  # a package without the class cannot be called
        return None


def _further(create: Callable[[list[Any]], Any], none: Any) -> list[Any]:
    """Return the further parameters that a constructor takes.

    Raises:
        Py4JError: neither none nor five.
    """
    try:
        create([none] * 5)
    except Py4JError:
        create([])
        return []
    return [none] * 5


def scala_object(jvm: Any, name: str) -> Any:
    """Return a Scala object whose methods are not static methods in Java."""
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    return jvm.java.lang.Class.forName(f"{name}$", True, loader).getField("MODULE$").get(None)
