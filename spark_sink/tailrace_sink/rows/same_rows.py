"""Comparison of two states of a table in the sink's columns."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame

from tailrace_sink.tables.lake_table import CDC_COLUMNS, Kind, LakeTable, quote


def only_others_differ(
    table: LakeTable | None, rows_at: Callable[[int], DataFrame], before: int, after: int
) -> bool:
    """Whether two versions of a mirror differ only in columns that somebody else has added.

    False also without such columns, and for other tables.

    Args:
        rows_at: reads the rows of a version.

    Raises:
        PySparkException, Py4JError: Spark failed.
    """
    if table is None or table.kind is not Kind.MIRROR:
        return False
    ours = {*(of.name for of in table.columns), *CDC_COLUMNS}
    former, newer = rows_at(before), rows_at(after)
    if not ours < set(newer.columns) or not ours <= set(former.columns):
        return False
    first, second = (rows.select(*map(quote, sorted(ours))) for rows in (former, newer))
    return first.exceptAll(second).isEmpty() and second.exceptAll(first).isEmpty()
