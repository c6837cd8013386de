"""A cut of a lake: its tables as Arrow, Polars, pandas and DuckDB see them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds

from tailrace.lake.folded import FoldedTable
from tailrace.lake.store import LakeStore
from tailrace.lake.tail_events import TailEvents
from tailrace.lake.tail_history import history_with_tail
from tailrace.lake.tail_rows import Rows, from_source, with_tail
from tailrace_schemas.events.column_types import UnsupportedType
from tailrace_schemas.topics.topic_names import TableName
from tailrace_sink.errors import TableError
from tailrace_sink.fold.table_batch import TableBatch
from tailrace_sink.reading.cut_errors import CutForgotten, CutUnknown
from tailrace_sink.reading.cut_tables import CutTables
from tailrace_sink.tables.lake_table import Kind, table_path
from tailrace_sink.tables.origins import ORIGIN, origin_values

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl


@dataclass(frozen=True, slots=True)
class Cut:
    """The lake at one LSN of the source. It does not change while the sink runs.

    Attributes:
        at: where the rows of each table are.
        tail: the events of the log that the tables lack; None if there are none.
    """

    store: LakeStore
    at: CutTables
    tail: TailEvents | None = None

    @property
    def closed_lsn(self) -> str:
        """The cut has every change up to this LSN and none after it."""
        return self.at.closed_lsn

    @property
    def closed_commit_time(self) -> datetime | None:
        """When the source committed that LSN, UTC; None if it has committed nothing yet."""
        committed = self.at.closed_commit_ms
        return None if committed is None else datetime.fromtimestamp(committed / 1000, UTC)

    @property
    def tables(self) -> list[TableName]:
        """Tables in the cut, without append-only companions."""
        return self.at.tables

    def read(
        self, table: TableName | str, *, is_changes: bool = False, is_history: bool = False
    ) -> pa.Table:
        """Read one table of this cut into memory.

        Args:
            table: ``"dbo.orders"``, in any case; or with the database first. The name of one of
                several sources of a lake table selects its rows.
            is_changes: whether to read its append-only companion instead.
            is_history: whether to read its validity intervals instead.

        Raises:
            CutForgotten: the sink has removed what the cut needs.
            CutUnknown: the table is not in this cut (lists near names), or a bad record or a schema
                change in the tail will stop it.
            FeatureUnsupported: no installed reader supports a feature of the table.
            NeedsSpark: only Spark's reader reads this.
            LakeUnreadable, StoreUnusable: a file cannot be read.
        """
        self._require_kept()
        table = self.at.named(table)
        kind = Kind.HISTORY if is_history else Kind.CHANGES if is_changes else None
        try:
            shared = self.at.shared_by(table)
            if shared is None:
                return self._read(table, kind)
            rows = self._read(shared, kind)
        except (TableError, UnsupportedType) as error:
            raise CutUnknown(
                f"table {table} is not in the cut at LSN {self.closed_lsn}, as it stops before it:"
                f" {error}"
            ) from error
        own = rows.filter(pa.array(from_source(rows, origin_values(table))))
        return own.drop_columns(list(ORIGIN))

    def dataset(
        self, table: TableName | str, *, is_changes: bool = False, is_history: bool = False
    ) -> ds.Dataset:
        """Return one table as a pyarrow dataset.

        It reads plain files when it is asked. If the log's tail changes the table, its rows are in
        memory. So are those of tables with deletion vectors in use, mapped or widened columns,
        partitions or several sources.

        Raises:
            As :meth:`read`.
        """
        found = None if is_history else self._files(table, is_changes=is_changes)
        if found is not None:
            return found
        return ds.dataset(self.read(table, is_changes=is_changes, is_history=is_history))

    def lazy_frame(self, table: TableName | str, **companion: bool) -> pl.LazyFrame:
        """Return one table as a Polars LazyFrame; arguments and errors as :meth:`dataset`."""
        import polars as pl

        return pl.scan_pyarrow_dataset(self.dataset(table, **companion))

    def pandas(self, table: TableName | str, **companion: bool) -> pd.DataFrame:
        """Return one table as a pandas DataFrame with Arrow's types, which lose no value.

        Arguments and errors as :meth:`read`.
        """
        import pandas as pd

        rows = self.read(table, **companion)
        frame: pd.DataFrame = rows.to_pandas(types_mapper=pd.ArrowDtype)
        return frame

    def sql(self, query: str, duck: Any = None) -> Any:
        """Run a statement of DuckDB over the tables of this cut: see ``query_over``."""
        from tailrace.lake.duck import query_over

        return query_over(self, query, duck)

    def relation(self, table: TableName | str, duck: Any = None, **companion: bool) -> Any:
        """Return one table as a relation of DuckDB; arguments and errors as :meth:`dataset`.

        Args:
            duck: the connection; None: DuckDB's default one.
        """
        import duckdb

        return (duck or duckdb).from_arrow(self.dataset(table, **companion))

    def _require_kept(self) -> None:
        oldest = self.store.oldest_cut()
        if self.at.batch < oldest.batch:
            raise CutForgotten(self.store.lake, f" of batch {self.at.batch}", oldest)

    def _files(self, name: TableName | str, *, is_changes: bool) -> ds.Dataset | None:
        table = self.at.named(name)
        path = table_path(table, Kind.CHANGES if is_changes else Kind.MIRROR)
        version = self.at.versions.get(path)
        changed = self.at.tail is not None and self.at.tail.of(table)
        if version is None or changed or path in self.at.left_out or table.path in self.at.homes:
            return None
        self._require_kept()
        kind = Kind.CHANGES if is_changes else Kind.MIRROR
        return FoldedTable(self.store, table, kind, version).dataset()

    def _read(self, table: TableName, kind: Kind | None) -> pa.Table:
        """Read one table; without a kind, the source table itself."""
        path = table_path(table, kind or Kind.MIRROR)
        version = self.at.versions.get(path)
        changed = [] if self.at.tail is None else self.at.tail.of(table)
        is_new = kind is None and table in self.tables
        if version is None and not is_new:
            raise CutUnknown(self.at.lacks(table))
        base = None
        if version is not None:
            folded = FoldedTable(self.store, table, kind or Kind.MIRROR, version)
            rows = folded.batches().read_all()
            for source in sorted(self.at.left_out.get(table_path(table), ())):
                rows = rows.filter(pa.array(~from_source(rows, origin_values(source))))
            if not changed:
                return rows
            if kind is None:
                kind = Kind.EVENTS if folded.has_changed_columns else Kind.MIRROR
            base = Rows(folded.described(kind), rows)
        for batch in changed:
            base = self._with_tail(base, batch, kind)
        if base is None:
            raise CutUnknown(f"table {table} has no rows in the cut at LSN {self.closed_lsn}")
        return base.rows

    def _with_tail(self, base: Rows | None, batch: TableBatch, kind: Kind | None) -> Rows:
        """Apply one source's part of the tail."""
        if self.tail is None:
            raise ValueError("there is no tail")
        values = self.tail.values(batch.table)
        if kind is Kind.HISTORY and base is not None:
            has_all = batch.topic_range.is_whole or not batch.writers
            rows_after = self._read(batch.lake_table, None) if has_all else None
            point = self.tail.plan.batch.following.point
            return history_with_tail(base, batch, values, rows_after, point)
        kind = kind or Kind.of(batch.versions[0])
        return with_tail(base, batch, values, self.tail.plan.deletes, self.closed_lsn, kind)
