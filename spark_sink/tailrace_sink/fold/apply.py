"""Application of one table's changes: an idempotent append, or an upsert guarded by position.

The ledger's counts decide between the two (``write_choice``). The guard lets a change replace only
an older position. So a replay is a MERGE that changes no row. A table that is rewritten, or that a
snapshot replaces, is written again with the same rows.

Appends carry the batch id as Delta's transaction version. A replay is the same batch (``intent``),
so this version proves that the append was done.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from tailrace_sink.delta.append_once import AppendRefused, Examine, append_once
from tailrace_sink.delta.conflicts import retried
from tailrace_sink.delta.fence import Fence
from tailrace_sink.fold.doubled_keys import (
    leave_one_row_each,
    require_distinct_keys,
    require_keys_beside,
    require_new_keys,
)
from tailrace_sink.fold.passing_count import Check, counted_in_passing
from tailrace_sink.fold.upsert import Latest, upsert
from tailrace_sink.fold.write_choice import Write, way_to_write
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.options.modes import DeleteMode
from tailrace_sink.plan.sink_state import CutPoint
from tailrace_sink.plan.topic_ranges import TopicRange
from tailrace_sink.rows.decode import WriterSchema, change_rows, within_cut
from tailrace_sink.rows.last_change import available_flag, large_columns, latest_changes
from tailrace_sink.rows.mirror_statements import merge_statement, same_key, snapshot_position
from tailrace_sink.tables.key_bounds import bounds_by_spark, bounds_in, conditions_of
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
from tailrace_sink.tables.origins import own_rows

_VIEW = "_tailrace_latest"
_EXAMINED: Final = {
    Write.APPEND: require_new_keys,
    Write.APPEND_DISTINCT: require_distinct_keys,
    Write.APPEND_BESIDE: require_keys_beside,
}
"""What the files of an append must fulfil before its commit."""


@dataclass(frozen=True, slots=True)
class TableWork:
    """What one batch applies to one source table.

    Attributes:
        table: its lake table, with the columns after this batch's DDL.
        other_writers: writer schemas of other tables in the same topic.
        is_counted: whether ``values`` were compared with the ledger; else that is done while they
            are written.
        repeats_keys: whether two values have the same key; False also if unknown.
    """

    table: LakeTable
    changes_table: LakeTable | None
    writers: tuple[WriterSchema, ...]
    other_writers: tuple[WriterSchema, ...]
    topic_range: TopicRange
    values: DataFrame
    is_counted: bool
    repeats_keys: bool
    fence: Fence


def apply_changes(spark: SparkSession, config: SinkConfig, work: TableWork, cut: CutPoint) -> None:
    """Apply one source table's part of a batch to its lake tables.

    Args:
        spark: used by this thread only: a temporary view and settings are per session.

    Raises:
        NotAsCounted: the messages are not what the ledger counts; nothing was committed.
    """
    # The companion comes first: rows that the source lost are found in the mirror, which the
    # second write deletes them from.
    if work.changes_table is not None:
        changes, check = _counted(work, work.changes_table)
        if work.topic_range.is_whole and not work.table.is_new:
            gone = _gone(spark, config, work, cut)
            changes = changes.unionByName(gone, allowMissingColumns=True)
        append_changes(config, work.fence, work.changes_table, changes, cut.batch, check)
    if work.table.key:
        _write_mirror(spark, config, work, cut)
    else:
        changes, check = _counted(work, work.table)
        append_changes(config, work.fence, work.table, changes, cut.batch, check)


def _gone(spark: SparkSession, config: SinkConfig, work: TableWork, cut: CutPoint) -> DataFrame:
    """Deletes of the lake's rows that are missing from a whole table."""
    there = rows_there(spark, config, work.table).alias("there")
    whole = changes_of(work, work.table, work.topic_range.whole_from).alias("whole")
    same = F.expr(" AND ".join(same_key(work.table, "there", "whole")))
    left = there.join(whole, same, "left_anti")
    return deletes_of(left, work.table, cut)


def append_all_gone(
    spark: SparkSession,
    config: SinkConfig,
    fence: Fence,
    table: LakeTable,
    changes_table: LakeTable,
    cut: CutPoint,
) -> None:
    """Append a delete of every row of a mirror whose source is empty, once per batch id."""
    gone = deletes_of(rows_there(spark, config, table), table, cut)
    append_changes(config, fence, changes_table, gone, cut.batch)


def rows_there(spark: SparkSession, config: SinkConfig, table: LakeTable) -> DataFrame:
    """Return the rows of a mirror that the source has."""
    rows = spark.read.format("delta").load(f"{config.lake}/{table.path}")
    return rows.where(f"{OPERATION} <> 'd' AND {own_rows(table)}")


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


