"""Rows of a mirror that the source no longer has."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from tailrace_sink.plan.sink_state import CutPoint
from tailrace_sink.rows.mirror_statements import same_key, snapshot_position
from tailrace_sink.tables.lake_table import (
    CHANGED,
    COMMIT_TIME,
    LSN,
    OPERATION,
    POSITION,
    LakeTable,
    literal,
    quote,
)


def without_keys(rows: DataFrame, others: DataFrame, table: LakeTable) -> DataFrame:
    """Return the rows whose key none of the others has."""
    same = F.expr(" AND ".join(same_key(table, "rows", "others")))
    return rows.alias("rows").join(others.alias("others"), same, "left_anti")


def deletes_of(rows: DataFrame, table: LakeTable, cut: CutPoint) -> DataFrame:
    """Deletes, at a cut, of rows that the source lost at an unknown time."""
    commit = "NULL" if cut.commit_ms is None else f"timestamp_millis({cut.commit_ms})"
    return rows.selectExpr(
        *(quote(column.name) for column in table.columns),
        f"{snapshot_position(cut.lsn)} AS {POSITION}",
        f"{literal(cut.lsn)} AS {LSN}",
        f"'d' AS {OPERATION}",
        f"CAST({commit} AS TIMESTAMP) AS {COMMIT_TIME}",
        f"CAST(array() AS ARRAY<STRING>) AS {CHANGED}",
    )


def as_read(rows: DataFrame, table: LakeTable, cut: CutPoint) -> DataFrame:
    """Rows that a table has at a cut, as a snapshot would read them."""
    return deletes_of(rows, table, cut).withColumn(OPERATION, F.lit("r"))
