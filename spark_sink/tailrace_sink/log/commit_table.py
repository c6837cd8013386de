"""The commit table: one row per batch, the only source of start positions.

A row is written after every table of the batch. After a crash before that, the same batch
(``intent``) is applied again; the position guard and Delta's transaction versions make this
harmless. ``tables`` has the version of each table. A reader of these versions sees one LSN of the
source in all tables.

It is a plain Delta table (no deletion vectors, no column mapping), which every reader can open.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from pyspark.sql import Row, SparkSession

from tailrace_sink.delta.append_once import append_version
from tailrace_sink.delta.classes import has_delta_log
from tailrace_sink.delta.file_log import (
    table_bytes,
    table_metadata,
    table_version,
    transaction_version,
)
from tailrace_sink.log.batch_rows import rows_of_batch, rows_with
from tailrace_sink.plan.scopes import COMMITS
from tailrace_sink.plan.sink_state import SinkState
from tailrace_sink.plan.state_json import held_json, position_json, state_of_row
from tailrace_sink.tables.lake_table import literal, properties_ddl, quote
from tailrace_sink.tables.schema_record import Change

COMPACT_EVERY: Final = 100
"""Commit rows between compactions: each row is a file, and listing thousands takes seconds."""

_LARGE_FILE: Final = 4 * 1024 * 1024
"""Size from which a compaction leaves a file as it is: else each would write the whole history."""
_PROPERTIES: Final[Mapping[str, str]] = {
    # By default every tenth commit writes a checkpoint, and takes 1 s longer (measured).
    "delta.checkpointInterval": "100",
    # Nobody reads older versions of the table: the newest has all rows.
    "delta.logRetentionDuration": "interval 1 days",
    "delta.deletedFileRetentionDuration": "interval 1 days",
    "delta.autoOptimize.autoCompact": "false",
}
_COLUMNS: Final = (
    ("batch", "BIGINT", "Grows with every cut: the offset after its last progress record"),
    ("through_lsn", "STRING", "The source LSN that all tables stand at"),
    ("through_commit_time", "TIMESTAMP", "When the source committed that LSN"),
    ("committed_at", "TIMESTAMP", "When this row was written"),
    ("rows", "BIGINT", "Changes in this cut, by the ledger"),
    ("tables", "MAP<STRING, BIGINT>", "Path below the lake to the version of each table"),
    ("offsets", "STRING", "JSON: topic, partition, next offset"),
    ("progress", "STRING", "JSON: place in the progress topic, closed LSN"),
    ("held", "STRING", "JSON: topics of unfinished snapshots with the offsets that wait"),
    ("stopped", "STRING", "JSON: topics of tables that the lake cannot follow, and why"),
    (
        "schema_changes",
        "STRING",
        "JSON: changes of columns in this cut, with table and schema mode",
    ),
    (
        "homes",
        "STRING",
        "JSON: path of each source table whose rows are in a table with others, to its path",
    ),
    ("left_out", "STRING", "JSON: those of these source tables whose rows are not at that LSN"),
    ("server", "STRING", "Logical name of the source server"),
    ("database", "STRING", "The source database"),
)


class CommitTable:
    """The commit table of one lake."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._spark = spark
        self._path = path
        self._name = f"delta.{quote(path)}"

    def ensure(self) -> None:
        """Create the table if there is none; add columns that an earlier release did not have."""
        if self.version() < 0:
            self._spark.sql(
                f"CREATE TABLE IF NOT EXISTS {self._name} ({_listed(_COLUMNS)}) USING delta"
                f" TBLPROPERTIES ({properties_ddl(_PROPERTIES)})"
            )
            return
        known = table_metadata(self._spark, self._path)
        if known is None:
            return
        missing = [column for column in _COLUMNS if column[0] not in known.schema.names]
        if missing:
            self._spark.sql(f"ALTER TABLE {self._name} ADD COLUMNS ({_listed(missing)})")
        if not _PROPERTIES.items() <= known.properties.items():
            properties = properties_ddl(_PROPERTIES)
            self._spark.sql(f"ALTER TABLE {self._name} SET TBLPROPERTIES ({properties})")

    def version(self) -> int:
        """Delta version of the table; -1 if there is none."""
        return table_version(self._spark, self._path)

    def last(self) -> SinkState:
        """Return the state after the newest batch; an empty state without one."""
        found = newest_commit(self._spark, self._path)
        return SinkState() if found is None else state_of_row(found.asDict())

    def append(
        self, state: SinkState, rows: int, now_s: float, schema_changes: Sequence[Change] = ()
    ) -> None:
        """Write the row of a batch.

        Args:
            now_s: the present time, seconds since 1970.
        """
        # Literals, because Delta's SQL parser leaves named parameters unbound (Spark 4.1.1).
        tables = literal(json.dumps(dict(state.versions)))
        left_out = sorted(table.path for found in state.left_out.values() for table in found)
        commit_ms = "NULL" if state.closed_commit_ms is None else str(state.closed_commit_ms)
        values = {
            "batch": f"CAST({state.batch} AS BIGINT)",
            "through_lsn": literal(state.closed_lsn),
            "through_commit_time": f"timestamp_millis(CAST({commit_ms} AS BIGINT))",
            "committed_at": f"timestamp_millis({round(now_s * 1000)}L)",
            "rows": f"CAST({rows} AS BIGINT)",
            "tables": f"from_json({tables}, 'MAP<STRING, BIGINT>')",
            "offsets": literal(json.dumps(state.offsets)),
            "progress": literal(json.dumps(position_json(state.position))),
            "held": literal(json.dumps(held_json(state.held))),
            "stopped": literal(json.dumps(dict(state.stopped))),
            "schema_changes": literal(json.dumps(list(schema_changes), ensure_ascii=False)),
            "homes": literal(json.dumps(dict(state.homes))),
            "left_out": literal(json.dumps(left_out)),
            "server": literal(state.server),
            "database": literal(state.database),
        }
        listed = ", ".join(f"{value} AS {name}" for name, value in values.items())
        row = self._spark.sql(f"SELECT {listed}")  # written by name, in any order of columns
        # A sink that was replaced and does not know it may finish the same batch as its successor.
        append_version(row, self._path, COMMITS, state.batch)

    def times(self) -> list[tuple[int, int]]:
        """Read the batch of each row, and when it was committed, in milliseconds."""
        rows = self._spark.read.format("delta").load(self._path)
        found = rows.selectExpr("batch", "unix_millis(committed_at) AS at").toArrow()
        return list(zip(found["batch"].to_pylist(), found["at"].to_pylist(), strict=True))

    def state_of(self, batch: int) -> SinkState | None:
        """Read the row of one batch; None if there is none."""
        row = rows_of_batch(self._spark, self._path, batch).first()
        return None if row is None else state_of_row(row.asDict())

    def has_earlier(self, lsn: str, batch: int) -> bool:
        """Whether an earlier row than that of a batch has the same closed LSN."""
        rows = rows_with(self._spark, self._path, "through_lsn", lsn)
        return not rows.where(f"batch < {batch}").isEmpty()

    def forget(self, before_batch: int) -> None:
        """Delete the rows before a batch."""
        self._spark.sql(f"DELETE FROM {self._name} WHERE batch < {before_batch}")

    def compact(self) -> None:
        """Combine small files."""
        self._spark.conf.set("spark.databricks.delta.optimize.minFileSize", str(_LARGE_FILE))
        self._spark.sql(f"OPTIMIZE {self._name}")


def newest_commit(spark: SparkSession, path: str) -> Row | None:
    """Read the newest row of a commit table, from its own file; None without a row."""
    if has_delta_log(spark):
        batch = transaction_version(spark, path, COMMITS)
        if batch is None and not table_bytes(spark, path):
            return None  # a new lake: reading its empty table would take a job
        found = None if batch is None else rows_of_batch(spark, path, batch).first()
        if found is not None:
            return found
    # An earlier release wrote it, or it was restored to an older version.
    rows = spark.read.format("delta").load(path)
    return rows.orderBy(rows["batch"].desc()).first()


def _listed(columns: Iterable[tuple[str, str, str]]) -> str:
    """Format columns for CREATE TABLE and ALTER TABLE."""
    return ", ".join(f"{name} {type_} COMMENT '{text}'" for name, type_, text in columns)
