"""A cut: all lake tables at one LSN of the source.

A cut consists of the tables at the versions of a commit row, and of the log's tail. The tail has
the changes after that row, up to the cut. Readers of the bare tables lag by up to one fold. While a
batch is applied they may see two cuts.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import structlog
from pyspark.sql import DataFrame, SparkSession

from tailrace_schemas.topics.topic_names import TableName
from tailrace_sink.fold.table_batch import TableBatch
from tailrace_sink.log.log_table import LogTable
from tailrace_sink.plan.sink_state import CutPoint
from tailrace_sink.ports.table_format import TableReader
from tailrace_sink.reading.cut_errors import CutUnknown
from tailrace_sink.reading.cut_reading import CutReading
from tailrace_sink.reading.cut_tables import CutTables
from tailrace_sink.reading.kept_cuts import require_kept
from tailrace_sink.reading.log_tail import Tail
from tailrace_sink.reading.tail_rows import history_with_tail, with_tail
from tailrace_sink.reading.tail_table import TableRows
from tailrace_sink.tables.lake_table import (
    CHANGED,
    Kind,
    LakeTable,
    quote,
    table_path,
)
from tailrace_sink.tables.origins import ORIGIN, from_source, not_from

_VIEWS: Final = "tailrace.views"
"""Setting of a session with the lake, prefix and name of each view that was created in it."""

_log = structlog.get_logger("tailrace.sink")


@dataclass(frozen=True, slots=True)
class Cut(CutReading[DataFrame]):
    """The lake at one LSN of the source.

    Attributes:
        reader: reads the lake's tables.
        at: where the rows of each table are.
        tail: the events of the log that the tables lack; None if there are none.
    """

    spark: SparkSession
    lake: str
    reader: TableReader
    at: CutTables
    tail: Tail | None = None

    @property
    def closed_lsn(self) -> str:
        """The cut has every change up to this LSN and none after it."""
        return self.at.closed_lsn

    @property
    def id(self) -> str:
        """The id of this very cut: its LSN, ``@`` and a batch of the log.

        Every point takes it in the place of an LSN, which may have several cuts. Reads the log.
        """
        return self.at.id_in(LogTable.of_lake(self.spark, f"{self.lake}/_tailrace/log"))

    @property
    def closed_commit_time(self) -> datetime | None:
        """When the source committed that LSN; None if it has committed nothing yet.

        Without a zone, in that of the process, like PySpark's timestamps.
        """
        committed = self.at.closed_commit_ms
        return None if committed is None else datetime.fromtimestamp(committed / 1000)  # noqa: DTZ006

    @property
    def versions(self) -> Mapping[str, int]:
        """Path below the lake to the version of each table."""
        return self.at.versions

    @property
    def tables(self) -> list[TableName]:
        """Tables in the cut, without append-only companions."""
        return self.at.tables

    def read(
        self, table: TableName | str, *, is_changes: bool = False, is_history: bool = False
    ) -> DataFrame:
        """Read one table of this cut.

        Args:
            table: ``"dbo.orders"``, in any case; or with the database first. The name of one of
                several sources of a lake table selects its rows.
            is_changes: whether to read its append-only companion instead.
            is_history: whether to read its validity intervals instead.

        Raises:
            CutForgotten: the sink has removed what the cut needs.
            CutUnknown: the table is not in this cut (lists near names), or a bad record or a schema
                change in the tail will stop it.
        """
        require_kept(self.spark, self.lake, self.at.batch)
        return self._selected(table, is_changes=is_changes, is_history=is_history)

    def _folded(self, table: TableName, kind: Kind, version: int) -> _Folded:
        path = table_path(table, kind)
        return _Folded(self, table, path, version, self.reader.rows(self.spark, path, version))

    def _only(self, rows: DataFrame, source: TableName) -> DataFrame:
        return rows.where(from_source(source)).drop(*ORIGIN)

    def _without(self, rows: DataFrame, sources: Sequence[TableName]) -> DataFrame:
        others = not_from(sources)
        return rows if others is None else rows.where(others)

    def _with_changes(
        self,
        base: TableRows[DataFrame] | None,
        batch: TableBatch,
        values: DataFrame,
        deletes: str,
        kind: Kind,
    ) -> TableRows[DataFrame]:
        return with_tail(base, batch, values, deletes, self.closed_lsn, kind)

    def _with_intervals(
        self,
        base: TableRows[DataFrame],
        batch: TableBatch,
        values: DataFrame,
        rows: DataFrame | None,
        cut: CutPoint,
    ) -> TableRows[DataFrame]:
        return history_with_tail(base, batch, values, rows, cut)

    def create_views(self, prefix: str = "") -> dict[TableName, str]:
        """Create temporary views of all tables of this cut, for SQL.

        A call with the same prefix on another cut of this lake replaces all views. It drops those
        of tables that are not in the other cut. So no join reads two cuts.

        Args:
            prefix: of all names, before schema, underscore and table.

        Returns:
            The name of each table's view. If several would have the same name (``a_b.c`` and
            ``a.b_c``), each has a number at its end.
        """
        frames: dict[str, DataFrame] = {}
        views = {}
        for table, name in _view_names(prefix, self.tables).items():
            try:
                frames[name] = self.read(table)
            except CutUnknown as error:
                _log.warning("table_not_in_cut", table=str(table), reason=str(error))
                continue
            views[table] = name
        known = json.loads(self.spark.conf.get(_VIEWS, None) or "{}")
        ours = [name for name, made_by in known.items() if made_by == [self.lake, prefix]]
        for name in [*ours, *frames]:
            self.spark.catalog.dropTempView(name)
            known.pop(name, None)
        for name, rows in frames.items():
            rows.createOrReplaceTempView(quote(name))
            known[name] = [self.lake, prefix]
        self.spark.conf.set(_VIEWS, json.dumps(known))
        return views


@dataclass(frozen=True, slots=True)
class _Folded:
    """A lake table at the version of a commit row."""

    cut: Cut
    table: TableName
    path: str
    version: int
    rows: DataFrame

    @property
    def has_changed_columns(self) -> bool:
        return CHANGED in self.rows.columns

    def described(self, kind: Kind) -> LakeTable:
        known = self.cut.reader.described(self.cut.spark, self.table, kind, self.version)
        if known is None:
            raise CutUnknown(f"table {self.table} is gone from {self.cut.lake}/{self.path}")
        return known


def _view_names(prefix: str, tables: Sequence[TableName]) -> dict[TableName, str]:
    """Choose names that differ regardless of case, as Spark ignores it."""
    names = {table: f"{prefix}{table.schema}_{table.table}" for table in tables}
    shared = Counter(name.casefold() for name in names.values())
    met: Counter[str] = Counter()
    for table, name in names.items():
        folded = name.casefold()
        if shared[folded] > 1:
            met[folded] += 1
            names[table] = f"{name}_{met[folded]}"
    return names
