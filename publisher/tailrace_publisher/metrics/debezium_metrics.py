"""Figures under the names that users of Debezium know: its JMX names in snake case.

https://debezium.io/documentation/reference/stable/connectors/sqlserver.html#sqlserver-monitoring
They are computed from ours at the scrape, so they cost the publisher nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Gauge

from tailrace_service.status import UNREAD_STATES, TableStatus


@dataclass(frozen=True, slots=True)
class StreamFigures:
    """The figures of the stream.

    Attributes:
        lag_s: lag of the topics, seconds; None while unknown.
        since_event_s: seconds since an event was last committed; None before the first.
        events: committed since the start.
        filtered: left out by options, since the start.
    """

    lag_s: float | None
    since_event_s: float | None
    events: int
    filtered: int
    transactions: int
    is_connected: bool


class DebeziumMetrics:
    """Debezium's gauges in a registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"tailrace_{name}", f"Debezium's {text}", labels, registry=registry)

        self._behind = gauge(
            "milliseconds_behind_source",
            "MilliSecondsBehindSource: tailrace_lag_seconds in milliseconds.",
        )
        self._since_event = gauge(
            "milliseconds_since_last_event",
            "MilliSecondsSinceLastEvent: milliseconds since an event was last committed.",
        )
        self.last_event = gauge(
            "last_event",
            "LastEvent: topic and operation of the event that was committed last.",
            "topic",
            "operation",
        )
        self._seen = gauge(
            "total_number_of_events_seen",
            "TotalNumberOfEventsSeen: events committed or left out since the start.",
        )
        self._filtered = gauge(
            "number_of_events_filtered",
            "NumberOfEventsFiltered: events left out by the options of skip.",
        )
        self._transactions = gauge(
            "number_of_committed_transactions",
            "NumberOfCommittedTransactions: source transactions seen.",
        )
        self._connected = gauge("connected", "Connected: 1 while changes are being published.")
        self._captured = gauge("captured_tables", "CapturedTables: how many are published.")
        self._total = gauge(
            "total_table_count", "TotalTableCount: tables with or without a snapshot."
        )
        self._remaining = gauge(
            "remaining_table_count", "RemainingTableCount: tables whose snapshot is not finished."
        )
        self._running = gauge("snapshot_running", "SnapshotRunning: 1 while a snapshot is read.")
        self._paused = gauge("snapshot_paused", "SnapshotPaused: 1 while a snapshot is paused.")
        self._aborted = gauge(
            "snapshot_aborted", "SnapshotAborted: 1 while a snapshot is halted by an operator."
        )
        self._completed = gauge(
            "snapshot_completed", "SnapshotCompleted: 1 once all snapshots are published."
        )
        self._scanned = gauge(
            "rows_scanned", "RowsScanned: rows published of unfinished snapshots.", "table"
        )

    def show(self, stream: StreamFigures, tables: Iterable[TableStatus]) -> None:
        """Set the gauges from the stream's figures and the tables' status."""
        self._behind.set(_milliseconds(stream.lag_s))
        self._since_event.set(_milliseconds(stream.since_event_s))
        self._seen.set(stream.events + stream.filtered)
        self._filtered.set(stream.filtered)
        self._transactions.set(stream.transactions)
        self._connected.set(stream.is_connected)
        self._show_snapshots([t for t in tables if t.state != "missing"])

    def _show_snapshots(self, tables: list[TableStatus]) -> None:
        unread = [table for table in tables if table.state in UNREAD_STATES]
        halted = any(table.state == "halted" for table in tables)
        self._captured.set(sum(table.state not in {"lost", "stopped"} for table in tables))
        self._total.set(len(tables))
        self._remaining.set(len(unread))
        self._running.set(any(not table.snapshot_paused for table in unread))
        self._paused.set(any(table.snapshot_paused for table in unread))
        self._aborted.set(halted)
        self._completed.set(bool(tables) and not unread and not halted)
        self._scanned.clear()
        for table in unread:
            self._scanned.labels(table=table.table).set(table.snapshot_rows or 0)


def _milliseconds(seconds: float | None) -> float:
    return math.nan if seconds is None else round(seconds * 1000)
