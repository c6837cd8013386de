"""Comparison of two states of a table in some of its columns."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame

from tailrace_sink.tables.lake_table import quote


def same_rows(before: DataFrame, after: DataFrame, columns: Sequence[str]) -> bool:
    """Whether two states have the same rows, each as often, in some columns.

    Raises:
        PySparkException, Py4JError: Spark failed.
    """
    if not set(columns) <= set(before.columns):
        return False
    first, second = (rows.select(*map(quote, columns)) for rows in (before, after))
    return first.exceptAll(second).isEmpty() and second.exceptAll(first).isEmpty()
