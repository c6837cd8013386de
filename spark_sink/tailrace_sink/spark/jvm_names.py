"""Names of the JVM that PySpark uses often, looked up once.

Py4J does not know whether ``py4j``, ``py4j.reflection`` or ``PythonUtils`` is a package or a class.
So at each use of a name the JVM searches some 250 jars for each of its parts. PySpark uses several
names for each column of an expression, and thirteen to classify an error (ADR 0052).
"""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql import SparkSession

_NAMES: Final = (
    "PythonSQLUtils",
    "PythonUtils",
    "functions",
    "java.util.ArrayList",
    "java.util.HashMap",
    "java.util.Properties",
    "org.apache.spark.sql.avro.functions",
    "org.apache.spark.sql.catalyst.trees.PySparkCurrentOrigin",
    "org.apache.spark.sql.classic.SparkSession",
    "org.apache.spark.sql.classic.SparkSession$",
    "org.apache.spark.sql.functions",
    "org.apache.spark.sql.internal.SQLConf",
    "org.apache.spark.util.Utils",
    "py4j.reflection.TypeUtil",
)


def keep_names(spark: SparkSession) -> None:
    """Store these names in the view of a session's JVM. Idempotent."""
    view: Any = spark._jvm  # noqa: SLF001 - it is PySpark's own view that PySpark asks
    for name in _NAMES:
        held = view
        for part in name.split("."):
            if part not in vars(held):
                setattr(held, part, getattr(held, part))
            held = vars(held)[part]
        setattr(view, name, held)  # PySpark looks up some of them by the whole name.


def jvm_of(spark: SparkSession) -> Any:
    """Return the JVM of a session.

    Raises:
        RuntimeError: the session has none.
    """
    jvm = spark._jvm  # noqa: SLF001 - no public way
    if jvm is None:
        raise RuntimeError("the sink needs a Spark session with a JVM, not Spark Connect")
    return jvm


def items_of(collection: Any) -> list[Any]:
    """Return the items of a Java collection.

    Py4J's own iteration ends with an error of the JVM, which PySpark takes time to classify.
    """
    return list(collection.toArray())
