"""An append that is done once, however often the batch that it belongs to is applied."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from pyspark.sql import DataFrame

from tailrace_sink.delta.commits import in_parts
from tailrace_sink.delta.conflicts import retried
from tailrace_sink.delta.fence import Fence
from tailrace_sink.delta.file_log import transaction_version
from tailrace_sink.delta.transaction import DeltaTransaction
from tailrace_sink.errors import AppendSkipped
from tailrace_sink.tables.lake_table import OWNER_PROPERTY

_COMMITTED: Final = "spark.databricks.delta.lastCommitVersionInSession"
"""Delta's own: the version of the session's last commit. A write that it drops does not set it."""


def append_once(
    rows: DataFrame,
    location: str,
    application: str,
    batch: int,
    check: Callable[[], None] | None = None,
    fence: Fence | None = None,
) -> None:
    """Append rows with a batch id as Delta's transaction version.

    Delta skips a version that is not greater than the newest. That is right for the batch that the
    table has already; a lower one would be lost without a word, so it is an error.

    Args:
        rows: the columns of the table.
        location: of a Delta table.
        application: Delta's ``txnAppId``.
        batch: Delta's ``txnVersion``.
        check: as for :func:`append_version`.
        fence: as for :func:`append_version`.

    Raises:
        LakeTaken: a newer sink has the table.
        AppendSkipped: the table has a later batch.
    """
    write = partial(append_version, rows, location, application, batch, check=check, fence=fence)
    if retried(f"append to {location}", write):
        return
    found = transaction_version(rows.sparkSession, location, application)
    if found != batch:
        raise AppendSkipped(location, batch, found)


def append_version(
    rows: DataFrame,
    location: str,
    application: str,
    version: int,
    metadata: str | None = None,
    check: Callable[[], None] | None = None,
    fence: Fence | None = None,
) -> bool:
    """Append rows as one commit, unless the table has its transaction version or a later one.

    Args:
        rows: the columns of the table.
        location: of a Delta table.
        application: Delta's ``txnAppId``.
        version: Delta's ``txnVersion``.
        metadata: the commit's user metadata, for the table's history.
        check: called when the rows are in files, before these are committed; what it raises leaves
            the table as it was.
        fence: of a lake table; None for a table of the sink's own.

    Returns:
        Whether it was written.

    Raises:
        LakeTaken: a newer sink has the table.
        PySparkException, Py4JError: also when another commit of the application was quicker.
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
        transaction.commit_append(metadata)
        return True

    is_written = in_parts(spark, f"append to {location}", committed)
    if is_written is not None:
        return is_written
    if check is not None:
        # Its own writer commits what it has written: the rows are read once more, before.
        rows.write.format("noop").mode("overwrite").save()
        check()
    if fence is not None:
        fence.require_now(spark, location)
    # Its own writer knows what to do with other types, or says what is wrong with them.
    spark.conf.unset(_COMMITTED)
    writer = rows.write.format("delta").mode("append").option("txnAppId", application)
    if metadata is not None:
        writer = writer.option("userMetadata", metadata)
    writer.option("txnVersion", version).save(location)
    return spark.conf.get(_COMMITTED, None) is not None
