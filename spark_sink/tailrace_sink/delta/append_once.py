"""Appends that take effect once, however often their batch is applied."""

from __future__ import annotations

from functools import partial

from pyspark.sql import DataFrame, SparkSession

from tailrace_sink.delta.commits import in_parts
from tailrace_sink.delta.conflicts import retried
from tailrace_sink.delta.fence import COMMITTED, Fence
from tailrace_sink.delta.file_log import (
    current_snapshot,
    partition_columns,
    transaction_version,
)
from tailrace_sink.delta.partition_values import guarded
from tailrace_sink.delta.transaction import DeltaTransaction
from tailrace_sink.errors import AppendSkipped
from tailrace_sink.ports.writes import AppendRefused, Check, Examine
from tailrace_sink.tables.lake_table import OWNER_PROPERTY


def append_once(
    rows: DataFrame,
    location: str,
    application: str,
    batch: int,
    check: Check | None = None,
    fence: Fence | None = None,
    examine: Examine | None = None,
) -> None:
    """Append rows with a batch id as Delta's transaction version.

    Arguments and errors are those of :func:`append_version`.

    Raises:
        AppendSkipped: the table has a later batch. Delta skips every version that is not greater
            than the newest. For any other batch than the newest, rows would be lost silently.
    """
    write = partial(
        append_version,
        rows,
        location,
        application,
        batch,
        check=check,
        fence=fence,
        examine=examine,
    )
    if retried(f"append to {location}", write):
        return
    require_newest(rows.sparkSession, location, application, batch)


def require_newest(spark: SparkSession, location: str, application: str, batch: int) -> None:
    """Check that an append that was not written had been written before.

    Raises:
        AppendSkipped: the newest version of the application is another batch.
    """
    found = transaction_version(spark, location, application)
    if found != batch:
        raise AppendSkipped(location, batch, found)


def append_version(
    rows: DataFrame,
    location: str,
    application: str,
    version: int,
    metadata: str | None = None,
    check: Check | None = None,
    fence: Fence | None = None,
    examine: Examine | None = None,
) -> bool:
    """Append rows as one commit, unless the table has its transaction version or a later one.

    Args:
        rows: in the columns of the table.
        application: scope of the version (Delta's ``txnAppId``).
        metadata: user metadata of the commit, shown in the table's history.
        check: called after the rows were written and before the commit. If it raises, the table
            stays as it was.
        fence: None for a table that only the sink uses.
        examine: called after ``check``, with the transaction. If it raises, the table stays as it
            was.

    Returns:
        Whether the rows were committed.

    Raises:
        AppendRefused: ``examine`` raised it, or Delta's own writer must be used.
        LakeTaken: a newer sink has the table.
        PySparkException, Py4JError: also when another commit of the application came first.
    """
    spark = rows.sparkSession

    def committed() -> bool | None:
        transaction = DeltaTransaction(spark, location)
        if fence is not None:
            fence.require(location, transaction.property_of(OWNER_PROPERTY))
        if not transaction.is_new_version(application, version):
            return False
        if not transaction.has_columns(rows):
            return None
        transaction.add(rows)
        if check is not None:
            check()
        if examine is not None:
            examine(transaction)
        _note(fence, location, transaction.commit_append(metadata))
        return True

    is_written = in_parts(spark, f"append to {location}", committed)
    if is_written is not None:
        return is_written
    if examine is not None:
        raise AppendRefused  # Delta's own writer leaves no moment between writing and commit.
    rows = guarded(rows, partition_columns(current_snapshot(spark, location)))
    if check is not None:
        # For the same reason the rows are read once before they are written.
        rows.write.format("noop").mode("overwrite").save()
        check()
    if fence is not None:
        fence.require_now(spark, location)
    # Delta's own writer converts other types, or raises an error that names them.
    spark.conf.unset(COMMITTED)
    writer = rows.write.format("delta").mode("append").option("txnAppId", application)
    if metadata is not None:
        writer = writer.option("userMetadata", metadata)
    writer.option("txnVersion", version).save(location)
    return spark.conf.get(COMMITTED, None) is not None


def _note(fence: Fence | None, location: str, version: int) -> None:
    if fence is not None:
        fence.own.note(location, version)
