"""What a reader asks of a Delta table, by Delta's public statements alone.

For sessions in which Delta's own classes cannot be named: Spark Connect, Databricks, Fabric. Each
answer costs some tenths of a second more than those of ``delta_log``.
"""

from __future__ import annotations

from typing import Final

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from tailrace_sink.errors import SinkError
from tailrace_sink.tables.column_identity import COLUMNS_PROPERTY
from tailrace_sink.tables.lake_table import quote

_ROWS_ONLY: Final = frozenset({"WRITE", "MERGE", "UPDATE", "DELETE", "OPTIMIZE"})
_SET_PROPERTIES: Final = "SET TBLPROPERTIES"
_NOT_THERE: Final = ("NOT_FOUND", "NOT_EXIST", "MISSING", "TABLE_ONLY_OPERATION")


class PropertiesUnknown(SinkError):
    """The properties of an older version of a table cannot be told by public statements."""


def version_of(spark: SparkSession, path: str) -> int:
    """The current version of the Delta table at a path; -1 when there is none."""
    try:
        row = _history(spark, path).limit(1).select("version").first()
    except AnalysisException as error:
        if not any(word in (error.getCondition() or "") for word in _NOT_THERE):
            raise
        return -1
    return -1 if row is None else int(row["version"])


def properties_of(spark: SparkSession, path: str, version: int) -> dict[str, str]:
    """The properties of the Delta table at a path, at a version.

    Raises:
        PropertiesUnknown: columns were changed since.
    """
    since = _history(spark, path).where(f"version > {version}")
    for row in since.select("version", "operation", "operationParameters").collect():
        operation, parameters = row["operation"], str(row["operationParameters"])
        if operation.startswith("VACUUM") or operation in _ROWS_ONLY:
            continue
        if operation != _SET_PROPERTIES or COLUMNS_PROPERTY in parameters:
            raise PropertiesUnknown(
                f"columns of table {path} were changed by version {row['version']} ({operation}):"
                f" what those of version {version} are cannot be told in this session. Fix: read a"
                " newer cut, or read in a session of classic PySpark with open-source Delta"
            )
    found = spark.sql(f"DESCRIBE DETAIL delta.{quote(path)}").select("properties").first()
    return {} if found is None else dict(found["properties"])


def schema_of(spark: SparkSession, path: str, version: int) -> StructType:
    """The columns of the Delta table at a path, at a version, with their comments."""
    return spark.read.format("delta").option("versionAsOf", version).load(path).schema


def text_of(spark: SparkSession, path: str) -> str | None:
    """A small text file, or None when there is none."""
    try:
        row = spark.read.text(path, wholetext=True).first()
    except AnalysisException as error:
        if not any(word in (error.getCondition() or "") for word in _NOT_THERE):
            raise
        return None
    return None if row is None else str(row["value"])


def _history(spark: SparkSession, path: str) -> DataFrame:
    return spark.sql(f"DESCRIBE HISTORY delta.{quote(path)}")
