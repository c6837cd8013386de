"""A cut of a lake: its tables as Arrow, Polars, pandas and DuckDB see them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds

from tailrace.lake.errors import from_extra
from tailrace.lake.folded import FoldedTable
from tailrace.lake.log import DeltaLog
from tailrace.lake.store import LakeStore
from tailrace.lake.tail_events import TailEvents
from tailrace.lake.tail_history import history_with_tail
from tailrace.lake.tail_rows import from_source, with_tail
from tailrace_schemas.topics.topic_names import TableName
from tailrace_sink.fold.table_batch import TableBatch
from tailrace_sink.plan.sink_state import CutPoint
from tailrace_sink.reading.cut_errors import CutForgotten
from tailrace_sink.reading.cut_reading import CutReading
from tailrace_sink.reading.cut_tables import CutTables
from tailrace_sink.reading.tail_table import TableRows
from tailrace_sink.tables.lake_table import Kind, table_path
from tailrace_sink.tables.origins import ORIGIN, origin_values

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

    from tailrace.lake.catalog import Catalog
    from tailrace.lake.iceberg_table import IcebergTable


@dataclass(frozen=True, slots=True)
class Cut(CutReading[pa.Table]):
    """The lake at one LSN of the source. It does not change while the sink runs.

    Attributes:
        at: where the rows of each table are.
        tail: the events of the log that the tables lack; None if there are none.
        catalog: of a lake in Iceberg; None: its tables are in Delta.
    """

    store: LakeStore
    at: CutTables
    tail: TailEvents | None = None
    catalog: Catalog | None = None

    @property
    def closed_lsn(self) -> str:
        """The cut has every change up to this LSN and none after it."""
        return self.at.closed_lsn

    @property
    def id(self) -> str:
        """The id of this very cut: its LSN, ``@`` and a batch of the log.

        Every point takes it in the place of an LSN, which may have several cuts. Reads the log.
        """
        return self.at.id_in(DeltaLog.of(self.store))

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
            ExtraMissing: the lake is in Iceberg, and pyiceberg is not installed.
            CatalogUnavailable, CatalogUnusable, NameTaken: the catalog of a lake in Iceberg does
                not answer (trying again may help), refuses, or has another table of that name.
            ConfigError: nothing is known of that catalog.
        """
        self._require_kept()
        return self._selected(table, is_changes=is_changes, is_history=is_history)

    def dataset(
        self, table: TableName | str, *, is_changes: bool = False, is_history: bool = False
    ) -> ds.Dataset:
        """Return one table as a pyarrow dataset.

        It reads plain files when it is asked. If the log's tail changes the table, its rows are in
        memory. So are those of tables in Iceberg, and of tables with deletion vectors in use,
        mapped or widened columns, partitions or several sources.

        Raises:
            As :meth:`read`.
        """
        found = None if is_history else self._files(table, is_changes=is_changes)
        if found is not None:
            return found
        return ds.dataset(self.read(table, is_changes=is_changes, is_history=is_history))

    def lazy_frame(self, table: TableName | str, **companion: bool) -> pl.LazyFrame:
        """Return one table as a Polars LazyFrame; arguments and errors as :meth:`dataset`."""
        with from_extra("lake"):
            import polars as pl

        return pl.scan_pyarrow_dataset(self.dataset(table, **companion))

    def pandas(self, table: TableName | str, **companion: bool) -> pd.DataFrame:
        """Return one table as a pandas DataFrame with Arrow's types, which lose no value.

        Arguments and errors as :meth:`read`.
        """
        with from_extra("lake"):
            import pandas as pd

        rows = self.read(table, **companion)
        frame: pd.DataFrame = rows.to_pandas(types_mapper=pd.ArrowDtype)
        return frame

    def sql(self, query: str, duck: Any = None) -> Any:
        """Run a statement of DuckDB over the tables of this cut: see ``query_over``.

        Its relation runs when its rows are fetched. Values that a cast refuses raise DuckDB's own
        error then.
        """
        from tailrace.lake.duck import query_over

        return query_over(self, query, duck)

    def relation(self, table: TableName | str, duck: Any = None, **companion: bool) -> Any:
        """Return one table as a relation of DuckDB; arguments and errors as :meth:`dataset`.

        Args:
            duck: the connection; None: DuckDB's default one.
        """
        with from_extra("lake"):
            import duckdb

        return (duck or duckdb).from_arrow(self.dataset(table, **companion))

    def _require_kept(self) -> None:
        oldest = self.store.oldest_cut()
        if self.at.batch < oldest.batch:
            raise CutForgotten(self.store.lake, f" of batch {self.at.batch}", oldest)

    def _files(self, name: TableName | str, *, is_changes: bool) -> ds.Dataset | None:
        table = self.at.named(name)
        kind = Kind.CHANGES if is_changes else Kind.MIRROR
        path = table_path(table, kind)
        version = self.at.versions.get(path)
        changed = self.at.tail is not None and self.at.tail.of(table)
        if version is None or changed or path in self.at.left_out or table.path in self.at.homes:
            return None
        if self.catalog is not None:
            return None
        self._require_kept()
        return FoldedTable(self.store, table, kind, version).dataset()

    def _folded(self, table: TableName, kind: Kind, version: int) -> FoldedTable | IcebergTable:
        if self.catalog is None:
            return FoldedTable(self.store, table, kind, version)
        with from_extra("iceberg"):
            from tailrace.lake.iceberg_table import IcebergTable

        return IcebergTable(self.catalog, table, kind, version)

    def _only(self, rows: pa.Table, source: TableName) -> pa.Table:
        own = rows.filter(pa.array(from_source(rows, origin_values(source))))
        return own.drop_columns(list(ORIGIN))

    def _without(self, rows: pa.Table, sources: Sequence[TableName]) -> pa.Table:
        for source in sources:
            rows = rows.filter(pa.array(~from_source(rows, origin_values(source))))
        return rows

    def _with_changes(
        self,
        base: TableRows[pa.Table] | None,
        batch: TableBatch,
        values: pa.Table,
        deletes: str,
        kind: Kind,
    ) -> TableRows[pa.Table]:
        return with_tail(base, batch, values, deletes, self.closed_lsn, kind)

    def _with_intervals(
        self,
        base: TableRows[pa.Table],
        batch: TableBatch,
        values: pa.Table,
        rows: pa.Table | None,
        cut: CutPoint,
    ) -> TableRows[pa.Table]:
        return history_with_tail(base, batch, values, rows, cut)
