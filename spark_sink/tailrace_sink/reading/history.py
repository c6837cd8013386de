"""Validity intervals of the rows of a table with an append-only companion."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from tailrace_sink.tables.lake_table import COMMIT_TIME, LSN, OPERATION, POSITION, quote


def history(changes: DataFrame, key: list[str]) -> DataFrame:
    """Compute validity intervals (SCD type 2) of the rows of an append-only table.

    Args:
        changes: rows of a ``.changes`` table.
        key: names of its key columns.

    Returns:
        The rows with ``_cdc_valid_from_lsn``, ``_cdc_valid_to_lsn``, ``_cdc_valid_from`` and
        ``_cdc_valid_to``; the last two are commit times, open ends are NULL. A delete ends an
        interval and is no row itself. A row that the source lost unseen ends with the snapshot that
        no longer found it.
    """

    def following(name: str) -> Column:
        window = Window.partitionBy(*map(quote, key)).orderBy(F.col(POSITION).asc())
        return F.lead(name).over(window)

    return (
        changes.withColumn("_cdc_valid_from_lsn", F.col(LSN))
        .withColumn("_cdc_valid_to_lsn", following(LSN))
        .withColumn("_cdc_valid_from", F.col(COMMIT_TIME))
        .withColumn("_cdc_valid_to", following(COMMIT_TIME))
        .where(F.col(OPERATION) != "d")
    )
