"""Statements of Spark whose snapshots have entries in their summaries.

Iceberg's setting ``spark.sql.iceberg.snapshot-property`` is not enough: a DELETE of whole files is
a commit of metadata, which ignores it. ``CommitMetadata`` applies to every commit of a thread.
Source: Iceberg's documentation, "Spark Writes", of commit metadata.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

_VIEW: Final = "_tailrace_appended"


class Statements:
    """Runs statements in Spark's JVM; the classes are looked up once.

    Args:
        spark: any session of the application.
    """

    def __init__(self, spark: SparkSession) -> None:
        jvm: Any = spark._jvm  # noqa: SLF001 - no other way in
        self._new_array: Any = spark.sparkContext._gateway.new_array  # type: ignore[union-attr] # noqa: SLF001
        self._invoke = jvm.java.lang.invoke
        self._commit_metadata = jvm.org.apache.iceberg.spark.CommitMetadata
        self._class, self._object = jvm.java.lang.Class, jvm.java.lang.Object
        names = ("java.lang.String", "java.lang.Exception", "java.util.concurrent.Callable")
        self._string, self._exception, self._callable = map(self._class.forName, names)

    def run(self, spark: SparkSession, statement: str, summary: Mapping[str, str]) -> None:
        """Run a statement that changes rows.

        Args:
            summary: entries of the summary of each snapshot.

        Raises:
            PySparkException, Py4JError: Spark failed.
        """
        # Py4J's own functions for Java would need a server in Python.
        session: Any = spark._jsparkSession  # noqa: SLF001 - no other way in
        method = session.getClass().getMethod("sql", self._array(self._class, self._string))
        handle = self._invoke.MethodHandles.publicLookup().unreflect(method).bindTo(session)
        with_text = self._array(self._object, statement)
        handle = self._invoke.MethodHandles.insertArguments(handle, 0, with_text)
        call = self._invoke.MethodHandleProxies.asInterfaceInstance(self._callable, handle)
        self._commit_metadata.withCommitProperties(dict(summary), call, self._exception)

    def append(self, rows: DataFrame, name: str, summary: Mapping[str, str]) -> None:
        """Append rows to the table with a name in SQL; otherwise as :meth:`run`."""
        rows.createOrReplaceTempView(_VIEW)
        statement = f"INSERT INTO {name} BY NAME SELECT * FROM {_VIEW}"
        self.run(rows.sparkSession, statement, summary)

    def _array(self, of: Any, only: Any) -> Any:
        array = self._new_array(of, 1)
        array[0] = only
        return array