def _write_mirror(spark: SparkSession, config: SinkConfig, work: TableWork, cut: CutPoint) -> None:
    table, ranges = work.table, work.topic_range
    # Changes before a whole table are older than it, so they are not applied.
    changes, check = _counted(work, table, ranges.whole_from)
    way = way_to_write(ranges, table, config.delete_mode)
    if way is Write.APPEND and work.repeats_keys:
        way = Write.APPEND_LATEST if table.is_new else Write.MERGE
    if way in _EXAMINED:
        examine = None if way is Write.APPEND and table.is_new else partial(_EXAMINED[way], table)
        try:
            append_changes(config, work.fence, table, changes, cut.batch, check, examine=examine)
        except AppendRefused:
            # Perhaps nothing was written, so nothing was counted.
            changes, check = _counted(work, table, ranges.whole_from)
            way = Write.APPEND_LATEST if table.is_new else Write.MERGE
        else:
            return
    if way is Write.APPEND_LATEST:
        latest = latest_changes(changes, table, large_columns(table))
        if config.delete_mode is DeleteMode.HARD:
            latest = latest.where(f"{OPERATION} <> 'd'")
        append_changes(config, work.fence, table, latest, cut.batch, check)
        return
    whole_at = cut.lsn if ranges.is_whole else None
    is_local = config.fits_driver(ranges.count, ranges.bytes)
    merge_changes(spark, config, work, changes, whole_at, check, is_local=is_local)


def _counted(
    work: TableWork, table: LakeTable, from_offsets: Mapping[int, int] | None = None
) -> tuple[DataFrame, Check | None]:
    """Return the changes of the cut, and a check that compares them with the ledger once read."""
    changes, check = _decoded(work, table, from_offsets), None
    if not work.is_counted:
        changes, check = counted_in_passing(changes, work.topic_range)
    return _within_cut(work, changes), check


def changes_of(
    work: TableWork, table: LakeTable, from_offsets: Mapping[int, int] | None = None
) -> DataFrame:
    """Decode the changes of the cut, without counting them."""
    return _within_cut(work, _decoded(work, table, from_offsets))


def _decoded(
    work: TableWork, table: LakeTable, from_offsets: Mapping[int, int] | None
) -> DataFrame:
    values = work.values
    if from_offsets and not work.topic_range.is_only_whole:
        before = [f"(partition = {p} AND offset < {first})" for p, first in from_offsets.items()]
        values = values.where(f"NOT ({' OR '.join(before)})")
    return change_rows(values, table, work.writers, work.other_writers)


def _within_cut(work: TableWork, changes: DataFrame) -> DataFrame:
    return within_cut(changes, work.topic_range.after_lsn, work.topic_range.up_to_lsn)


def merge_changes(
    spark: SparkSession,
    config: SinkConfig,
    work: TableWork,
    changes: DataFrame,
    whole_at: str | None = None,
    check: Check | None = None,
    *,
    is_local: bool = False,
) -> None:
    """Apply the last change of each key by an upsert, or by a MERGE if that is not enough.

    Args:
        spark: used by this thread only.
        whole_at: LSN of the cut, if the changes hold every row of the source table.
        check: called after the changes were read and before anything is written.
        is_local: whether the changes fit in the driver's memory.
    """
    table, fence = work.table, work.fence
    large = large_columns(table)
    location = f"{config.lake}/{table.path}"
    reduced = latest_changes(changes, table, large)
    with _kept(spark, reduced, config, table, is_local=is_local) as latest:
        if check is not None:
            check()
        if whole_at is None:
            mode, below = config.delete_mode, config.rewrite_below_bytes
            write = partial(upsert, spark, location, table, latest, mode, below, fence)
            if retried(f"upsert into {table.path}", write):
                return
        else:
            leave_one_row_each(spark, fence, location, table)
        latest.rows.createOrReplaceTempView(_VIEW)
        bounds = conditions_of(latest.bounds)
        since = work.topic_range.since_lsn if work.topic_range.is_part else ""
        statement = merge_statement(
            location, _VIEW, table, large, config.delete_mode, whole_at, bounds, since
        )
        fence.write(spark, location, partial(spark.sql, statement))


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


def once_in(config: SinkConfig, table: LakeTable, purpose: str) -> str:
    """Return the scope of the transaction versions with which a source writes to a table.

    Args:
        purpose: distinguishes several writes of one batch to one table.
    """
    origin = "" if table.origin is None else f"-of-{table.origin.path}"
    return f"tailrace-sink-{config.prefix}{purpose}{origin}"


def append_changes(
    config: SinkConfig,
    fence: Fence,
    table: LakeTable,
    changes: DataFrame,
    batch: int,
    check: Check | None = None,
    *,
    purpose: str = "",
    examine: Examine | None = None,
) -> None:
    """Append every change, once per batch id, purpose and source table.

    Args:
        purpose: distinguishes several appends of one batch to one table.

    Raises:
        AppendRefused: ``examine`` raised it, or could not be called.
    """
    names = [*(column.name for column in table.columns), *table.cdc_columns]
    rows = changes.select(*map(quote, names))
    application = once_in(config, table, purpose)
    append_once(rows, f"{config.lake}/{table.path}", application, batch, check, fence, examine)
