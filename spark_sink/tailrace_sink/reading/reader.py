"""Reader of a lake's cuts: at an LSN or a time of the source, or the newest one."""

from __future__ import annotations

from datetime import datetime

from pyspark.sql import DataFrame, Row, SparkSession

from tailrace_schemas.topics.topic_names import TableName
from tailrace_sink.errors import LakeRowsChanged
from tailrace_sink.log.batch_rows import newest_row, rows_of_batch, rows_with
from tailrace_sink.log.commit_table import CommitTable, newest_commit
from tailrace_sink.log.dead_letters import dead_letters
from tailrace_sink.log.formats import tables_of
from tailrace_sink.options.config import dead_letters_path
from tailrace_sink.options.s3_options import hadoop_address
from tailrace_sink.plan.sink_state import SinkState
from tailrace_sink.plan.state_json import state_of_row
from tailrace_sink.ports.writes import RowsChanged
from tailrace_sink.reading.changes import changes
from tailrace_sink.reading.cut import Cut
from tailrace_sink.reading.cut_errors import CutForgotten, CutUnknown, require_first
from tailrace_sink.reading.cut_id import row_of_cut
from tailrace_sink.reading.cut_tables import CutTables
from tailrace_sink.reading.kept_cuts import oldest_cut
from tailrace_sink.reading.log_tail import TailReader
from tailrace_sink.reading.point import LATEST, Point
from tailrace_sink.tables.lake_table import companion_paths, literal


class LakeReader:
    """Reads cuts of one lake.

    Args:
        spark: a session with Delta.
        lake: address, as in the sink's configuration.
    """

    def __init__(self, spark: SparkSession, lake: str) -> None:
        self._spark = spark
        self._lake = hadoop_address(lake).rstrip("/")
        self._tables = tables_of(spark, self._lake)
        self._tails = TailReader(spark, self._lake)

    def dead_letters(self) -> DataFrame:
        """Read the dead letters: records that could not be applied (``sink.on_bad_record``).

        Returns:
            topic, partition, offset, lsn (of the cut that lacks the record), table, reason, key,
            value, schema_id and at.
        """
        return dead_letters(self._spark, dead_letters_path(self._lake))

    def changes(
        self,
        table: TableName | str,
        *,
        after: str | datetime | None = None,
        up_to: str | datetime | None = None,
    ) -> DataFrame:
        """Read every change of a table in (after, up_to]: see :func:`changes`."""
        return changes(self._spark, self._lake, table, after=after, up_to=up_to)

    def as_of(
        self, when: str = LATEST, *, lsn: str | None = None, time: datetime | str | None = None
    ) -> Cut:
        """Return the newest cut at or before a point. It does not change while the sink runs.

        A repair, a patch and a snapshot may close an LSN again, which makes another cut at it. An
        LSN means the first of them, so it always has the same rows. ``latest`` and a time mean the
        newest one. ``Cut.id`` means that cut.

        Args:
            when: only ``latest`` is supported.
            lsn: source LSN as text, or as SQL Server shows binary(10); or the id of a cut.
            time: source commit time, also as a text of ISO 8601; UTC without a zone.

        Raises:
            CutForgotten: retention removed the cut.
            CutUnknown: no cut is that old.
            PointInvalid: the point is not understood, or both are given.
        """
        point = Point.of(when, lsn, time)
        row = commit_row(self._spark, self._lake, point)
        state = SinkState() if row is None else state_of_row(row.asDict())
        tail = self._tails.tail(state, point)
        if tail is None and row is None:
            raise CutUnknown.no_cut(self._lake, point.phrase, None)
        at = CutTables.of(state, None if tail is None else tail.plan)
        return Cut(self._spark, self._lake, self._tables, at, tail)

    def of_tables(self) -> Cut:
        """Return the newest cut of the lake's tables, without what only the log has.

        Raises:
            CutUnknown: the lake has no cut yet.
        """
        state = self._state_of_tables()
        return Cut(self._spark, self._lake, self._tables, CutTables.of(state, None))

    def require_own_rows(self, table: TableName) -> None:
        """Require that only the sink has changed rows of a table since the newest cut.

        The table with its rows and its companions are looked at as the sink's next batch does.

        Raises:
            LakeRowsChanged: somebody else changed rows since, or one of them is gone.
            CutUnknown: the lake has no cut yet.
        """
        state, log = self._state_of_tables(), self._tails.log()
        if log is None:
            raise CutUnknown.no_cut(self._lake, "", None)
        sink = log.id(), log.prefix
        home = state.home_of(table.path) or table.path
        for path in (home, *companion_paths(home)):
            while (since := state.versions.get(path)) is not None:
                try:
                    self._tables.require_own_rows(self._spark, path, since, *sink)
                    break
                except RowsChanged as error:
                    state = self._state_of_tables()
                    # A sink may have removed a version that its newer cuts do not need.
                    if state.versions.get(path) == since:
                        is_shared = home != table.path
                        raise LakeRowsChanged(path, error.change, is_shared=is_shared) from error

    def _state_of_tables(self) -> SinkState:
        row = commit_row(self._spark, self._lake, Point())
        if row is None:
            raise CutUnknown.no_cut(self._lake, "", None)
        return state_of_row(row.asDict())


def read(spark: SparkSession, lake: str) -> LakeReader:
    """Open a lake: ``read(spark, lake).as_of("latest").read(table)``.

    Args:
        spark: a session with Delta and spark-avro.
        lake: the lake's address, as in the sink's configuration.
    """
    return LakeReader(spark, lake)


def commit_row(spark: SparkSession, lake: str, point: Point) -> Row | None:
    """Read the newest row at or before a point; None if the table is empty."""
    path = f"{lake}/_tailrace/commits"
    if CommitTable(spark, path).version() < 0:
        raise CutUnknown.no_lake(lake, path)
    if point == Point():
        return newest_commit(spark, path)
    row = newest_row(spark, path, _condition(point), point.may_be_in)
    if row is not None and row["through_lsn"] == point.lsn:
        row = _row_at(spark, lake, path, point)
    if row is None and (newest := newest_commit(spark, path)) is not None:
        oldest = oldest_cut(spark, lake)
        if oldest.has_forgotten:
            raise CutForgotten(lake, point.phrase, oldest)
        raise CutUnknown.no_cut(lake, point.phrase, newest.asDict())
    return row


def _condition(point: Point) -> str:
    if point.lsn is not None:
        return f"through_lsn <= {literal(point.lsn)}"
    return f"through_commit_time <= timestamp_millis({point.commit_ms})"


def _row_at(spark: SparkSession, lake: str, path: str, point: Point) -> Row | None:
    """Read the row of a point among those at its LSN, else the newest one before that LSN."""
    lsn = point.lsn or ""
    rows = rows_with(spark, path, "through_lsn", lsn).select("batch").collect()
    batch = row_of_cut((row["batch"] for row in rows), point.batch)
    if batch is None:
        return newest_row(spark, path, f"through_lsn < {literal(lsn)}", point.may_be_in)
    if point.batch is None:
        require_first(lake, batch, point.phrase, oldest_cut(spark, lake))
    return rows_of_batch(spark, path, batch).first()
