"""Why tables cannot go on: each stops alone, or is taken up anew, and the others go on.

Where a table is, is kept in the publisher's state; here is what it cannot go on for, from one life
to the next, and what was told of it.

What was lost or cannot be carried concerns one table. It is named in every progress record like a
table whose snapshot is not over, so no reader takes its lake table for a part of the cut. A signal
takes it up with a new snapshot, which replaces what the lake has. A start does not, or a publisher
that is restarted again and again would read its tables again and again: it takes up only tables
that were stopped for what each start looks at, when that is mended.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import structlog

from tailrace_publisher.daemon.checks.preflight import TableProblem
from tailrace_publisher.daemon.tables.table_state import TableState
from tailrace_publisher.errors import (
    PreflightError,
    PublisherError,
    StillStopped,
    TableRenamed,
)
from tailrace_publisher.metrics.publisher_metrics import Metrics
from tailrace_publisher.options.events import OnBadEvent
from tailrace_publisher.options.snapshots import SnapshotConfig
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.topic_names import TableName

_log = structlog.get_logger(__name__)

_EFFECT: Final = "the other tables go on; this one is not part of the lake's cuts"

_LOOKED_AT: Final = frozenset(
    {
        *("PreflightError", "PermissionMissing", "ColumnsRefused"),
        *("SchemaRefused", "UnsupportedType", "DeliveryRejected", "TopicCompacted"),
    }
)
"""Errors whose cause each start looks at before it takes a table in: where a table can be taken in,
it is mended."""

_GAPS: Final = frozenset({"PositionExpired", "RowsSwitched", "ValuesConverted"})
"""Errors of a table that lacks changes: a new snapshot makes it whole."""


class StoppedTables:
    """The tables that cannot go on, and why; kept from one life of the publisher to the next.

    Args:
        options: says what becomes of a table with a gap.
        metrics: counts.
        on_bad_event: says what becomes of events that cannot be published.
    """

    def __init__(
        self,
        options: SnapshotConfig,
        metrics: Metrics,
        on_bad_event: OnBadEvent = OnBadEvent.STOP_TABLE,
    ) -> None:
        self._options = options
        self._metrics = metrics
        self._on_bad_event = on_bad_event
        self._errors: dict[TableName, Exception] = {}
        self._missing: dict[TableName, str] = {}
        self._asked: set[TableName] = set()
        self._waits = False

    def add(self, table: TableName, error: Exception) -> bool:
        """Note what a table cannot go on for; False when it was noted already."""
        known = table in self._errors
        self._errors[table] = error
        return not known

    def ends_all(self, error: Exception | None) -> bool:
        """Whether the configuration wants the publisher to end with a table's error."""
        is_of_events = isinstance(error, PublisherError) and error.of_events
        return is_of_events and self._on_bad_event is OnBadEvent.FAIL

    def error_of(self, table: TableName) -> Exception | None:
        """What the table cannot go on for."""
        return self._errors.get(table)

    def leave_out(self, problems: Iterable[TableProblem]) -> None:
        """Note tables that a later start cannot publish, as the check of the source found."""
        for problem in problems:
            if problem.is_of_snapshot:
                _log.warning("snapshot_would_be_wrong", reason=problem.text)
            elif problem.is_missing:
                self.miss(problem.table, problem.text)
            else:
                self.add(problem.table, PreflightError([problem.text]))

    def miss(self, table: TableName, reason: str) -> None:
        """Tell, once, that a table is not there any more, or not captured."""
        if table in self._missing:
            return
        self._missing[table] = reason
        self._metrics.failed("Missing", reason, str(table))
        _log.error(
            "table_stopped",
            table=str(table),
            reason=reason,
            effect=_EFFECT,
            fix="mend the cause (sys.sp_cdc_enable_table, GRANT SELECT), and it gets a new"
            " snapshot; or leave it out with tables.exclude",
        )
        self._metrics.stopped_tables.labels(table=str(table)).set(1)

    def miss_all_but(self, found: Iterable[TableName]) -> None:
        """Tell of tables that cannot go on and are not even seen any more (permissions)."""
        for table in self._errors.keys() - set(found):
            self.miss(table, str(self._errors[table]))

    def found(self, table: TableName) -> None:
        """A table is captured: it may have been missing."""
        if table in self._missing:
            del self._missing[table]
            self._metrics.stopped_tables.labels(table=str(table)).set(0)

    def missing(self) -> dict[TableName, str]:
        """Tables that are not there any more, or not captured, and why; for another thread."""
        return self._missing.copy()

    def forgive(self, table: TableName) -> None:
        """An operator asks for the table again: what stopped it counts no more."""
        self._errors.pop(table, None)
        self._asked.add(table)

    def is_asked_for(self, table: TableName) -> bool:
        """Whether an operator asks for the table, whatever stopped it."""
        return table in self._asked

    def check_may_begin(
        self, table: TableName, reason: str | None, *, has_name_again: bool
    ) -> None:
        """Check that a table which was stopped before this start may begin again.

        Args:
            table: the table, which can be taken in.
            reason: what it was stopped for, as its checkpoint says.
            has_name_again: whether it is the table that was published under this name.

        Raises:
            StillStopped: nothing says that its cause is gone.
        """
        before = StillStopped(reason)
        is_renamed_back = before.kind == TableRenamed.__name__ and has_name_again
        if table not in self._asked and before.kind not in _LOOKED_AT and not is_renamed_back:
            raise before

    def is_taken_up(self, error: Exception | None) -> bool:
        """Whether the configuration wants a new snapshot rather than a stop."""
        is_gap = error is not None and _kind(error) in _GAPS
        return is_gap and self._options.fills_gaps

    def reason_of(self, table: TableName) -> str:
        """What a table cannot go on for, as its checkpoint keeps it."""
        return reason_of(self._errors[table])

    def tell(self, table: TableName) -> None:
        """Tell that a table is stopped, and for what."""
        error = self._errors[table]
        kind = _kind(error)
        self._metrics.failed(kind, str(error), str(table))
        fix = f"take a new snapshot of the table: tailrace snapshot '{table.schema}.{table.table}'"
        _log.error(
            "table_stopped",
            table=str(table),
            error=kind,
            reason=str(error),
            effect=_EFFECT,
            fix=f"mend the cause, then {fix}"
            + (", or restart the publisher" if kind in _LOOKED_AT else ""),
        )
        self._metrics.stopped_tables.labels(table=str(table)).set(1)

    def take_up(self, table: TableName, out: Lsn, state: TableState) -> None:
        """Tell that a table begins again: what stopped it counts no more.

        Args:
            table: the table.
            out: LSN up to which changes are out: what is missing is behind it.
            state: how it begins.
        """
        error = self._errors.pop(table, None)
        self._asked.discard(table)
        self._waits = False
        _log.warning(
            "table_restarted",
            table=str(table),
            gap_after=str(out),
            state=state.value,
            reason=None if error is None else str(error),
        )
        self._metrics.stopped_tables.labels(table=str(table)).set(0)

    def failure(self, tables: Iterable[TableName]) -> PublisherError | None:
        """The error to end with when no table can go on: that of the first.

        None where they all wait for an operator's signal, since before this start: so does the
        publisher.
        """
        failed = [
            name
            for name in tables
            if not isinstance(self._errors.get(name, StillStopped(None)), StillStopped)
        ]
        if not failed:
            if not self._waits:
                _log.error("all_tables_stopped", effect="waiting for a signal: tailrace snapshot")
            self._waits = True
            return None
        error = self._errors[min(failed)]
        if isinstance(error, PublisherError):
            return error
        return PreflightError([f"table {min(failed)}: {error}"])


def reason_of(error: Exception) -> str:
    """An error as a checkpoint keeps it: its class, a colon, and its text."""
    return f"{_kind(error)}: {error}"


def _kind(error: Exception) -> str:
    return error.kind if isinstance(error, StillStopped) else type(error).__name__
