"""Why tables are stopped: each stops alone or restarts, and the others continue.

The publisher's state stores where a table is. This module stores its error, across sessions, and
what was reported of it.

Changes that were lost or cannot be encoded affect one table. Every progress record names this
table, like one with an unfinished snapshot. So no reader takes its lake table for a part of the
cut. A signal restarts it with a new snapshot, which replaces the table in the lake. A start of the
publisher does not: a publisher that restarts in a loop would read its tables in a loop. A start
restarts only tables whose cause each start checks, once that cause is fixed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import structlog

from tailrace_publisher.daemon.checks.table_problems import TableProblem
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

_EFFECT: Final = "the other tables continue; this one is not part of the lake's cuts"

_CHECKED_AT_START: Final = frozenset(
    {
        *("PreflightError", "PermissionMissing", "ColumnsRefused"),
        *("SchemaRefused", "UnsupportedType", "DeliveryRejected", "TopicCompacted"),
        "ValuesHidden",
    }
)
"""Errors whose cause each start checks before it adds a table: if it adds the table, the cause is
fixed."""

_GAPS: Final = frozenset({"PositionExpired", "RowsSwitched", "ValuesConverted"})
"""Errors of a table that lacks changes, which a new snapshot repairs."""


class StoppedTables:
    """The stopped tables with their errors; outlives a session of the publisher.

    Args:
        options: says what happens to a table with a gap.
        on_bad_event: says what happens to events that cannot be published.
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
        self._requested: set[TableName] = set()
        self._waits = False

    def add(self, table: TableName, error: Exception) -> bool:
        """Note the error of a table; return False if it had one already."""
        known = table in self._errors
        self._errors[table] = error
        return not known

    def ends_all(self, error: Exception | None) -> bool:
        """Return whether the configuration wants the publisher to end with a table's error."""
        is_of_events = isinstance(error, PublisherError) and error.of_events
        return is_of_events and self._on_bad_event is OnBadEvent.FAIL

    def error_of(self, table: TableName) -> Exception | None:
        """Return the error that stopped a table."""
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
        """Log once that a table is missing or not captured any more."""
        if table in self._missing:
            return
        self._missing[table] = reason
        self._show(table, is_stopped=True)
        self._metrics.failed("Missing", reason, str(table))
        _log.error(
            "table_stopped",
            table=str(table),
            reason=reason,
            effect=_EFFECT,
            fix="fix the cause (sys.sp_cdc_enable_table, GRANT SELECT), and it gets a new"
            " snapshot; or leave it out with tables.exclude",
        )

    def miss_all_but(self, found: Iterable[TableName]) -> None:
        """Report stopped tables that are not even visible any more (permissions)."""
        for table in self._errors.keys() - set(found):
            self.miss(table, str(self._errors[table]))

    def found(self, table: TableName) -> None:
        """Note that a table is captured, in case it was missing."""
        if table in self._missing:
            del self._missing[table]
            self._show(table, is_stopped=False)

    def missing(self) -> dict[TableName, str]:
        """Return missing or uncaptured tables with the reason; safe to call from another thread."""
        return self._missing.copy()

    def forgive(self, table: TableName) -> None:
        """Forget what stopped a table, because an operator requested it again."""
        self._errors.pop(table, None)
        self._requested.add(table)

    def doubt_gaps(self) -> None:
        """Forget gaps, because another publisher may have published since they were found.

        They were gaps after this publisher's position. The checkpoint says which tables are
        stopped, and a gap that still exists is found again.
        """
        gaps = [table for table, error in self._errors.items() if _kind(error) in _GAPS]
        for table in gaps:
            del self._errors[table]
            self._show(table, is_stopped=False)

    def is_asked_for(self, table: TableName) -> bool:
        """Return whether an operator requested the table, whatever stopped it."""
        return table in self._requested

    def check_may_restart(
        self, table: TableName, reason: str | None, *, has_name_again: bool
    ) -> None:
        """Check that a table that was stopped before this start may restart.

        Args:
            reason: why it was stopped, as its checkpoint says.
            has_name_again: whether it is the table that was published under this name.

        Raises:
            StillStopped: nothing shows that its cause is fixed.
        """
        before = StillStopped(reason)
        is_renamed_back = before.is_by(TableRenamed) and has_name_again
        if (
            table not in self._requested
            and before.kind not in _CHECKED_AT_START
            and not is_renamed_back
        ):
            raise before

    def restarts_after(self, error: Exception | None) -> bool:
        """Return whether the configuration wants a new snapshot instead of a stop."""
        is_gap = error is not None and _kind(error) in _GAPS
        return is_gap and self._options.fills_gaps

    def reason_of(self, table: TableName) -> str:
        """Return why a table is stopped, as its checkpoint stores it."""
        return reason_of(self._errors[table])

    def report(self, table: TableName) -> None:
        """Report that a table is stopped, and why."""
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
            fix=f"fix the cause, then {fix}"
            + (", or restart the publisher" if kind in _CHECKED_AT_START else ""),
        )
        self._show(table, is_stopped=True)

    def report_restart(self, table: TableName, published: Lsn, state: TableState) -> None:
        """Report that a table restarts, and forget what stopped it.

        Args:
            published: LSN up to which changes are published; what is missing is later.
            state: the table's new state.
        """
        error = self._errors.pop(table, None)
        self._requested.discard(table)
        self._waits = False
        _log.warning(
            "table_restarted",
            table=str(table),
            gap_after=str(published),
            state=state.value,
            reason=None if error is None else str(error),
        )
        self._show(table, is_stopped=False)

    def _show(self, table: TableName, *, is_stopped: bool) -> None:
        self._metrics.stopped_tables.labels(table=str(table)).set(is_stopped)

    def failure(self, tables: Iterable[TableName]) -> PublisherError | None:
        """Return the first table's error to end with; for tables that are all stopped.

        None if all of them were stopped before this start: then the publisher waits for a signal.
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
    """Return an error as a checkpoint stores it: its class, a colon, and its text."""
    return f"{_kind(error)}: {error}"


def _kind(error: Exception) -> str:
    return error.kind if isinstance(error, StillStopped) else type(error).__name__
