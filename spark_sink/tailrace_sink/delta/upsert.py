"""Upserts: old rows leave a table and the last changes of their keys enter it, in one commit.

A change has its whole row. So only the place of the old row is needed, which one pass over keys and
positions finds. A MERGE takes two more passes for the same deletion vector and append (ADR 0043).
:func:`upsert` does nothing if only a MERGE is right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from tailrace_sink.delta.commits import in_parts
from tailrace_sink.delta.fence import Fence
from tailrace_sink.delta.transaction import DeltaTransaction
from tailrace_sink.files.counted_files import CountedFiles
from tailrace_sink.files.old_rows import OldRows, few, find_old_rows, listed_keys
from tailrace_sink.files.parquet_files import FileForm, ParquetFile
from tailrace_sink.files.to_compact import files_within
from tailrace_sink.options.modes import DeleteMode
from tailrace_sink.ports.writes import Latest
from tailrace_sink.rows.mirror_statements import same_key
from tailrace_sink.tables.lake_table import (
    CDC_COLUMNS,
    OPERATION,
    OWNER_PROPERTY,
    LakeTable,
    quote,
)

_PLACES: Final = "_metadata"
"""Struct with file and row index of each row; a column of that name hides it.

See: File metadata column (Azure Databricks).
"""


def upsert(
    spark: SparkSession,
    location: str,
    table: LakeTable,
    latest: Latest,
    delete_mode: DeleteMode,
    rewrite_below: int,
    fence: Fence | None = None,
) -> bool:
    """Apply the last change of each key to a Delta table in one commit.

    Args:
        spark: used by this thread only.
        rewrite_below: bytes of a table up to which files with changed rows are rewritten; of a
            larger table, bytes of its smallest such files; 0: none.

    Returns:
        False if a MERGE is needed. A row is newer than its change, a change lacks values, the table
        has columns of somebody else, or Delta's features need more.

    Raises:
        LakeTaken: a newer sink has the table.
        PySparkException, Py4JError: Spark failed; after a conflict it may be called again.
    """

    def committed() -> bool:
        transaction = DeltaTransaction(spark, location)
        if fence is not None:
            fence.require(location, transaction.property_of(OWNER_PROPERTY))
        if not _is_prepared(transaction, table, latest, delete_mode, rewrite_below):
            return False
        stamp = None if fence is None else fence.next_version()
        version = transaction.commit_merge({"operationNumSourceRows": latest.count}, stamp)
        if fence is not None:
            fence.own.note(location, version)
        return True

    return in_parts(spark, f"upsert into {location}", committed) or False


def _is_prepared(
    transaction: DeltaTransaction,
    table: LakeTable,
    latest: Latest,
    delete_mode: DeleteMode,
    rewrite_below: int,
) -> bool:
    """Add the changes to a transaction; False if a MERGE is needed."""
    names = [*(c.name for c in table.columns), *CDC_COLUMNS]
    hides_places = any(name.lower() == _PLACES for name in names)
    if set(transaction.columns) != set(names) or hides_places:
        return False
    size = transaction.bytes
    rewrites = 0 < rewrite_below >= size
    if not transaction.can_upsert or not (rewrites or transaction.has_deletion_vectors):
        return False
    if latest.lacks_values():
        return False
    listed = listed_keys(latest, table, size)
    found = _find(transaction, table, latest, listed, with_rows=not rewrites)
    if found.has_newer:
        return False
    files = transaction.files(found.rows)
    if files is None:
        return False
    anew = set(files) if rewrites else _small(files, latest, rewrite_below)
    ours = list(map(quote, names))
    new: DataFrame | None = None
    written = _written(latest, transaction.file_form)
    if written is not None:
        transaction.add_files(written)
    else:
        new = latest.rows
        if delete_mode is DeleteMode.HARD:
            new = new.where(f"{OPERATION} <> 'd'")
        new = new.select(*ours)
    if anew:
        there = transaction.rows_of(files[name] for name in anew)
        others = _others(there, table, latest, listed).select(*ours)
        new = others if new is None else others.unionByName(new)
        transaction.remove(files[name] for name in anew)
    left = {name: rows for name, rows in found.rows.items() if name not in anew}
    if left:
        transaction.remove_rows(left, files)
    if new is not None:
        transaction.add(new if latest.local is None else new.coalesce(1))
    return True


def _written(latest: Latest, form: FileForm | None) -> Sequence[ParquetFile] | None:
    written = latest.written
    return written.offered(form) if isinstance(written, CountedFiles) else None


def _others(there: DataFrame, table: LakeTable, latest: Latest, listed: str | None) -> DataFrame:
    """Rows of a table that have none of the keys."""
    if listed is not None and len(table.key) == 1:
        return there.where(f"NOT {listed}")
    same = F.expr(" AND ".join(same_key(table, "t", "s")))
    return there.alias("t").join(few(latest).alias("s"), same, "left_anti")


def _find(
    transaction: DeltaTransaction,
    table: LakeTable,
    latest: Latest,
    listed: str | None,
    *,
    with_rows: bool,
) -> OldRows:
    """Find the old rows in the files that may have any of the keys."""
    # A table without deletion vectors does not provide the row index.
    row = f"{_PLACES}.row_index" if with_rows else "CAST(NULL AS BIGINT)"
    if transaction.has_no_file_meeting(latest.exact):
        return OldRows({}, has_newer=False)
    with transaction.reading(latest.bounds) as rows:
        return find_old_rows(rows, table, latest, listed, f"{_PLACES}.file_name", row)


def _small(files: Mapping[str, Any], latest: Latest, bytes_max: int) -> set[str]:
    """Choose the smallest files with changed rows, together at most some bytes.

    Each upsert adds a file, and changes of scattered keys touch all files. Rewriting a small file
    once costs less than reading it with its deletion vector from then on (ADR 0046).
    """
    if latest.local is None:
        return set()
    sizes = sorted((int(file.size()), name) for name, file in files.items())
    return {name for _, name in sizes[: files_within([size for size, _ in sizes], bytes_max)]}
