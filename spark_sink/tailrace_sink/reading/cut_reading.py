"""What the rows of a table in a cut consist of: the same for readers with and without Spark."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

from tailrace_schemas.events.column_types import UnsupportedType
from tailrace_schemas.topics.topic_names import TableName
from tailrace_sink.errors import SnapshotExpired, TableError
from tailrace_sink.fold.table_batch import TableBatch
from tailrace_sink.plan.sink_state import CutPoint
from tailrace_sink.reading.cut_errors import CutUnknown
from tailrace_sink.reading.cut_tables import CutTables
from tailrace_sink.reading.tail_plan import TailPlan
from tailrace_sink.reading.tail_table import RowsT, TableRows
from tailrace_sink.tables.lake_table import Kind, LakeTable, table_path

_RowsT_co = TypeVar("_RowsT_co", covariant=True)


class TailValues(Protocol[_RowsT_co]):
    """The events of the log that the tables of a cut lack."""

    plan: TailPlan

    def values(self, name: TableName, /) -> _RowsT_co:
        """Read the events of one source table, as the fold will apply them."""


class Folded(Protocol[_RowsT_co]):
    """A lake table at the version of a commit row."""

    @property
    def rows(self) -> _RowsT_co:
        """All rows."""

    @property
    def has_changed_columns(self) -> bool:
        """Whether every row is a change."""

    def described(self, kind: Kind) -> LakeTable:
        """Describe the table."""


class CutReading(ABC, Generic[RowsT]):
    """Reads the tables of a cut; how rows are read and changed is a subclass's.

    Attributes:
        at: where the rows of each table are.
        tail: None if there are no such events.
    """

    __slots__ = ()
    at: CutTables
    tail: TailValues[RowsT] | None

    def _selected(self, name: TableName | str, *, is_changes: bool, is_history: bool) -> RowsT:
        if is_changes and is_history:
            raise CutUnknown(
                f"table {name}: is_changes and is_history are two tables. Fix: read one of them"
            )
        table = self.at.named(name)
        kind = Kind.HISTORY if is_history else Kind.CHANGES if is_changes else None
        try:
            shared = self.at.shared_by(table)
            if shared is None:
                return self._read(table, kind)
            return self._only(self._read(shared, kind), table)
        except SnapshotExpired as error:
            raise CutUnknown(
                f"the cut at LSN {self.at.closed_lsn} is not whole: {error}"
            ) from error
        except (TableError, UnsupportedType) as error:
            raise CutUnknown(
                f"table {table} is not in the cut at LSN {self.at.closed_lsn}, as it stops before"
                f" it: {error}"
            ) from error

    def _read(self, table: TableName, kind: Kind | None) -> RowsT:
        """Read one table; without a kind, the source table itself."""
        version = self.at.versions.get(table_path(table, kind or Kind.MIRROR))
        changed = [] if self.at.tail is None else self.at.tail.of(table)
        is_new = kind is None and table in self.at.tables
        if version is None and not is_new:
            raise CutUnknown(self.at.lacks(table, kind))
        base = None
        if version is not None:
            folded = self._folded(table, kind or Kind.MIRROR, version)
            rows = folded.rows
            others = self.at.left_out.get(table_path(table))
            if others:
                rows = self._without(rows, sorted(others))
            if not changed:
                return rows
            if kind is None:
                kind = Kind.EVENTS if folded.has_changed_columns else Kind.MIRROR
            base = TableRows(folded.described(kind), rows)
        for batch in changed:
            base = self._with_tail(base, batch, kind)
        if base is None:
            raise CutUnknown(f"table {table} has no rows in the cut at LSN {self.at.closed_lsn}")
        return base.rows

    def _with_tail(
        self, base: TableRows[RowsT] | None, batch: TableBatch, kind: Kind | None
    ) -> TableRows[RowsT]:
        """Apply one source's part of the tail."""
        if self.tail is None:
            raise ValueError("there is no tail")
        values, plan = self.tail.values(batch.table), self.tail.plan
        if kind is Kind.HISTORY and base is not None:
            has_all = batch.topic_range.is_whole or not batch.writers
            rows_after = self._read(batch.lake_table, None) if has_all else None
            return self._with_intervals(base, batch, values, rows_after, plan.batch.following.point)
        kind = kind or Kind.of(batch.versions[0])
        return self._with_changes(base, batch, values, plan.deletes, kind)

    @abstractmethod
    def _folded(self, table: TableName, kind: Kind, version: int) -> Folded[RowsT]: ...

    @abstractmethod
    def _only(self, rows: RowsT, source: TableName) -> RowsT:
        """Select the rows of one of several sources, without its name."""

    @abstractmethod
    def _without(self, rows: RowsT, sources: Sequence[TableName]) -> RowsT:
        """Leave the rows of some of several sources out."""

    @abstractmethod
    def _with_changes(
        self,
        base: TableRows[RowsT] | None,
        batch: TableBatch,
        values: RowsT,
        deletes: str,
        kind: Kind,
    ) -> TableRows[RowsT]: ...

    @abstractmethod
    def _with_intervals(
        self,
        base: TableRows[RowsT],
        batch: TableBatch,
        values: RowsT,
        rows: RowsT | None,
        cut: CutPoint,
    ) -> TableRows[RowsT]: ...
