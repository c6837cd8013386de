"""Names of the JVM that PySpark asks for again and again, looked up once.

Py4J does not know whether ``py4j``, ``py4j.reflection`` or ``PythonUtils`` is a package or a class,
and has the JVM look for a class of that name in each of some 250 jars: 0.5 to 3 ms a part of a
name, each time that it is said. PySpark says some for each column of an expression, and for an
error of the JVM asks thirteen times which it is, 50 ms. Of a cut that was a tenth (ADR 0052).
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
    """Have the view of a session's JVM keep what these names are; again, it does nothing."""
    view: Any = spark._jvm  # noqa: SLF001 - it is PySpark's own view that PySpark asks
    for name in _NAMES:
        held = view
        for part in name.split("."):
            if part not in vars(held):
                setattr(held, part, getattr(held, part))
            held = vars(held)[part]
        setattr(view, name, held)  # some are asked for in one piece


def items_of(collection: Any) -> list[Any]:
    """The items of a Java collection.

    Py4J's own iteration ends with an error of the JVM, which PySpark then examines.
    """
    return list(collection.toArray())
