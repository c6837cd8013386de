"""What a publisher reports of itself: written by its thread, read by those of its endpoint.

The publisher prepares nothing for the readers, so they cost it nothing. They read immutable
values (records, positions) and copies that the interpreter creates in one step.
"""

from __future__ import annotations

from typing import Final, Literal, Protocol

from tailrace_publisher.daemon.tables.publisher_state import PublisherState
from tailrace_publisher.daemon.tables.stopped import StoppedTables
from tailrace_publisher.daemon.tables.table_record import TableRecord
from tailrace_publisher.daemon.tables.table_state import UNREAD, WHOLE, TableState
from tailrace_publisher.runtime import Runtime
from tailrace_schemas.topics.topic_names import TableName
from tailrace_service.status import DaemonStatus, TableStatus, by_name

Phase = Literal["starting", "running", "retrying", "paused", "stopped", "ended", "elsewhere"]
"""The last three occur only with several databases or a fleet (one_database.py): waiting does not
cure the error that stopped one, nothing more is wanted of it, or another member publishes it."""

_START_S: Final = 120.0
"""Longest time of a start beyond the time limits of the configuration."""
_STATES: Final = {TableState.SNAPSHOTTING: "snapshotting", TableState.FOLLOWED: "followed"}
"""Names of states that differ in a checkpoint."""
_HALTED: Final = "its snapshot was stopped; tailrace snapshot takes a new one"
_FIGURES: Final = {
    "capture_scan_age_seconds": "tailrace_capture_scan_age_seconds",
    "capture_latency_seconds": "tailrace_capture_latency_seconds",
    "log_backlog_bytes": "tailrace_log_backlog_bytes",
    "retention_left_seconds": "tailrace_retention_left_seconds",
    "log_full_seconds": "tailrace_log_full_seconds",
    "disk_full_seconds": "tailrace_disk_full_seconds",
    "last_commit_timestamp_seconds": "tailrace_last_commit_timestamp_seconds",
    "source_transactions": "tailrace_transactions_total",
    "kafka_transactions": "tailrace_commits_total",
    "source_queries": "tailrace_source_queries_total",
}


class StatusBoard(Protocol):
    """What the endpoint shows of one database."""

    @property
    def phase(self) -> Phase:
        """The present phase."""

    @property
    def still_s(self) -> float:
        """Seconds without a step."""

    @property
    def still_max_s(self) -> float:
        """Seconds without a step that time limits explain; after more, it hangs."""

    @property
    def is_paused(self) -> bool:
        """Whether an operator has paused it."""

    def records(self) -> dict[TableName, TableRecord]:
        """Return the record of each table."""

    def measure(self) -> None:
        """Set the figures that are computed from others, before they are read."""

    def status(self) -> DaemonStatus:
        """Return the whole status."""


