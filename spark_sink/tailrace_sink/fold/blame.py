"""The cause of a failed write: a record, or damage to the files of the lake table.

Errors of damage are of many classes, of Spark, Parquet, the format and the store. So the table is
examined instead of the error (ADR 0126).
"""

from __future__ import annotations

from collections.abc import Sequence

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tailrace_sink.errors import BadRecord, PartitionValueRefused, SinkError
from tailrace_sink.ports.table_format import TableWriter
from tailrace_sink.rows.bad_records import Screen
from tailrace_sink.spark.jvm_errors import is_analysis_error, translated
from tailrace_sink.tables.lake_table import Kind, table_at


def may_be_records(error: PySparkException | Py4JError, tables: TableWriter) -> bool:
    """Whether a record may be the cause of a failed write."""
    return not (is_analysis_error(error) or tables.is_refused(error) or tables.is_conflict(error))


def to_blame(
    error: PySparkException | Py4JError, tables: TableWriter, screen: Screen, values: DataFrame
) -> BadRecord | None:
    """Find the first record that cannot be written, if one is the cause of the error."""
    if not may_be_records(error, tables):
        return None
    try:
        return screen.first(values)
    except (PySparkException, Py4JError):
        # Spark fails here too, so the records are not the cause.
        return None


def void_by(
    error: PySparkException | Py4JError | PartitionValueRefused,
    spark: SparkSession,
    tables: TableWriter,
    path: str,
) -> str | None:
    """Return why no rows can be written to a table as it is; None if it is not the cause."""
    if isinstance(error, PartitionValueRefused):
        return str(error)
    if is_analysis_error(error) or tables.is_refused(error):
        return f"it refuses what the source has: {translated('writing', error)}"
    return None if is_readable(spark, tables, path) else "files of it are missing or damaged"


def is_readable(spark: SparkSession, tables: TableWriter, path: str) -> bool:
    """Whether every row of a table can be read; this reads all of them."""
    try:
        tables.rows(spark, path).write.format("noop").mode("overwrite").save()
    except (PySparkException, Py4JError):
        return False
    return True


def removal_of(spark: SparkSession, tables: TableWriter, paths: Sequence[str]) -> str | None:
    """Return how to remove a table that cannot even be replaced; None if each can be.

    To replace a table, a format lists the files of its newest version. It reads none of them. A
    companion is never replaced: no snapshot has the past that it holds. Of a history rows are read
    to end intervals; a changelog is only appended to, so its rows are no cause.

    Args:
        paths: of a table and its companions, below the lake.
    """
    for path in paths:
        try:
            if tables.version(spark, path) < 0:
                continue
            tables.rows(spark, path).inputFiles()
        except (PySparkException, Py4JError):
            return tables.removal(path)
        except SinkError:
            return None  # The catalog did not show it, so nothing is known of its files.
        if table_at(path)[1] is Kind.HISTORY and not is_readable(spark, tables, path):
            return tables.removal(path)
    return None
