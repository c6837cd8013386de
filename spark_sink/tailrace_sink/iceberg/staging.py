"""Staging of a batch: writes to the branch of a table, with the batch in their snapshots."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Final

from pyspark.sql import SparkSession

from tailrace_sink.errors import ApplyFailed
from tailrace_sink.iceberg.catalog import IcebergCatalog
from tailrace_sink.iceberg.names import BRANCH, TableId
from tailrace_sink.iceberg.stamp import Stamp

SUMMARY: Final = "spark.sql.iceberg.snapshot-property."


def stage(
    spark: SparkSession,
    catalog: IcebergCatalog,
    name: TableId,
    stamp: Stamp,
    run: Callable[[str], object],
) -> int:
    """Write to the branch of a table that this sink has taken.

    Args:
        spark: used by this thread only, as its settings carry the stamp.
        run: writes to the table whose quoted SQL name it gets: MERGE, or
            ``rows.writeTo(name).append()``.

    Returns:
        The snapshot to publish; that of the main branch if nothing changed.

    Raises:
        ApplyFailed: the table or its branch does not exist.
        PySparkException, Py4JError: Spark failed.
    """
    with ExitStack() as stack:
        for entry, text in stamp.summary.items():
            # A setting that is left would put this batch into the session's next write.
            stack.callback(spark.conf.unset, f"{SUMMARY}{entry}")
            spark.conf.set(f"{SUMMARY}{entry}", text)
        run(name.staged_sql(catalog.name))
    table = catalog.load(name)
    head = None if table is None else table.head(BRANCH)
    if head is None:
        raise ApplyFailed(f"staging to table {name}", f"it has no branch {BRANCH}")
    return head
