"""An append that is done once, however often the batch that it belongs to is applied."""

from __future__ import annotations

from pyspark.sql import DataFrame

from tailrace_sink.conflicts import retried
from tailrace_sink.delta_log import table_version, transaction_version
from tailrace_sink.errors import AppendSkipped


def append_once(rows: DataFrame, location: str, application: str, batch: int) -> None:
    """Append rows with a batch id as Delta's transaction version.

    Delta skips a version that is not greater than the newest. That is right for the batch that the
    table has already; a lower one would be lost without a word, so it is an error.

    Args:
        rows: the columns of the table.
        location: of a Delta table.
        application: Delta's ``txnAppId``.
        batch: Delta's ``txnVersion``.

    Raises:
        AppendSkipped: the table has a later batch.
    """
    spark = rows.sparkSession
    before = table_version(spark, location)
    writer = (
        rows.write.format("delta")
        .mode("append")
        .option("txnAppId", application)
        .option("txnVersion", batch)
    )
    retried(f"append to {location}", lambda: writer.save(location))
    if table_version(spark, location) != before:
        return
    found = transaction_version(spark, location, application)
    if found != batch:
        raise AppendSkipped(location, batch, found)
