"""The last changes of keys into a mirror: by an upsert, or by a MERGE if that is not enough."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial, reduce
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from tailrace_sink.columns.distinct_keys import are_distinct
from tailrace_sink.fold.doubled_keys import leave_one_row_each
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.options.modes import DeleteMode
from tailrace_sink.plan.topic_ranges import TopicRange
from tailrace_sink.ports.table_format import TableWriter
from tailrace_sink.ports.writes import Check, Latest, WrittenFiles
from tailrace_sink.rows.changes_in_memory import latest_in_memory
from tailrace_sink.rows.last_change import available_flag, large_columns
from tailrace_sink.rows.mirror_statements import merge_statement
from tailrace_sink.rows.writer_schema import WriterSchema
from tailrace_sink.tables.key_bounds import bounds_by_spark, bounds_in, conditions_of, exact_in
from tailrace_sink.tables.lake_table import OPERATION, LakeTable

_LATEST: Final = "_tailrace_latest"


def merge_changes(
    spark: SparkSession,
    config: SinkConfig,
    tables: TableWriter,
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
        merge_latest(spark, config, tables, table, ranges, latest, whole_at)


def merge_messages(
    spark: SparkSession,
    config: SinkConfig,
    tables: TableWriter,
    table: LakeTable,
    ranges: TopicRange,
    messages: pa.ChunkedArray,
    writers: Sequence[WriterSchema],
    other_writers: Sequence[WriterSchema],
) -> bool:
    """Apply the last change of each key, from messages in memory (:func:`merge_changes`).

    Returns:
        False if Spark must decode the messages; nothing is done.
    """
    rows = latest_in_memory(messages, table, writers, other_writers)
    if rows is None:
        return False
    latest = _latest_of(spark, config, table, rows)
    merge_latest(spark, config, tables, table, ranges, latest, None)
    return True


def merge_latest(
    spark: SparkSession,
    config: SinkConfig,
    tables: TableWriter,
    table: LakeTable,
    ranges: TopicRange,
    latest: Latest,
    whole_at: str | None,
) -> None:
    """Apply the last changes by an upsert, or by a MERGE (:func:`merge_changes`)."""
    if whole_at is not None:
        leave_one_row_each(spark, tables, table)
    elif not (latest.written and latest.written.lacking) and tables.upsert(spark, table, latest):
        return
    latest.rows.createOrReplaceTempView(_LATEST)
    bounds = conditions_of(latest.bounds)
    since = ranges.since_lsn if ranges.is_part else ""
    name, large, mode = tables.name(table.path), large_columns(table), config.delete_mode
    statement = merge_statement(name, _LATEST, table, large, mode, whole_at, bounds, since)
    tables.run(spark, table.path, statement, rows=latest.rows)


def latest_in(spark: SparkSession, written: WrittenFiles, table: LakeTable) -> Latest | None:
    """Describe the last changes that are in files; None if a key may be there twice."""
    keys = written.keys(table.key) if written.is_reduced else None
    if keys is None or not are_distinct(keys):
        return None
    read, bounds = partial(written.changes, spark, table), bounds_in(keys, table)
    exact = exact_in(keys, table)
    return Latest(read, bounds, keys.num_rows, None, None, exact, written)


def _latest_of(
    spark: SparkSession,
    config: SinkConfig,
    table: LakeTable,
    rows: pa.Table,
    schema: StructType | None = None,
) -> Latest:
    """Describe the last changes in memory.

    Args:
        schema: of the rows in Spark; None: that of their Arrow types.
    """
    # Spark otherwise takes a time without a zone for an instant, and its files say so.
    schema = schema or from_arrow_schema(rows.schema, prefer_timestamp_ntz=True)
    read = partial(spark.createDataFrame, rows, schema)
    lacking = _lacking(table, config.delete_mode)
    if lacking is not None and not _lacks_values(rows, table, config.delete_mode):
        lacking = None
    return Latest(read, bounds_in(rows, table), rows.num_rows, rows, lacking)


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
    if is_local:
        yield _latest_of(spark, config, table, reduced.toArrow(), reduced.schema)
        return
    reduced.persist()
    try:
        count, bounds = bounds_by_spark(reduced, table)
        yield Latest(lambda: reduced, bounds, count, None, _lacking(table, config.delete_mode))
    finally:
        reduced.unpersist()


def _lacking(table: LakeTable, delete_mode: DeleteMode) -> str | None:
    """Condition of changes that become rows but do not hold all their values; None: none does."""
    flags = [available_flag(index) for index in range(len(large_columns(table)))]
    if not flags:
        return None
    lacks = f"NOT ({' AND '.join(flags)})"
    return lacks if delete_mode is DeleteMode.SOFT else f"{OPERATION} <> 'd' AND {lacks}"


def _lacks_values(rows: pa.Table, table: LakeTable, delete_mode: DeleteMode) -> bool:
    """Whether any of some rows meets the condition ``_lacking``."""
    flags = [rows[available_flag(index)] for index in range(len(large_columns(table)))]
    lacks = pc.invert(reduce(pc.and_, flags))
    if delete_mode is not DeleteMode.SOFT:
        lacks = pc.and_(lacks, pc.not_equal(rows[OPERATION], "d"))
    return bool(pc.any(lacks).as_py())
