"""Records as the cause of a failed write."""

from __future__ import annotations

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from tailrace_sink.errors import BadRecord
from tailrace_sink.ports.table_format import TableWriter
from tailrace_sink.rows.bad_records import Screen
from tailrace_sink.spark.jvm_errors import is_analysis_error


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
