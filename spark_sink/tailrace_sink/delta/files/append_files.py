"""Appends of files that were written before, which take effect once."""

from __future__ import annotations

from functools import partial

from pyspark.sql import SparkSession

from tailrace_sink.delta.append_once import require_newest
from tailrace_sink.delta.commits import in_parts, is_available
from tailrace_sink.delta.conflicts import retried
from tailrace_sink.delta.fence import Fence
from tailrace_sink.delta.transaction import DeltaTransaction
from tailrace_sink.files.counted_files import CountedFiles
from tailrace_sink.files.parquet_files import FileForm
from tailrace_sink.ports.writes import Examine, NotAsCounted, Once
from tailrace_sink.tables.lake_table import OWNER_PROPERTY


def form_of_files(spark: SparkSession, location: str) -> FileForm | None:
    """Return how the files of a table must look; None: Delta's own writer must write them."""
    if not is_available(spark, f"append to {location}"):
        return None
    return in_parts(spark, f"append to {location}", lambda: _form_now(spark, location))


def _form_now(spark: SparkSession, location: str) -> FileForm | None:
    return DeltaTransaction(spark, location).file_form


def append_files(
    fence: Fence, spark: SparkSession, written: CountedFiles, once: Once, examine: Examine | None
) -> None:
    """Append files with a batch id as Delta's transaction version (``append_once``).

    Args:
        written: the files in the table's folder. They are in no version yet.
        examine: called with the transaction before its commit. If it raises, the table stays as it
            was.

    Raises:
        NotAsCounted: the table was altered since the files were written.
        AppendRefused: the table has, or may have, keys of the rows.
        AppendSkipped: the table has a later batch.
        LakeTaken: a newer sink has the table.
        PySparkException, Py4JError: Spark failed.
    """
    location = written.form.address

    def committed() -> bool | None:
        transaction = DeltaTransaction(spark, location)
        fence.require(location, transaction.property_of(OWNER_PROPERTY))
        if not transaction.is_new_version(once.scope, once.batch):
            return False
        files = written.offered(transaction.file_form)
        if files is None:
            return None
        transaction.add_files(files)
        if examine is not None:
            examine(transaction)
        fence.own.note(location, transaction.commit_append(None))
        return True

    step = f"append to {location}"
    is_written = retried(step, partial(in_parts, spark, step, committed))
    if is_written is None:
        raise NotAsCounted(f"{location} was altered while its files were written")
    if not is_written:
        require_newest(spark, location, once.scope, once.batch)