class PublisherBoard:
    """The present state of one publisher.

    Attributes:
        estimates: rows of the source tables that are or were in their snapshot, as the server
            estimates them; None if it estimates none, or if a condition leaves rows out.
    """

    def __init__(self, runtime: Runtime, stopped: StoppedTables) -> None:
        self._runtime = runtime
        self._phase: Phase = "starting"
        self._since_ms = runtime.clock.now_ms()
        self._turned_at = runtime.clock.monotonic()
        self._stopped = stopped
        self._state: PublisherState | None = None
        self.estimates: dict[TableName, int | None] = {}

    # -- for the publisher -------------------------------------------------------------------------

    def enter(self, phase: Phase) -> None:
        """Start another phase."""
        if phase != self._phase:
            self._phase, self._since_ms = phase, self._runtime.clock.now_ms()
        self.turned()

    def turned(self) -> None:
        """Note that it has taken a step."""
        self._turned_at = self._runtime.clock.monotonic()

    def set_state(self, state: PublisherState) -> None:
        """Start another session, with its state."""
        self._state = state

    # -- for the endpoint --------------------------------------------------------------------------

    @property
    def is_read(self) -> bool:
        """Whether there is an endpoint; without one, nothing needs to be measured for it."""
        return self._runtime.config.metrics_port is not None

    @property
    def still_s(self) -> float:
        """Seconds without a step."""
        return self._runtime.clock.monotonic() - self._turned_at

    @property
    def still_max_s(self) -> float:
        """Seconds without a step that time limits explain; beyond it, it hangs."""
        config = self._runtime.config
        waits = config.heartbeat_s + config.retry_backoff_max_s + config.source.query_timeout_s
        return waits + config.kafka.commit_timeout_s + config.kafka.start_timeout_s + _START_S

    @property
    def phase(self) -> Phase:
        """The present phase."""
        return "paused" if self._phase == "running" and self.is_paused else self._phase

    def measure(self) -> None:
        """Set the figures that are computed from others, before they are read."""
        self._runtime.metrics.show(self.tables())

    @property
    def is_paused(self) -> bool:
        """Whether an operator has paused the publisher."""
        return self._state is not None and self._state.paused_since_ms is not None

    def records(self) -> dict[TableName, TableRecord]:
        """Return the record of each table of :meth:`tables`."""
        if self._state is None:
            return {}
        known = {table.table for table in self.tables()}
        return {n: r for n, r in self._state.records().items() if n.in_database in known}

    def status(self) -> DaemonStatus:
        """Return the whole status."""
        metrics, state = self._runtime.metrics, self._state
        paused_ms = None if state is None or self.phase != "paused" else state.paused_since_ms
        config = self._runtime.config
        return DaemonStatus(
            program="publisher",
            state=self.phase,
            since_ms=paused_ms or self._since_ms,
            now_ms=self._runtime.clock.now_ms(),
            prefix=config.prefix,
            database=config.source.database,
            closed_lsn=None if state is None else str(state.closed_lsn),
            closed_commit_ms=metrics.closed_commit_ms,
            lag_s=metrics.value("tailrace_lag_seconds"),
            figures={name: metrics.value(figure) for name, figure in _FIGURES.items()},
            tables=by_name(self.tables()),
            errors=metrics.failures.newest_first(),
        )

    def tables(self) -> list[TableStatus]:
        """Return the tables that have a record or are missing."""
        state = self._state
        if state is None:
            return []
        rows = self._runtime.metrics.rows_by_topic()
        missing = self._stopped.missing()
        found = []
        never_published = dict.fromkeys(missing, TableRecord())
        for name, record in (never_published | state.records()).items():
            if record.state is TableState.MISSING and name not in missing:
                continue
            found.append(self._table(name, record, rows, missing.get(name)))
        return found

    def _table(
        self, name: TableName, record: TableRecord, rows: dict[str, int], missing: str | None
    ) -> TableStatus:
        try:
            topic = self._runtime.config.topics.data(name)
        except ValueError:  # its name is too long for one
            topic = ""
        is_unread = record.state in UNREAD
        is_carried = is_unread or record.state is TableState.HALTED
        is_in_cut = record.state in WHOLE and missing is None
        closed = None if self._state is None else str(self._state.closed_lsn)
        state_name = _STATES.get(record.state, record.state.value)
        estimate = self.estimates.get(name)
        left_s = None
        if is_unread and estimate is not None and not (record.snapshot_paused or self.is_paused):
            left_s = self._runtime.metrics.pace.left_s(name, estimate)
        reason = _HALTED if record.state is TableState.HALTED else record.stopped_reason
        return TableStatus(
            table=f"{name.schema}.{name.table}",
            topic=topic,
            state=state_name if missing is None else "missing",
            lsn=closed if is_in_cut or (is_carried and missing is None) else None,
            rows=rows.get(topic, 0),
            snapshot_rows=record.snapshot_rows,
            snapshot_bytes=record.snapshot_bytes,
            snapshot_estimate=estimate,
            snapshot_left_s=left_s,
            snapshot_paused=record.snapshot_paused,
            schema_lsn=None if record.schema_lsn is None else str(record.schema_lsn),
            reason=reason if missing is None else missing,
        )
