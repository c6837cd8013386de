"""Comparison of two states of a table in the sink's columns."""

from __future__ import annotations

from pyspark.sql import DataFrame

from tailrace_sink.tables.lake_table import CDC_COLUMNS, Kind, LakeTable, quote


def only_others_differ(table: LakeTable | None, before: DataFrame, after: DataFrame) -> bool:
    """Whether two states of a mirror differ only in columns that somebody else has added.

    False also without such columns, and for other tables.

    Raises:
        PySparkException, Py4JError: Spark failed.
    """
    if table is None or table.kind is not Kind.MIRROR:
        return False
    ours = {*(of.name for of in table.columns), *CDC_COLUMNS}
    if not ours < set(after.columns) or not ours <= set(before.columns):
        return False
    first, second = (rows.select(*map(quote, sorted(ours))) for rows in (before, after))
    return first.exceptAll(second).isEmpty() and second.exceptAll(first).isEmpty()
