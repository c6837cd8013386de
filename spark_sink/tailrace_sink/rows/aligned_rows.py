"""Rows of a lake table at an earlier version, with its later columns."""

from __future__ import annotations

from pyspark.sql import DataFrame

from tailrace_sink.tables.lake_table import LakeTable, quote


def aligned(known: LakeTable, rows: DataFrame, table: LakeTable) -> DataFrame:
    """Convert rows to the columns of a later description of their table.

    Args:
        known: the description of the table that the rows follow.
    """
    names = table.names_in(known)
    columns = [
        f"CAST({quote(names[column.column_id]) if column.column_id in names else 'NULL'}"
        f" AS {column.type}) AS {quote(column.name)}"
        for column in table.columns
    ]
    mirrored = {column.name.lower() for column in known.columns}
    rest = [quote(name) for name in rows.columns if name.lower() not in mirrored]
    return rows.selectExpr(*columns, *rest)
