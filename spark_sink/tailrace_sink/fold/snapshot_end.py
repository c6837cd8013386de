"""End of a snapshot that was applied in parts: rows that it lacks are deleted.

Everything since the record that named the table is the whole table. Each row came by the snapshot
or by a change since then, with an LSN from the naming on. So the source has lost every row of an
older LSN. On an idle database snapshot rows may have exactly the LSN of the naming. Keys of rows
with that LSN are compared with those that came.

A table that had no rows before has none that is older.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from tailrace_sink.fold.apply import append_changes
from tailrace_sink.fold.doubled_keys import leave_one_row_each
from tailrace_sink.fold.table_batch import TableBatch
from tailrace_sink.log.events import Events
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.options.modes import DeleteMode
from tailrace_sink.plan.sink_state import CutPoint
from tailrace_sink.ports.table_format import TableWriter
from tailrace_sink.rows.decode import change_rows
from tailrace_sink.rows.lost_rows import deletes_of, without_keys
from tailrace_sink.rows.mirror_statements import empty_statement, same_key, soft_delete
from tailrace_sink.tables.lake_table import LSN, OPERATION, LakeTable, literal, quote
from tailrace_sink.tables.origins import own_rows

_KEYS = "_tailrace_keys"


def finish(
    spark: SparkSession,
    config: SinkConfig,
    tables: TableWriter,
    events: Events,
    source: TableBatch,
    table: LakeTable,
    changes_table: LakeTable | None,
    cut: CutPoint,
) -> None:
    """Delete the rows of a mirror that a snapshot in parts lacks. Idempotent.

    Args:
        spark: used by this thread only.
        source: the last part, already applied.
        table: the mirror that loses the rows.
        changes_table: gets a delete of each row, unless it is None.

    Raises:
        PySparkException, Py4JError: Spark failed, or Kafka has lost keys that must be compared.
    """
    whole = source.topic_range.finishes
    if whole is None or not table.key:
        return
    leave_one_row_each(spark, tables, table)
    if whole.into_empty:
        return
    name = tables.name(table.path)
    since = literal(whole.since_lsn)
    older = f"({LSN} IS NULL OR {LSN} < {since})"
    there = f"{OPERATION} <> 'd'"
    rows = tables.rows(spark, table.path).where(own_rows(table))
    keys = None
    if rows.where(f"{LSN} = {since} AND {there}").limit(1).collect():
        keys = _keys(spark, events, source, table)
    if changes_table is not None:
        gone = rows.where(f"{older} AND {there}")
        if keys is not None:
            gone = gone.unionByName(
                without_keys(rows.where(f"{LSN} = {since} AND {there}"), keys, table)
            )
        deletes = deletes_of(gone, table, cut)
        append_changes(config, tables, changes_table, deletes, cut.batch, purpose="-gone")
    statement = empty_statement(name, table, config.delete_mode, cut.lsn, older)
    tables.run(spark, table.path, statement)
    if keys is not None:
        keys.createOrReplaceTempView(_KEYS)
        same_lsn = f"t.{LSN} = {since} AND {own_rows(table, 't')}"
        statement = _without_keys_statement(name, config, table, cut.lsn, same_lsn)
        tables.run(spark, table.path, statement)


def _keys(spark: SparkSession, events: Events, source: TableBatch, table: LakeTable) -> DataFrame:
    """Keys of all events since the naming."""
    whole = source.topic_range.finishes
    if whole is None:
        raise ValueError("nothing is finished here")
    changes = change_rows(events.many(spark, whole), table, source.writers, source.other_writers)
    return changes.select(*map(quote, table.key)).distinct()


def _without_keys_statement(
    name: str, config: SinkConfig, table: LakeTable, cut: str, condition: str
) -> str:
    same = " AND ".join(same_key(table, "t", "s"))
    gone = f"AND {condition} THEN DELETE"
    if config.delete_mode is DeleteMode.SOFT:
        gone = f"AND {condition} AND t.{OPERATION} <> 'd' THEN UPDATE SET {soft_delete(cut)}"
    return f"MERGE INTO {name} t USING {_KEYS} s ON {same} WHEN NOT MATCHED BY SOURCE {gone}"
