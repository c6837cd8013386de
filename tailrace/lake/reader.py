"""Reader of a lake's cuts without Spark."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import pyarrow as pa
from deltalake import DeltaTable

from tailrace.lake.catalog import Catalog
from tailrace.lake.change_log import ChangeLog, opened_log
from tailrace.lake.changes import ChangeReader
from tailrace.lake.cut import Cut
from tailrace.lake.log import DeltaLog, text
from tailrace.lake.store import LakeStore
from tailrace.lake.tail_events import TailEvents
from tailrace_schemas.topics.topic_names import TableName
from tailrace_sink.options.iceberg_options import IcebergOptions
from tailrace_sink.plan.scopes import COMMITS
from tailrace_sink.plan.sink_state import SinkState
from tailrace_sink.plan.state_json import state_of_row
from tailrace_sink.reading.cut_errors import CutForgotten, CutUnknown, require_first
from tailrace_sink.reading.cut_id import row_of_cut
from tailrace_sink.reading.cut_tables import CutTables
from tailrace_sink.reading.point import LATEST, Point
from tailrace_sink.reading.tail_plan import plan_tail

_COMMITS: Final = "_tailrace/commits"


class Lake:
    """A lake, from which cuts are read.

    Args:
        iceberg: options of the catalog of a lake in Iceberg; None: pyiceberg's own configuration
            describes it.
    """

    def __init__(self, store: LakeStore, iceberg: IcebergOptions | None = None) -> None:
        self._store = store
        self._iceberg = iceberg
        self._opened: Catalog | None = None

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
            CutUnknown: no cut is that old, or the address has no lake.
            LakeUnreadable, StoreUnusable: the lake cannot be read.
            PointInvalid: the point is not understood, or both are given.
        """
        point = Point.of(when, lsn, time)
        row = self._commit_row(point)
        state = SinkState() if row is None else state_of_row(row)
        events = self._tail(state, point)
        if events is None and row is None:
            raise CutUnknown.no_cut(self._store.lake, point.phrase, None)
        at = CutTables.of(state, None if events is None else events.plan)
        return Cut(self._store, at, events, self._catalog())

    def changes(
        self,
        table: TableName | str,
        *,
        after: str | datetime | None = None,
        up_to: str | datetime | None = None,
    ) -> pa.Table:
        """Read every change of a source table in (after, up_to], as it was committed.

        Args:
            table: ``"dbo.orders"``, in any case; or with the database first.
            after: LSN, id of a cut or commit time (UTC without a zone; also as text) after which
                changes start; None: the start of the lake's log.
            up_to: the last one; None: the newest cut in the log. To follow a table, pass the id of
                a cut (``Cut.id``), and the same one as ``after`` the next time.

        Returns:
            The columns of ``tailrace_sink.changes``, in no order: ``_cdc_position`` orders them.

        Raises:
            ChangesUnknown: the log has no such table (lists near names), or lacks changes.
            BadRecord: a record cannot be decoded and was not stored in the dead letters.
            NeedsSpark: only Spark casts a value of an earlier type.
            LakeUnreadable, StoreUnusable: the log cannot be read.
            PointInvalid: a point is neither an LSN nor a time.
        """
        log = opened_log(self._store)
        return ChangeReader(ChangeLog.between(self._store.lake, log, after, up_to)).read(table)

    def _catalog(self) -> Catalog | None:
        """Return the catalog of the lake's tables, which opens when a table is read."""
        if self._opened is None:
            known = self._store.iceberg()
            if known is not None:
                names = known["catalog"], known["namespace"]
                self._opened = Catalog(self._store, self._iceberg, *names)
        return self._opened

    def _tail(self, state: SinkState, point: Point) -> TailEvents | None:
        log = DeltaLog.of(self._store)
        last = None if log is None else log.last()
        if log is None or last is None or last.state.batch <= state.batch:
            return None
        plan = plan_tail(log, last, log.schema_by_id, state, point)
        return None if plan is None else TailEvents(log, plan)

    def _commit_row(self, point: Point) -> dict[str, Any] | None:
        """Read the newest row at or before a point; None if there is none yet."""
        lake = self._store.lake
        table = self._store.delta(_COMMITS)
        if table is None:
            raise CutUnknown.no_lake(lake, f"{lake}/{_COMMITS}")
        condition = "true"
        if point.lsn is not None:
            condition = f"through_lsn <= {text(point.lsn)}"
        elif point.commit_ms is not None:
            condition = f"through_commit_time <= to_timestamp_millis({point.commit_ms})"
        elif (batch := table.transaction_version(COMMITS)) is not None:
            condition = f"batch >= {batch}"
        newest = "SELECT * FROM t WHERE {} ORDER BY batch DESC LIMIT 1"
        rows: list[dict[str, Any]] = self._store.query(table, newest.format(condition)).to_pylist()
        if point.lsn is not None and rows and rows[0]["through_lsn"] == point.lsn:
            at = self._batch_at(table, point)
            condition = f"through_lsn < {text(point.lsn)}" if at is None else f"batch = {at}"
            rows = self._store.query(table, newest.format(condition)).to_pylist()
        # An earlier release wrote the last row, or the table was restored to an older version.
        every = rows or self._store.query(table, newest.format("true")).to_pylist()
        if rows or point == Point():
            return every[0] if every else None
        if not every:
            return None
        oldest = self._store.oldest_cut()
        if oldest.has_forgotten:
            raise CutForgotten(lake, point.phrase, oldest)
        raise CutUnknown.no_cut(lake, point.phrase, every[0])

    def _batch_at(self, table: DeltaTable, point: Point) -> int | None:
        """Choose the row of a point among those at its LSN; None if it is none of them."""
        at = f"SELECT batch FROM t WHERE through_lsn = {text(point.lsn or '')}"
        found = self._store.query(table, at).to_pylist()
        batch = row_of_cut((row["batch"] for row in found), point.batch)
        if point.batch is None and batch is not None:
            require_first(self._store.lake, batch, point.phrase, self._store.oldest_cut())
        return batch
