"""Upserts: old rows leave a table and the last changes of their keys enter it, in one commit.

:func:`merge_changes` falls back to a MERGE.

A change has its whole row. So only the place of the old row is needed, which one pass over keys and
positions finds. A MERGE takes two more passes for the same deletion vector and append (ADR 0043).
:func:`upsert` does nothing if only a MERGE is right.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from tailrace_sink.columns.distinct_keys import are_distinct
from tailrace_sink.delta.column_files import WrittenFiles
from tailrace_sink.delta.commits import in_parts
from tailrace_sink.delta.conflicts import retried
from tailrace_sink.delta.fence import Fence
from tailrace_sink.delta.file_log import files_within
from tailrace_sink.delta.transaction import DeltaTransaction
from tailrace_sink.fold.doubled_keys import leave_one_row_each
from tailrace_sink.fold.key_match import FILE, ROW, listed_condition, matches
from tailrace_sink.fold.passing_count import Check
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.options.modes import DeleteMode
from tailrace_sink.plan.topic_ranges import TopicRange
from tailrace_sink.rows.last_change import available_flag, large_columns
from tailrace_sink.rows.mirror_statements import merge_statement, same_key
from tailrace_sink.tables.key_bounds import (
    KeyBound,
    bounds_by_spark,
    bounds_in,
    conditions_of,
    exact_in,
)
from tailrace_sink.tables.lake_table import (
    CDC_COLUMNS,
    OPERATION,
    OWNER_PROPERTY,
    POSITION,
    LakeTable,
    quote,
)

_LATEST: Final = "_tailrace_latest"
_LISTED_BYTES_MAX: Final = 4 * 1024 * 1024
"""Bytes of a table in which rows are found by a list of keys. A larger one is read by generated
code, which Spark would compile again for every list."""


@dataclass(frozen=True, slots=True)
class _Found:
    """The places of rows with the changes' keys.

    Attributes:
        rows: file name to indexes of rows in it.
        has_newer: whether any row is as new as its change, or newer.
    """

    rows: dict[str, array[int]]
    has_newer: bool


@dataclass(frozen=True, slots=True)
class Latest:
    """The last change of each key.

    Attributes:
        rows: in the table's columns and the ``_cdc_*`` columns.
        local: the rows in memory, if they are few.
        lacking: condition of rows that do not hold all their values; None: all do.
        exact: the bounds, not rounded; empty: unknown.
        written: files with the rows, which may become the table's; else None.
    """

    rows: DataFrame
    bounds: Sequence[KeyBound]
    count: int
    local: pa.Table | None
    lacking: str | None
    exact: Sequence[KeyBound] = ()
    written: WrittenFiles | None = None


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
        return _committed(transaction, table, latest, delete_mode, rewrite_below)

    return in_parts(spark, f"upsert into {location}", committed) or False


def _committed(
    transaction: DeltaTransaction,
    table: LakeTable,
    latest: Latest,
    delete_mode: DeleteMode,
    rewrite_below: int,
) -> bool:
    """Commit the changes; False if a MERGE is needed."""
    names = [*(c.name for c in table.columns), *CDC_COLUMNS]
    if set(transaction.columns) != set(names):
        return False
    size = transaction.bytes
    rewrites = 0 < rewrite_below >= size
    if not transaction.can_upsert or not (rewrites or transaction.has_deletion_vectors):
        return False
    if latest.lacking is not None and latest.rows.where(latest.lacking).limit(1).collect():
        return False
    listed: str | None = None
    if latest.local is not None and size <= _LISTED_BYTES_MAX:
        listed = listed_condition(latest.local, table)
    found = _find(transaction, table, latest, listed, with_rows=not rewrites)
    if found.has_newer:
        return False
    files = transaction.files(found.rows)
    if files is None:
        return False
    anew = set(files) if rewrites else _small(files, latest, rewrite_below)
    ours = list(map(quote, names))
    new: DataFrame | None = None
    if latest.written is None or not latest.written.offer(transaction):
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
    transaction.commit_merge({"operationNumSourceRows": latest.count})
    return True


def _others(there: DataFrame, table: LakeTable, latest: Latest, listed: str | None) -> DataFrame:
    """Rows of a table that have none of the keys."""
    if listed is not None and len(table.key) == 1:
        return there.where(f"NOT {listed}")
    same = F.expr(" AND ".join(same_key(table, "t", "s")))
    return there.alias("t").join(_few(latest).alias("s"), same, "left_anti")


def _find(
    transaction: DeltaTransaction,
    table: LakeTable,
    latest: Latest,
    listed: str | None,
    *,
    with_rows: bool,
) -> _Found:
    """Read keys and positions of the files that may have any of the keys."""
    # A table without deletion vectors does not provide the row index.
    row = "_metadata.row_index" if with_rows else "CAST(NULL AS BIGINT)"
    if transaction.has_no_file_meeting(latest.exact):
        return _Found({}, has_newer=False)
    with transaction.reading(latest.bounds) as rows:
        there = rows.selectExpr(
            *map(quote, table.key), POSITION, f"_metadata.file_name AS {FILE}", f"{row} AS {ROW}"
        ).alias("t")
        for condition in conditions_of(latest.bounds):
            there = there.where(condition)
        if listed is not None and latest.local is not None:
            found = _read(there.where(listed))
            return _Found(*matches(found, latest.local, table))
        matched = there.join(
            _few(latest).alias("s"), F.expr(" AND ".join(same_key(table, "t", "s")))
        )
        is_newer = f"t.{POSITION} IS NULL OR s.{POSITION} > t.{POSITION}"
        found = _read(
            matched.groupBy(FILE).agg(
                F.collect_list(ROW).alias("rows"), F.expr(f"bool_and({is_newer})").alias("newer")
            )
        )
    names, rows_of, are_newer = (found[name] for name in (FILE, "rows", "newer"))
    return _Found(
        {
            str(name): array("q", rows.values.to_numpy(zero_copy_only=False).tobytes())
            for name, rows in zip(names.to_pylist(), rows_of, strict=True)
        },
        not all(are_newer.to_pylist()),
    )


def _read(rows: DataFrame) -> pa.Table:
    rows._jdf.queryExecution().executedPlan()  # noqa: SLF001 - planned here: it is noted as read
    return rows.toArrow()


def _small(files: Mapping[str, Any], latest: Latest, bytes_max: int) -> set[str]:
    """Choose the smallest files with changed rows, together at most some bytes.

    Each upsert adds a file, and changes of scattered keys touch all files. Rewriting a small file
    once costs less than reading it with its deletion vector from then on (ADR 0046).
    """
    if latest.local is None:
        return set()
    sizes = sorted((int(file.size()), name) for name, file in files.items())
    return {name for _, name in sizes[: files_within([size for size, _ in sizes], bytes_max)]}


def _few(latest: Latest) -> DataFrame:
    return latest.rows if latest.local is None else F.broadcast(latest.rows)


def merge_changes(
    spark: SparkSession,
    config: SinkConfig,
    fence: Fence,
    table: LakeTable,
    ranges: TopicRange,
    reduced: DataFrame,
    whole_at: str | None = None,
    check: Check | None = None,
    *,
    is_local: bool = False,
) -> None:
    """Apply the last change of each key by an upsert, or by a MERGE if that is not enough.

    Args:
        spark: used by this thread only.
        ranges: the ledger's counts of the changes.
        reduced: the last change of each key.
        whole_at: LSN of the cut, if the changes hold every row of the source table.
        check: called after the changes were read and before anything is written.
        is_local: whether the changes fit in the driver's memory.
    """
    with _kept(spark, reduced, config, table, is_local=is_local) as latest:
        if check is not None:
            check()
        merge_latest(spark, config, fence, table, ranges, latest, whole_at)


def merge_latest(
    spark: SparkSession,
    config: SinkConfig,
    fence: Fence,
    table: LakeTable,
    ranges: TopicRange,
    latest: Latest,
    whole_at: str | None,
) -> None:
    """Apply the last changes by an upsert, or by a MERGE (:func:`merge_changes`)."""
    location = f"{config.lake}/{table.path}"
    if whole_at is not None:
        leave_one_row_each(spark, fence, location, table)
    elif latest.written is None or not latest.written.lacking:
        mode, below = config.delete_mode, config.rewrite_below_bytes
        write = partial(upsert, spark, location, table, latest, mode, below, fence)
        if retried(f"upsert into {table.path}", write):
            return
    latest.rows.createOrReplaceTempView(_LATEST)
    bounds = conditions_of(latest.bounds)
    since = ranges.since_lsn if ranges.is_part else ""
    large, mode = large_columns(table), config.delete_mode
    statement = merge_statement(location, _LATEST, table, large, mode, whole_at, bounds, since)
    fence.write(spark, location, partial(spark.sql, statement))


def latest_in(spark: SparkSession, written: WrittenFiles, table: LakeTable) -> Latest | None:
    """Describe the last changes that are in files; None if a key may be there twice."""
    keys = written.keys(table.key) if written.is_reduced else None
    if keys is None or not are_distinct(keys):
        return None
    rows, bounds = written.changes(spark, table), bounds_in(keys, table)
    exact = exact_in(keys, table)
    return Latest(rows, bounds, keys.num_rows, None, None, exact, written)


@contextmanager
def _kept(
    spark: SparkSession,
    reduced: DataFrame,
    config: SinkConfig,
    table: LakeTable,
    *,
    is_local: bool,
) -> Iterator[Latest]:
    """Cache decoded and reduced rows, which are read two or three times.

    Rows lost with an executor are decoded again, from the same offsets.
    """
    lacking = _lacking(table, config.delete_mode)
    if is_local:
        rows = reduced.toArrow()
        latest, bounds = spark.createDataFrame(rows, reduced.schema), bounds_in(rows, table)
        yield Latest(latest, bounds, rows.num_rows, rows, lacking)
        return
    reduced.persist()
    try:
        count, bounds = bounds_by_spark(reduced, table)
        yield Latest(reduced, bounds, count, None, lacking)
    finally:
        reduced.unpersist()


def _lacking(table: LakeTable, delete_mode: DeleteMode) -> str | None:
    """Condition of changes that become rows but do not hold all their values; None: none does."""
    flags = [available_flag(index) for index in range(len(large_columns(table)))]
    if not flags:
        return None
    lacks = f"NOT ({' AND '.join(flags)})"
    return lacks if delete_mode is DeleteMode.SOFT else f"{OPERATION} <> 'd' AND {lacks}"
