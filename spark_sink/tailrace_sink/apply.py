"""Applying one table's changes: MERGE guarded by position, or an idempotent append.

The guard (a change is applied only over an older position) makes a replayed MERGE a no-op that does
not even write a commit. Appends carry the batch id as Delta's transaction version, which proves a
write done only when the replay is the same batch (``intent``). It goes by writer options: as
session settings they would outlive the write and silently drop the next one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from tailrace_schemas.lsn import Lsn
from tailrace_schemas.position import ChangePosition
from tailrace_sink.config import DeleteMode, SinkConfig
from tailrace_sink.decode import WriterSchema, change_rows, within_cut
from tailrace_sink.lake_table import (
    CDC_COLUMNS,
    LSN,
    OPERATION,
    POSITION,
    LakeTable,
    literal,
    quote,
)
from tailrace_sink.latest import available_flag, large_columns, latest_changes
from tailrace_sink.topic_ranges import TopicRange

_VIEW = "_tailrace_latest"


@dataclass(frozen=True, slots=True)
class TableWork:
    """What one batch means for one source table.

    Attributes:
        table: its lake table, columns as they are after this batch's DDL.
        changes_table: its append-only companion, or None.
        writers: the writer schemas of its changes.
        other_writers: writer schemas of other tables in the same topic.
        topic_range: the offsets to read.
        values: the messages, as the ledger counts them.
    """

    table: LakeTable
    changes_table: LakeTable | None
    writers: tuple[WriterSchema, ...]
    other_writers: tuple[WriterSchema, ...]
    topic_range: TopicRange
    values: DataFrame


def apply_changes(
    spark: SparkSession, config: SinkConfig, work: TableWork, batch: int, cut: str
) -> None:
    """Bring the lake tables of one source table to the cut.

    Args:
        spark: a session of this thread's own (its temporary view and settings are its own).
        config: the options.
        work: what to apply.
        batch: the batch id.
        cut: the LSN that it leads to.
    """
    if work.table.key:
        # What stands before a whole table is older than it: the whole replaces it.
        changes = _changes(work, work.table, work.topic_range.whole_from)
        whole_at = cut if work.topic_range.is_whole else None
        merge_changes(spark, config, work.table, changes, whole_at)
    else:
        append_changes(config, work.table, _changes(work, work.table), batch)
    if work.changes_table is not None:
        append_changes(config, work.changes_table, _changes(work, work.changes_table), batch)


def _changes(
    work: TableWork, table: LakeTable, from_offsets: Mapping[int, int] | None = None
) -> DataFrame:
    values = work.values
    if from_offsets:
        before = [f"(partition = {p} AND offset < {first})" for p, first in from_offsets.items()]
        values = values.where(f"NOT ({' OR '.join(before)})")
    changes = change_rows(values, table, work.writers, work.other_writers)
    return within_cut(changes, work.topic_range.after_lsn, work.topic_range.up_to_lsn)


def merge_changes(
    spark: SparkSession,
    config: SinkConfig,
    table: LakeTable,
    changes: DataFrame,
    whole_at: str | None = None,
) -> None:
    """MERGE the last change of each key into the lake table.

    Args:
        spark: a session of this thread's own.
        config: the options.
        table: the lake table.
        changes: its changes.
        whole_at: LSN of the cut when the changes hold every row of the source table.
    """
    large = large_columns(table)
    latest_changes(changes, table, large).createOrReplaceTempView(_VIEW)
    location = f"{config.lake}/{table.path}"
    spark.sql(merge_statement(location, _VIEW, table, large, config.delete_mode, whole_at))


def append_changes(config: SinkConfig, table: LakeTable, changes: DataFrame, batch: int) -> None:
    """Append every change, once per batch id."""
    names = [*(column.name for column in table.columns), *table.cdc_columns]
    (
        changes.select(*map(quote, names))
        .write.format("delta")
        .mode("append")
        .option("txnAppId", f"tailrace-sink-{config.prefix}")
        .option("txnVersion", batch)
        .save(f"{config.lake}/{table.path}")
    )


def merge_statement(
    location: str,
    view: str,
    table: LakeTable,
    large: Sequence[str],
    delete_mode: DeleteMode,
    whole_at: str | None = None,
) -> str:
    """The MERGE of a view of last changes into a keyed table, with explicit columns.

    Keys compare null-safe: a unique index may hold a NULL. Where the changes hold the whole table,
    a row that they do not have was deleted while nobody looked.
    """
    flags = {name: available_flag(index) for index, name in enumerate(large)}
    matched = " AND ".join(f"t.{quote(name)} <=> s.{quote(name)}" for name in table.key)
    newer = f"(t.{POSITION} IS NULL OR s.{POSITION} > t.{POSITION})"
    assignments = []
    for name in [*(c.name for c in table.columns if not c.key_ordinal), *CDC_COLUMNS]:
        column = quote(name)
        value = f"s.{column}"
        if name in flags:
            value = f"CASE WHEN s.{flags[name]} THEN s.{column} ELSE t.{column} END"
        assignments.append(f"t.{column} = {value}")
    names = [quote(name) for name in [*(c.name for c in table.columns), *CDC_COLUMNS]]
    inserted = f"({', '.join(names)}) VALUES ({', '.join(f's.{name}' for name in names)})"
    update = f"WHEN MATCHED AND {newer} THEN UPDATE SET {', '.join(assignments)}"
    if delete_mode is DeleteMode.SOFT:
        clauses = [update, f"WHEN NOT MATCHED THEN INSERT {inserted}"]
    else:
        clauses = [
            f"WHEN MATCHED AND s.{OPERATION} = 'd' AND {newer} THEN DELETE",
            update,
            f"WHEN NOT MATCHED AND s.{OPERATION} <> 'd' THEN INSERT {inserted}",
        ]
    if whole_at is not None:
        gone = "THEN DELETE"
        if delete_mode is DeleteMode.SOFT:
            gone = f"AND t.{OPERATION} <> 'd' THEN UPDATE SET {_soft_delete(whole_at)}"
        clauses.append(f"WHEN NOT MATCHED BY SOURCE {gone}")
    return f"MERGE INTO delta.{quote(location)} t USING {view} s ON {matched} {' '.join(clauses)}"


def empty_statement(config: SinkConfig, table: LakeTable, cut: str) -> str:
    """The statement that takes every row out of a keyed table, as its deletes would have."""
    location = f"delta.{quote(f'{config.lake}/{table.path}')}"
    if config.delete_mode is DeleteMode.HARD:
        return f"DELETE FROM {location}"
    return f"UPDATE {location} SET {_soft_delete(cut)} WHERE {OPERATION} <> 'd'"


def _soft_delete(cut: str) -> str:
    """Assignments for a row that the source no longer has; when it left is not known."""
    position = ChangePosition.of_snapshot(Lsn.parse(cut)).to_bytes().hex()
    return f"{OPERATION} = 'd', {LSN} = {literal(cut)}, {POSITION} = X'{position}'"
