"""The tables of a cut, and where the rows of each are. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tailrace_schemas.topics.topic_names import TableName
from tailrace_sink.log.progress_feed import ProgressLog
from tailrace_sink.plan.sink_state import SinkState
from tailrace_sink.reading.cut_errors import CutUnknown
from tailrace_sink.reading.cut_id import cut_id
from tailrace_sink.reading.table_by_name import table_by_name
from tailrace_sink.reading.tail_plan import TailPlan
from tailrace_sink.tables.lake_table import Kind, companion_paths, source_path, table_at


@dataclass(frozen=True, slots=True)
class CutTables:
    """The tables of a cut.

    Attributes:
        batch: batch id of the commit row.
        passed: state after the tail: the positions up to which records were applied.
        closed_lsn: the cut has every change up to this LSN and none after it.
        closed_commit_ms: when the source committed that LSN, milliseconds UTC; None if the source
            has committed nothing yet.
        versions: path below the lake to the version of each table.
        homes: as in the state (``SinkState``).
        left_out: path of a table with several sources to those whose rows are not at the cut.
        tail: the changes of the log that these versions lack; None if there are none.
    """

    batch: int
    passed: SinkState
    closed_lsn: str
    closed_commit_ms: int | None
    versions: Mapping[str, int]
    homes: Mapping[str, str]
    left_out: Mapping[str, frozenset[TableName]]
    tail: TailPlan | None = None

    @classmethod
    def of(cls, state: SinkState, tail: TailPlan | None) -> CutTables:
        """Return the tables of the state of a commit row, with the tail after it."""
        following = state if tail is None else tail.state()
        versions = dict(state.versions)
        left_out = following.left_out
        if tail is not None:
            away = [path for path, home in following.homes.items() if home != path]
            for topic in {*following.held, *following.stopped}:
                table = tail.names.table_of(topic)
                away += [] if table is None else [table.path]
            for path in away:
                for own in (path, *companion_paths(path)):
                    versions.pop(own, None)
            for batch, home in tail.leaving:
                left_out[home] = left_out.get(home, frozenset()) | {batch.table}
        return cls(
            batch=state.batch,
            passed=following,
            closed_lsn=following.closed_lsn,
            closed_commit_ms=following.closed_commit_ms,
            versions=versions,
            homes=following.homes,
            left_out=left_out,
            tail=tail,
        )

    def id_in(self, log: ProgressLog | None) -> str:
        """Return the id of the cut; a point is written as an LSN or as such an id."""
        of = self.passed
        return self.closed_lsn if log is None else str(cut_id(log, of.closed_lsn, of.batch))

    @property
    def tables(self) -> list[TableName]:
        """Tables in the cut, without append-only companions."""
        found = {table_at(path)[0] for path in self.versions if path == source_path(path)}
        return sorted(found | (set() if self.tail is None else self.tail.new_tables()))

    def named(self, name: TableName | str) -> TableName:
        """Return the table of a name that a person writes.

        Raises:
            CutUnknown: there is none; lists near names.
        """
        known = {table_at(path)[0] for path in (*self.versions, *self.homes)}
        try:
            return table_by_name(name, known | set(self.tables))
        except LookupError as error:
            raise CutUnknown(f"{self._absent(name)}. {error}") from None

    def shared_by(self, table: TableName) -> TableName | None:
        """Return the lake table that has a source table's rows among others; None: its own.

        Raises:
            CutUnknown: its rows there are not at the cut.
        """
        home = self.homes.get(table.path)
        if home is None or home == table.path:
            return None
        if table in self.left_out.get(home, ()):
            raise CutUnknown(self.lacks(table))
        return table_at(home)[0]

    def lacks(self, table: TableName | str, kind: Kind | None = None) -> str:
        """Return the sentence that a table, or a companion of it, is not in the cut."""
        if kind is not None and table in self.tables:
            name = "history" if kind is Kind.HISTORY else "changelog"
            return (
                f"table {table} has no {name} in the cut at LSN {self.closed_lsn}. Fix: add {name}"
                " to its sink.kinds, and read a cut after the sink's next batch"
            )
        return (
            f"{self._absent(table)}. Fix: see tailrace status for the reason, or read a later cut"
        )

    def _absent(self, table: TableName | str) -> str:
        return (
            f"table {table} is not in the cut at LSN {self.closed_lsn}: its snapshot was not"
            " finished, the sink or the publisher stopped it, it is excluded, or it has no"
            " changes yet"
        )
