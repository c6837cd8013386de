"""The sink's metrics for Prometheus."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from tailrace_service.status import Backlog, LastFailures, finite

_SECONDS = (0.1, 0.25, 0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


class SinkMetrics:
    """Counters and gauges of one sink.

    Args:
        registry: where they are registered; None: a new registry.

    Attributes:
        failures: the last reported errors.
        batch: changes of the newest planned batch, and the bytes of their values by the ledger.
        backlog: as it was last observed.
        has_logged, has_folded: whether the lag of log and of tables is known.
    """

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self.failures = LastFailures()
        self.has_logged = self.has_folded = False
        self.batch = (0, 0)
        self._cuts = Counter(
            "tailrace_sink_cuts", "Cuts appended to the log", registry=self.registry
        )
        self._cut_changes = Counter(
            "tailrace_sink_cut_changes", "Changes in cuts of the log", registry=self.registry
        )
        self.waiting = Gauge(
            "tailrace_sink_waiting_changes",
            "Published changes that are not yet in the log, or not yet in the tables",
            ["stage"],
            registry=self.registry,
        )
        self.backlog = Backlog()
        self._backlog_changes = Gauge(
            "tailrace_sink_backlog_changes",
            "Published changes that are not yet in the tables",
            registry=self.registry,
        )
        self._backlog_seconds = Gauge(
            "tailrace_sink_backlog_seconds",
            "Seconds until the backlog is empty, by the last minute; NaN while not known",
            registry=self.registry,
        )
        self._backlog_changes_per_s = Gauge(
            "tailrace_sink_backlog_changes_per_second",
            "Pace of the backlog over the last minute; NaN while not known, 0 without a backlog",
            registry=self.registry,
        )
        self._backlog_bytes_per_s = Gauge(
            "tailrace_sink_backlog_bytes_per_second",
            "The same in bytes of the values, as published",
            registry=self.registry,
        )
        self._cut_seconds = Histogram(
            "tailrace_sink_cut_seconds",
            "Duration of a cut from plan to its commit in the log",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._log_lag_seconds = Gauge(
            "tailrace_sink_log_lag_seconds",
            "Age of the newest progress record in the log; grows while none comes",
            registry=self.registry,
        )
        self._batches = Counter(
            "tailrace_sink_batches", "Batches committed to the tables", registry=self.registry
        )
        self._changes = Counter(
            "tailrace_sink_changes", "Changes in committed batches", registry=self.registry
        )
        self._change_bytes = Counter(
            "tailrace_sink_change_bytes",
            "Bytes of the values in committed batches, as published",
            registry=self.registry,
        )
        self.retries = Counter(
            "tailrace_sink_retries",
            "Attempts that failed and were repeated, by error",
            ["error"],
            registry=self.registry,
        )
        self._lag_seconds = Gauge(
            "tailrace_sink_lag_seconds",
            "Age of the newest progress record in the tables; grows while none comes",
            registry=self.registry,
        )
        self.closed_commit_seconds = Gauge(
            "tailrace_sink_through_commit_timestamp_seconds",
            "Source commit time of the LSN of the newest batch",
            registry=self.registry,
        )
        self.stopped_tables = Gauge(
            "tailrace_sink_stopped_tables",
            "1 for a table that the lake cannot follow",
            ["table"],
            registry=self.registry,
        )
        self.dead_letters = Counter(
            "tailrace_sink_dead_letters",
            "Records that could not be applied and were stored in the dead letters",
            ["table"],
            registry=self.registry,
        )
        self._batch_seconds = Histogram(
            "tailrace_sink_batch_seconds",
            "Duration of a batch from plan to commit row",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._table_seconds = Histogram(
            "tailrace_sink_table_seconds",
            "Duration of one table's part of a batch",
            ["table"],
            buckets=_SECONDS,
            registry=self.registry,
        )

    def logged(self, changes: int, seconds: float, published_ms: int) -> None:
        """Record a cut that was appended to the log."""
        self._cuts.inc()
        self._cut_changes.inc(changes)
        self._cut_seconds.observe(seconds)
        self.logged_through(published_ms)

    def logged_through(self, published_ms: int) -> None:
        """Record the time up to which the log has all that was published."""
        self.has_logged = True
        self._log_lag_seconds.set_function(lambda: time.time() - published_ms / 1000)

    def committed(self, seconds: float) -> None:
        """Record that the newest planned batch was committed to the tables."""
        changes, size = self.batch
        self._batches.inc()
        self._change_bytes.inc(size)
        self._changes.inc(changes)
        self._batch_seconds.observe(seconds)

    def folded_through(self, published_ms: int) -> None:
        """Record the time up to which the tables have all that was published."""
        self.has_folded = True
        self._lag_seconds.set_function(lambda: time.time() - published_ms / 1000)

    def backlogged(self, backlog: Backlog) -> None:
        """Record the backlog."""
        self.backlog = backlog
        self._backlog_changes.set(backlog.left)
        for gauge, value in (
            (self._backlog_seconds, backlog.left_s),
            (self._backlog_changes_per_s, backlog.per_s),
            (self._backlog_bytes_per_s, backlog.bytes_per_s),
        ):
            known = value if backlog.left else 0.0
            gauge.set(math.nan if known is None else known)

    def failed(self, error: Exception | str, reason: str, table: str | None = None) -> None:
        """Store a reported error with the time.

        Args:
            error: the error or the name of its class.
            table: None if it concerns more than one table.
        """
        self.failures.add(time.time_ns() // 1_000_000, error, reason, table)

    def value(self, name: str) -> float | None:
        """Return the value of a metric without labels; None if unknown."""
        return finite(self.registry.get_sample_value(name))

    def carried(self, stage: str) -> tuple[int, int]:
        """Count the changes that a stage (log, tables) carried since the start, and its backlog."""
        name = {"log": "tailrace_sink_cut_changes_total", "tables": "tailrace_sink_changes_total"}
        done = self.registry.get_sample_value(name[stage])
        waiting = self.registry.get_sample_value("tailrace_sink_waiting_changes", {"stage": stage})
        return int(done or 0), int(waiting or 0)

    @contextmanager
    def table_seconds(self, table: str) -> Iterator[None]:
        """Time one table's part of a batch."""
        with self._table_seconds.labels(table=table).time():
            yield
