"""The ``.history`` table of a mirror: the validity intervals of its rows (SCD type 2).

A batch closes intervals and opens others in one commit, which takes effect once for its id. So a
replay changes nothing. An older sink changes nothing either: its successor has finished the batch
before any later one, and an older batch is skipped.

The table is partitioned by whether an interval is current. A batch reads only current rows, which
are as many as the mirror's, however long the history is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from tailrace_sink.errors import AppendSkipped
from tailrace_sink.fold.apply import TableWork, changes_of, once_in, rows_there
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.plan.sink_state import CutPoint
from tailrace_sink.ports.table_format import TableWriter
from tailrace_sink.ports.writes import Once
from tailrace_sink.rows.intervals import (
    KNOWN,
    compared_columns,
    intervals,
    known_rows,
    without_gone,
)
from tailrace_sink.rows.last_change import large_columns
from tailrace_sink.rows.lost_rows import as_read
from tailrace_sink.rows.mirror_statements import same_key
from tailrace_sink.tables.lake_table import (
    CURRENT,
    POSITION,
    VALID_TO,
    VALID_TO_LSN,
    LakeTable,
    quote,
)
from tailrace_sink.tables.origins import own_rows

_VIEW: Final = "_tailrace_intervals"


@dataclass(frozen=True, slots=True)
class History:
    """The history table of one source table, and the mirror that it follows."""

    config: SinkConfig
    tables: TableWriter
    table: LakeTable
    mirror: LakeTable

    def start(self, spark: SparkSession, after: CutPoint, batch: int, purpose: str) -> None:
        """Start with the rows that the mirror had at the previous cut, once per batch id.

        If the table has earlier rows, those that changed or left since are closed at that cut.
        """
        rows = rows_there(spark, self.tables, self.mirror)
        self._update(spark, as_read(rows, self.mirror, after), rows, after, batch, purpose)

    def build(
        self, spark: SparkSession, changes: DataFrame, after: CutPoint, batch: int, purpose: str
    ) -> None:
        """Start with the rows of an old cut and all changes since, once per batch id."""
        self._update(spark, changes, None, after, batch, purpose)

    def follow(self, spark: SparkSession, work: TableWork, cut: CutPoint) -> None:
        """Apply a batch's changes once the mirror is written, once per batch id."""
        rows = None
        if work.topic_range.is_whole:
            rows = rows_there(spark, self.tables, self.mirror)
        changes = changes_of(work, self.table)
        small = self.config.fits_driver(work.topic_range.count, work.topic_range.bytes)
        is_local = small and rows is None
        self._update(spark, changes, rows, cut, cut.batch, "-history", is_local=is_local)

    def close_gone(self, spark: SparkSession, cut: CutPoint) -> None:
        """Close the intervals of rows that the mirror no longer has, once per batch id."""
        rows = rows_there(spark, self.tables, self.mirror)
        self._update(spark, None, rows, cut, cut.batch, "-history-gone")

    def _update(
        self,
        spark: SparkSession,
        changes: DataFrame | None,
        rows: DataFrame | None,
        cut: CutPoint,
        batch: int,
        purpose: str,
        *,
        is_local: bool = False,
    ) -> None:
        """Write the intervals that changes open and close.

        Args:
            rows: all rows that the source has after the changes; None if that is not known.
        """
        once = Once(once_in(self.config, self.table, purpose), batch)
        found = self.tables.done(spark, self.table.path, once)
        if found is not None:
            if found > batch:
                raise AppendSkipped(self.table.path, batch, found)
            return
        names = [column.name for column in self.table.columns]
        there = self.tables.rows(spark, self.table.path).where(own_rows(self.table))
        known = known_rows(there, names)
        if changes is None:
            changes = known.where("false")
        if rows is None:
            keys = changes.select(*map(quote, self.table.key)).distinct().alias("keys")
            same = F.expr(" AND ".join(same_key(self.table, "known", "keys")))
            few = F.broadcast(keys) if is_local else keys
            known = known.alias("known").join(few, same, "left_semi")
        every = known.unionByName(
            changes.withColumn(KNOWN, F.expr("false")), allowMissingColumns=True
        )
        after = intervals(
            every, compared_columns(self.table), self.table.key, large_columns(self.table)
        )
        if rows is not None:
            after = without_gone(after, rows, self.table, cut)
        changed = after.where(f"NOT ({KNOWN} AND {CURRENT})")
        columns = [*names, *self.table.cdc_columns, KNOWN]
        with _held(spark, changed.select(*map(quote, columns)), is_local=is_local) as held:
            self._write(spark, held, once)

    def _write(self, spark: SparkSession, rows: DataFrame, once: Once) -> None:
        path = self.table.path
        if not rows.where(KNOWN).limit(1).collect():
            self.tables.append(rows.drop(KNOWN), path, once)
            return
        rows.createOrReplaceTempView(_VIEW)
        self.tables.run(spark, path, _statement(self.tables.name(path), self.table), once)


def _statement(name: str, table: LakeTable) -> str:
    """Build the MERGE that closes known intervals and inserts new ones."""
    same = " AND ".join(same_key(table, "t", "s"))
    names = ", ".join(quote(n) for n in [*(c.name for c in table.columns), *table.cdc_columns])
    values = ", ".join(
        f"s.{quote(n)}" for n in [*(c.name for c in table.columns), *table.cdc_columns]
    )
    return (
        f"MERGE INTO {name} t USING {_VIEW} s ON t.{CURRENT} AND s.{KNOWN}"
        f" AND t.{POSITION} = s.{POSITION} AND {same} WHEN MATCHED THEN UPDATE SET"
        f" t.{VALID_TO_LSN} = s.{VALID_TO_LSN}, t.{VALID_TO} = s.{VALID_TO}, t.{CURRENT} = false"
        f" WHEN NOT MATCHED AND NOT s.{KNOWN} THEN INSERT ({names}) VALUES ({values})"
    )


@contextmanager
def _held(spark: SparkSession, rows: DataFrame, *, is_local: bool) -> Iterator[DataFrame]:
    """Hold rows that are read several times."""
    if is_local:
        yield spark.createDataFrame(rows.toArrow(), rows.schema)
        return
    rows.persist()
    try:
        yield rows
    finally:
        rows.unpersist()
