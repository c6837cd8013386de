"""The publisher's metrics for Prometheus."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from tailrace_publisher.metrics.debezium_metrics import DebeziumMetrics, StreamFigures
from tailrace_publisher.metrics.snapshot_pace import SnapshotPace
from tailrace_publisher.metrics.trend import Trend
from tailrace_service.status import UNREAD_STATES, LastFailures, TableStatus, finite


class Metrics:
    """Counters and gauges of one publisher in a registry of their own.

    Args:
        clock: seconds since the epoch.

    Attributes:
        failures: the last logged errors.
        pace: how fast snapshots progress.
        retention_s: how long the source keeps change rows, seconds; None if unknown.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.registry = CollectorRegistry()
        self.failures = LastFailures()
        self.pace = SnapshotPace(clock)
        self._clock = clock
        self.rows = Counter(
            "tailrace_rows",
            "Events committed, snapshot rows included.",
            ["topic"],
            registry=self.registry,
        )
        self.snapshot_rows = Counter(
            "tailrace_snapshot_rows", "Snapshot rows committed.", ["topic"], registry=self.registry
        )
        self.snapshot_bytes = Counter(
            "tailrace_snapshot_bytes",
            "Bytes of the values of snapshot rows committed.",
            ["topic"],
            registry=self.registry,
        )
        self.snapshot_estimate = Gauge(
            "tailrace_snapshot_estimated_rows",
            "Rows of a running snapshot, as the server estimates them.",
            ["topic"],
            registry=self.registry,
        )
        self.snapshot_left = Gauge(
            "tailrace_snapshot_left_seconds",
            "Remaining seconds of a running snapshot, by the pace of its last chunks.",
            ["topic"],
            registry=self.registry,
        )
        self.skipped = Counter(
            "tailrace_skipped",
            "Events left out by the options of skip; a restart counts those that it rereads again.",
            ["topic"],
            registry=self.registry,
        )
        self.dead_letters = Counter(
            "tailrace_dead_letters",
            "Events published as dead letters instead of to their topic (on_bad_event).",
            ["table"],
            registry=self.registry,
        )
        self.transactions = Counter(
            "tailrace_transactions", "Source transactions seen.", registry=self.registry
        )
        self.commits = Counter(
            "tailrace_commits", "Kafka transactions committed.", registry=self.registry
        )
        self.queries = Counter(
            "tailrace_source_queries", "Statements sent to SQL Server.", registry=self.registry
        )
        self.queries_per_poll = Histogram(
            "tailrace_queries_per_poll",
            "Statements sent to SQL Server in one poll.",
            buckets=(1, 2, 3, 4, 5, 8, 16, 32, 64, 128, 256),
            registry=self.registry,
        )
        self.retries = Counter(
            "tailrace_retries",
            "Restarts after an error that may pass by waiting.",
            ["error"],
            registry=self.registry,
        )
        self.up = Gauge(
            "tailrace_up", "1 while changes are being published.", registry=self.registry
        )
        self.paused = Gauge(
            "tailrace_paused",
            "1 while an operator has paused the publisher: it runs, but publishes nothing.",
            registry=self.registry,
        )
        self.last_commit = Gauge(
            "tailrace_last_commit_timestamp_seconds",
            "When the last Kafka transaction was committed.",
            registry=self.registry,
        )
        self.closed_commit_time = Gauge(
            "tailrace_through_commit_timestamp_seconds",
            "Source commit time up to which everything is published.",
            registry=self.registry,
        )
        self._closed_commit_s = math.nan
        self.lag_seconds = Gauge(
            "tailrace_lag_seconds",
            "Now minus the source commit time up to which everything is published, including the"
            " capture job's latency; NaN while unknown.",
            registry=self.registry,
        )
        # Computed at the scrape, so that the lag of a publisher that hangs also grows.
        self.lag_seconds.set_function(self._lag_s)
        self.capture_scan_age_seconds = Gauge(
            "tailrace_capture_scan_age_seconds",
            "Age of the newest log scan session of the capture job, 0 while one runs; NaN if the"
            " login may not see it.",
            registry=self.registry,
        )
        self.capture_latency_seconds = Gauge(
            "tailrace_capture_latency_seconds",
            "Seconds by which the capture job lags the log, by its newest scan sessions; NaN if the"
            " login may not see them.",
            registry=self.registry,
        )
        self.log_backlog_bytes = Gauge(
            "tailrace_log_backlog_bytes",
            "Estimated bytes of transaction log that the capture job has not read; NaN if the login"
            " may not see them.",
            registry=self.registry,
        )
        self.snapshotting = Gauge(
            "tailrace_snapshotting_tables",
            "Tables whose snapshot is not finished.",
            registry=self.registry,
        )
        self.stopped_tables = Gauge(
            "tailrace_stopped_tables",
            "1 for a stopped table, which is not published any more.",
            ["table"],
            registry=self.registry,
        )
        self.rotation_refused = Gauge(
            "tailrace_rotation_refused",
            "1 while SQL Server refuses to create or drop a capture instance of the table.",
            ["table"],
            registry=self.registry,
        )
        self.lake_wait = Gauge(
            "tailrace_lake_wait_seconds",
            "Age of the newest commit in the log of a lake that is waited for (lakes); 0 if it has"
            " everything that is published, +Inf while its position is unknown.",
            ["group"],
            registry=self.registry,
        )
        self.retention_s: float | None = None
        self._unpublished = Trend(clock, is_lag=True)
        self._retention_left = Gauge(
            "tailrace_retention_left_seconds",
            "Seconds until cleanup may remove what is not published, if the lag grows as in the"
            " last hours; +Inf if it does not grow, NaN while that or the retention is unknown.",
            registry=self.registry,
        )
        self._retention_left.set_function(self.retention_left_s)
        self._log_used = Trend(clock, is_lag=False)
        self._log_limit = math.nan
        self._disk_used = Trend(clock, is_lag=False)
        log_full = Gauge(
            "tailrace_log_full_seconds",
            "Seconds until the source's transaction log is full, if it grows as in the last hours;"
            " +Inf if it does not grow, NaN while that or its limit is unknown.",
            registry=self.registry,
        )
        log_full.set_function(self.log_full_s)
        disk_full = Gauge(
            "tailrace_disk_full_seconds",
            "Seconds until the volume of the source's data files is full, likewise; NaN if the"
            " login may not see it (VIEW SERVER STATE).",
            registry=self.registry,
        )
        disk_full.set_function(self.disk_full_s)
        self._debezium = DebeziumMetrics(self.registry)
        self._event_s = math.nan

    def event_committed(self, topic: str, operation: str) -> None:
        """Record the last event of a committed Kafka transaction."""
        self._event_s = self._clock()
        last = self._debezium.last_event
        last.clear()
        last.labels(topic=topic, operation=operation).set(1)

    def show(self, tables: Iterable[TableStatus]) -> None:
        """Set what is computed from other figures; call it before they are read."""
        found = tuple(tables)
        self.snapshot_estimate.clear()
        self.snapshot_left.clear()
        for table in found:
            if table.state not in UNREAD_STATES:
                continue
            if table.snapshot_estimate is not None:
                self.snapshot_estimate.labels(topic=table.topic).set(table.snapshot_estimate)
            if table.snapshot_left_s is not None:
                self.snapshot_left.labels(topic=table.topic).set(table.snapshot_left_s)
        since_s = self._clock() - self._event_s
        stream = StreamFigures(
            lag_s=finite(self._lag_s()),
            since_event_s=finite(max(since_s, 0.0)) if math.isfinite(since_s) else None,
            events=sum(self.rows_by_topic().values()),
            filtered=sum(_by_topic(self.skipped).values()),
            transactions=int(self.value("tailrace_transactions_total") or 0),
            is_connected=self.value("tailrace_up") == 1,
        )
        self._debezium.show(stream, found)

    def committed(self, closed_commit_ms: int | None) -> None:
        """Record a committed Kafka transaction."""
        self.commits.inc()
        self.last_commit.set(self._clock())
        if closed_commit_ms is not None:
            self._closed_commit_s = closed_commit_ms / 1000
            self.closed_commit_time.set(self._closed_commit_s)

    def failed(self, error: Exception | str, reason: str, table: str | None = None) -> None:
        """Store a logged error, with the time.

        Args:
            error: the error, or its class.
            reason: the text of the error.
            table: None if it affects all tables.
        """
        self.failures.add(round(self._clock() * 1000), error, reason, table)

    def note_unpublished(self, *, is_caught_up: bool) -> None:
        """Record the age of the oldest change that is not published."""
        self._unpublished.note(0.0 if is_caught_up else self._lag_s())

    def retention_left_s(self) -> float:
        """Return the seconds until cleanup may remove what is not published.

        Returns:
            Infinity if the lag does not grow; NaN while it or the retention is unknown.
        """
        return self._unpublished.seconds_until(
            math.nan if self.retention_s is None else self.retention_s
        )

    def note_space(self, log_used: int, log_limit: int | None, disk_free: int | None) -> None:
        """Record the source's space, in bytes; None for what is unknown."""
        self._log_limit = math.nan if log_limit is None else log_limit
        self._log_used.note(log_used)
        if disk_free is not None:
            self._disk_used.note(-disk_free)

    def log_full_s(self) -> float:
        """Return the seconds until the source's log is full; infinity if it does not grow."""
        return self._log_used.seconds_until(self._log_limit)

    def disk_full_s(self) -> float:
        """Return the seconds until the volume of the data files is full; likewise."""
        return self._disk_used.seconds_until(0.0)

    @property
    def closed_commit_ms(self) -> int | None:
        """Source commit time up to which everything is published, milliseconds UTC."""
        known = math.isfinite(self._closed_commit_s)
        return round(self._closed_commit_s * 1000) if known else None

    def value(self, name: str) -> float | None:
        """Return a figure without labels; None if it is unknown."""
        return finite(self.registry.get_sample_value(name))

    def rows_by_topic(self) -> dict[str, int]:
        """Return the events committed since the start."""
        return _by_topic(self.rows)

    def _lag_s(self) -> float:
        lag = self._clock() - self._closed_commit_s
        return 0.0 if lag < 0 else lag


def _by_topic(counter: Counter) -> dict[str, int]:
    return {
        sample.labels["topic"]: int(sample.value)
        for metric in counter.collect()
        for sample in metric.samples
        if sample.name.endswith("_total")
    }
