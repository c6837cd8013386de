"""A cut: all lake tables as they stood at one LSN of the source.

A cut is the tables at the versions that a commit row names, and the log's tail: the changes behind
that row, up to the cut. Whoever reads the bare tables is a fold behind, and may see two cuts for
the seconds in which a batch is applied.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import structlog
from pyspark.sql import DataFrame, SparkSession

from tailrace_schemas.events.column_types import UnsupportedType
from tailrace_schemas.topics.escaped_names import unescape
from tailrace_schemas.topics.topic_names import TableName
from tailrace_sink.delta.ddl import lake_table_of
from tailrace_sink.delta.file_log import table_metadata
from tailrace_sink.errors import SinkError, TableError
from tailrace_sink.reading.log_tail import Tail
from tailrace_sink.reading.tail_rows import BaseTable, with_tail
from tailrace_sink.tables.lake_table import CHANGED, CHANGES_SUFFIX, Kind, quote, table_path

_REFUSES_OLD_VERSIONS: Final = (
    "spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration"
)
_SETTING_LOCK: Final = threading.Lock()
_VIEWS: Final = "tailrace.views"
"""Setting of a session, like its views: the name of each view, with its lake and its prefix."""

_log = structlog.get_logger("tailrace.sink")


class CutUnknown(SinkError):
    """The lake has no cut at or before what was asked for, or not the table."""


@dataclass(frozen=True, slots=True)
class Cut:
    """The lake at one LSN of the source.

    Attributes:
        batch: batch id of the commit row.
        closed_lsn: every change up to this LSN is in, none after it.
        closed_commit_time: when the source committed that LSN (naive, in the process's zone, as
            PySpark gives timestamps); None when the source has committed nothing yet.
        versions: table path below the lake to its version.
        tail: what the log has beyond those versions; None when that is nothing.
    """

    spark: SparkSession
    lake: str
    batch: int
    closed_lsn: str
    closed_commit_time: datetime | None
    versions: dict[str, int]
    tail: Tail | None = None

    @property
    def tables(self) -> list[TableName]:
        """The tables in the cut, append-only companions left out."""
        paths = [path for path in self.versions if not path.endswith(CHANGES_SUFFIX)]
        found = {TableName(*map(unescape, path.split("/"))) for path in paths}
        return sorted(found | (set() if self.tail is None else self._new_in_tail(self.tail)))

    def read(self, table: TableName | str, *, is_changes: bool = False) -> DataFrame:
        """One table in this cut.

        Args:
            table: the source table, or ``database.schema.table``.
            is_changes: its append-only companion instead.

        Raises:
            CutUnknown: the table is not in this cut; a record that is no change of it, or a schema
                change that the lake cannot follow, stops it, and the fold will say so.
        """
        table = TableName.of(table)
        try:
            return self._read(table, Kind.CHANGES if is_changes else None)
        except (TableError, UnsupportedType) as error:
            raise CutUnknown(
                f"table {table} is not in the cut at LSN {self.closed_lsn}: it stops before it:"
                f" {error}"
            ) from error

    def _read(self, table: TableName, kind: Kind | None) -> DataFrame:
        """One table; without a kind, what the source table itself has become."""
        path = table_path(table, kind or Kind.MIRROR)
        version = self.versions.get(path)
        in_tail = None if self.tail is None else self.tail.tables.get(table)
        is_new = kind is None and table in self.tables
        if version is None and not is_new:
            raise CutUnknown(
                f"table {table} is not in the cut at LSN {self.closed_lsn}: its snapshot was not"
                " finished, the sink or the publisher stopped it, it is excluded, or it has no"
                " changes yet"
            )
        base = None
        if version is not None:
            rows = self._at(path, version)
            if in_tail is None or not (in_tail.writers or in_tail.is_empty):
                return rows
            metadata = table_metadata(self.spark, f"{self.lake}/{path}", version)
            if metadata is None:
                raise CutUnknown(f"table {table} is gone from {self.lake}/{path}")
            if kind is None:
                kind = Kind.EVENTS if CHANGED in rows.columns else Kind.MIRROR
            base = BaseTable(lake_table_of(table, metadata, kind), rows)
        if self.tail is None or in_tail is None:
            raise CutUnknown(f"table {table} has no rows in the cut at LSN {self.closed_lsn}")
        return with_tail(
            base,
            in_tail,
            self.tail.values(table),
            self.tail.deletes,
            self.closed_lsn,
            kind or Kind.of(in_tail.versions[0]),
        )

    def create_views(self, prefix: str = "") -> dict[TableName, str]:
        """Temporary views of all tables of this cut in the session, for SQL.

        Args:
            prefix: what their names begin with; then schema, underscore, table.

        Returns:
            The name of each table's view. A call with the same prefix on another cut of this lake
            replaces all views, and drops those of tables that are not in the other cut: no join
            reads two cuts. Where schema and table of several give one name (``a_b.c`` and
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

    def _new_in_tail(self, tail: Tail) -> set[TableName]:
        """Tables whose first rows are in the log only."""
        return {table for table, found in tail.tables.items() if found.writers}

    def _at(self, path: str, version: int) -> DataFrame:
        # Without a version Delta reads the one that is current when the DataFrame is run, not when
        # it was made. The current version costs nothing, an older one 0.3 s to rebuild (measured).
        reader = self.spark.read.format("delta").option("versionAsOf", version)
        with _time_travel_by_cuts(self.spark):
            return reader.load(f"{self.lake}/{path}")


def _view_names(prefix: str, tables: Sequence[TableName]) -> dict[TableName, str]:
    """A name for each, which no other has in any case of its letters: Spark does not tell cases."""
    names = {table: f"{prefix}{table.schema}_{table.table}" for table in tables}
    shared = Counter(name.casefold() for name in names.values())
    met: Counter[str] = Counter()
    for table, name in names.items():
        folded = name.casefold()
        if shared[folded] > 1:
            met[folded] += 1
            names[table] = f"{name}_{met[folded]}"
    return names


@contextmanager
def _time_travel_by_cuts(spark: SparkSession) -> Iterator[None]:
    """Let a version be read that is older than the tables' deleted-file retention.

    Delta refuses it by the age of its commit, though its files are kept for that long since they
    were replaced: a table that had been quiet would lose its cuts with its next change. What a
    commit row names is within the retention. Delta looks once, when a DataFrame is made; it must
    belong to the caller's session, whose setting is therefore put back.
    """
    with _SETTING_LOCK:
        before = spark.conf.get(_REFUSES_OLD_VERSIONS, None)
        spark.conf.set(_REFUSES_OLD_VERSIONS, "false")
        try:
            yield
        finally:
            if before is None:
                spark.conf.unset(_REFUSES_OLD_VERSIONS)
            else:
                spark.conf.set(_REFUSES_OLD_VERSIONS, before)
