"""Application of one table's changes: an idempotent append, or an upsert guarded by position.

The ledger's counts decide between the two (``write_choice``). The guard lets a change replace only
an older position. So a replay is a MERGE that changes no row. A table that is rewritten, or that a
snapshot replaces, is written again with the same rows.

Appends carry the batch id. A replay is the same batch (``intent``), so it proves that the append
was done.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import structlog
from pyspark.sql import DataFrame, SparkSession

from tailrace_sink.fold.doubled_keys import (
    require_distinct_keys,
    require_new_keys,
    require_none_between,
)
from tailrace_sink.fold.merge import latest_in, merge_changes, merge_latest, merge_messages
from tailrace_sink.fold.passing_count import counted_in_passing
from tailrace_sink.fold.write_choice import Write, way_to_write
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.options.modes import DeleteMode
from tailrace_sink.plan.scopes import sink_scope
from tailrace_sink.plan.sink_state import CutPoint
from tailrace_sink.plan.topic_ranges import TopicRange
from tailrace_sink.ports.table_format import TableWriter
from tailrace_sink.ports.writes import (
    Added,
    AppendRefused,
    Check,
    Destination,
    Examine,
    Once,
    WrittenFiles,
)
from tailrace_sink.rows.decode import change_rows
from tailrace_sink.rows.last_change import large_columns, latest_changes
from tailrace_sink.rows.lost_rows import deletes_of, without_keys
from tailrace_sink.rows.writer_schema import WriterSchema
from tailrace_sink.tables.lake_table import (
    OPERATION,
    LakeTable,
    quote,
)
from tailrace_sink.tables.origins import own_rows

_EXAMINED: Final = {
    Write.APPEND: (require_new_keys,),
    Write.APPEND_DISTINCT: (require_distinct_keys,),
    Write.APPEND_BESIDE: (require_none_between, require_distinct_keys),
}
"""What the files of an append must fulfil before its commit."""


Values = Callable[[], DataFrame]
"""Returns messages for Spark, the same ones each time."""
_REPEATED: Final = "keys repeat, and changes may lack large values"

_log = structlog.get_logger("tailrace.sink")


@dataclass(frozen=True, slots=True)
class TableWork:
    """What one batch applies to one source table.

    Attributes:
        table: its lake table, with the columns after this batch's DDL.
        other_writers: writer schemas of other tables in the same topic.
        values: returns the messages for Spark.
        messages: the same, if they are in memory; else None.
        is_counted: whether they were compared with the ledger; else that is done while they
            are written.
        repeats_keys: whether two values have the same key; False also if unknown.
    """

    table: LakeTable
    changes_table: LakeTable | None
    writers: tuple[WriterSchema, ...]
    other_writers: tuple[WriterSchema, ...]
    topic_range: TopicRange
    values: Values
    messages: pa.Table | None
    is_counted: bool
    repeats_keys: bool
    tables: TableWriter


def apply_changes(spark: SparkSession, config: SinkConfig, work: TableWork, cut: CutPoint) -> None:
    """Apply one source table's part of a batch to its lake tables.

    Args:
        spark: used by this thread only: a temporary view and settings are per session.

    Raises:
        NotAsCounted: the messages are not what the ledger counts; nothing was committed.
    """
    written = _files(spark, config, work)
    try:
        # The companion comes first: rows that the source lost are found in the mirror, which the
        # second write deletes them from.
        if work.changes_table is not None:
            _append_every(spark, config, work, work.changes_table, cut, written)
        if work.table.key:
            _write_mirror(spark, config, work, cut, written.get(work.table.path))
        else:
            _append_every(spark, config, work, work.table, cut, written)
    finally:
        for files in written.values():
            files.discard()


def _files(spark: SparkSession, config: SinkConfig, work: TableWork) -> Mapping[str, WrittenFiles]:
    """Write the files of the tables of a bulk range, by table path.

    A table gets each change, or the last one of each key if it may have the keys or lose rows.
    """
    ranges, table = work.topic_range, work.table
    if not _is_bulk(work):
        return {}
    tables = []
    if work.changes_table is not None and not _loses_rows(work):
        tables.append(Destination(work.changes_table))
    is_soft = config.delete_mode is DeleteMode.SOFT
    every = not table.key or way_to_write(ranges, table, config.delete_mode) in _EXAMINED
    tables.append(Destination(table, last_only=not every, keeps_deletes=is_soft))
    return work.tables.write_files(spark, work.writers, ranges, tables)


def _is_bulk(work: TableWork) -> bool:
    """Whether the log has none of the changes, and they are counted while they are decoded."""
    ranges = work.topic_range
    return not work.is_counted and ranges.from_kafka == dict(ranges.partitions)


def _append_every(
    spark: SparkSession,
    config: SinkConfig,
    work: TableWork,
    table: LakeTable,
    cut: CutPoint,
    written: Mapping[str, WrittenFiles],
) -> None:
    """Append every change to a table of changes, with the deletes of rows that the source lost."""
    if table.path in written:
        written[table.path].append(spark, Once(once_in(config, table, ""), cut.batch), None)
        return
    changes, check = _counted(work, table)
    if table is work.changes_table and _loses_rows(work):
        gone = _gone(spark, work, cut)
        changes = changes.unionByName(gone, allowMissingColumns=True)
    append_changes(config, work.tables, table, changes, cut.batch, check)


def _loses_rows(work: TableWork) -> bool:
    """Whether rows of the mirror may be missing from a whole table."""
    return work.topic_range.is_whole and not work.table.is_new


def _gone(spark: SparkSession, work: TableWork, cut: CutPoint) -> DataFrame:
    """Deletes of the rows that are missing from a whole table.

    They are the lake's, and those that came earlier in the batch.
    """
    table, ranges = work.table, work.topic_range
    rows = rows_there(spark, work.tables, table)
    if not ranges.is_only_whole:
        newest = latest_changes(changes_of(work, table), table, large_columns(table))
        came = newest.where(f"{OPERATION} <> 'd'").select(*rows.columns)
        rows = without_keys(rows, newest, table).unionByName(came)
    left = without_keys(rows, changes_of(work, table, ranges.whole_from), table)
    return deletes_of(left, table, cut)


def rows_there(spark: SparkSession, tables: TableWriter, table: LakeTable) -> DataFrame:
    """Return the rows of a mirror that the source has."""
    rows = tables.rows(spark, table.path)
    return rows.where(f"{OPERATION} <> 'd' AND {own_rows(table)}")


def _write_mirror(
    spark: SparkSession,
    config: SinkConfig,
    work: TableWork,
    cut: CutPoint,
    written: WrittenFiles | None,
) -> None:
    table, ranges = work.table, work.topic_range
    way = way_to_write(ranges, table, config.delete_mode)
    if way is Write.APPEND and work.repeats_keys:
        way = Write.APPEND_LATEST if table.is_new else Write.MERGE
    once = Once(once_in(config, table, ""), cut.batch)
    if way in _EXAMINED:
        examine = _examination(way, table, written)
        try:
            if written is not None:
                written.append(spark, once, examine)
            else:
                _append_all(config, work, cut, examine)
        except AppendRefused:
            way = Write.APPEND_LATEST if table.is_new else Write.MERGE
        else:
            return
    whole_at = cut.lsn if ranges.is_whole else None
    known = None if written is None else latest_in(spark, written, table)
    if known is not None and way is Write.MERGE:
        merge_latest(spark, config, work.tables, table, ranges, known, whole_at)
        return
    if known is not None and written is not None and not written.lacking:
        written.append(spark, once, None)
        return
    is_local = config.fits_driver(ranges.count, ranges.bytes)
    if way is Write.MERGE and is_local and whole_at is None and work.messages is not None:
        messages = work.messages["value"]
        every = work.writers, work.other_writers
        if merge_messages(spark, config, work.tables, table, ranges, messages, *every):
            return
    changes, check = _unreduced(spark, work, written)
    reduced = latest_changes(changes, table, large_columns(table))
    if way is Write.APPEND_LATEST:
        if config.delete_mode is DeleteMode.HARD:
            reduced = reduced.where(f"{OPERATION} <> 'd'")
        append_changes(config, work.tables, table, reduced, cut.batch, check)
        return
    merge_changes(
        spark, config, work.tables, table, ranges, reduced, whole_at, check, is_local=is_local
    )


def _append_all(
    config: SinkConfig, work: TableWork, cut: CutPoint, examine: Examine | None
) -> None:
    changes, check = _counted(work, work.table, work.topic_range.whole_from)
    append_changes(config, work.tables, work.table, changes, cut.batch, check, examine=examine)


def _unreduced(spark: SparkSession, work: TableWork, written: WrittenFiles | None) -> Counted:
    """Return changes that may have a key twice."""
    if written is not None and not large_columns(work.table):
        return written.changes(spark, work.table), None
    if written is not None:
        _log.info("decoded_by_spark", topic=work.topic_range.topic, reason=_REPEATED)
    # Changes before a whole table are older than it, so they are not applied.
    return _counted(work, work.table, work.topic_range.whole_from)


def _examination(way: Write, table: LakeTable, written: WrittenFiles | None) -> Examine | None:
    """Return what an append must pass before its commit; None: nothing."""
    checks = () if way is Write.APPEND and table.is_new else _EXAMINED[way]
    if require_distinct_keys in checks and written is not None and written.has_distinct(table.key):
        checks = tuple(check for check in checks if check is not require_distinct_keys)

    def examine(added: Added) -> None:
        for check in checks:
            check(table, added)

    return examine if checks else None


Counted = tuple[DataFrame, Check | None]
"""Changes, and a check that compares them with the ledger once they were read."""


def _counted(
    work: TableWork, table: LakeTable, from_offsets: Mapping[int, int] | None = None
) -> Counted:
    """Return the changes of the cut, to be compared with the ledger."""
    changes, check = _decoded(work, table, from_offsets), None
    if not work.is_counted:
        changes, check = counted_in_passing(changes, work.topic_range)
    return changes, check


def changes_of(
    work: TableWork, table: LakeTable, from_offsets: Mapping[int, int] | None = None
) -> DataFrame:
    """Decode the changes of the cut, without counting them."""
    return _decoded(work, table, from_offsets)


def _decoded(
    work: TableWork, table: LakeTable, from_offsets: Mapping[int, int] | None
) -> DataFrame:
    values = work.values()
    if from_offsets and not work.topic_range.is_only_whole:
        before = [f"(partition = {p} AND offset < {first})" for p, first in from_offsets.items()]
        values = values.where(f"NOT ({' OR '.join(before)})")
    return change_rows(values, table, work.writers, work.other_writers)


def once_in(config: SinkConfig, table: LakeTable, purpose: str) -> str:
    """Return the scope of the batch ids with which a source writes to a table.

    Args:
        purpose: distinguishes several writes of one batch to one table.
    """
    origin = "" if table.origin is None else f"-of-{table.origin.path}"
    return f"{sink_scope(config.prefix)}{purpose}{origin}"


def append_changes(
    config: SinkConfig,
    tables: TableWriter,
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
    once = Once(once_in(config, table, purpose), batch)
    tables.append(rows, table.path, once, check, examine)
