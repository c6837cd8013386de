"""What the fold reports of tables that stop, wait or restart, and of its lag."""

from __future__ import annotations

import structlog

from tailrace_schemas.topics.topic_names import TopicNames
from tailrace_sink.errors import EXCLUDED
from tailrace_sink.plan.sink_state import BatchPlan
from tailrace_sink.watch.metrics import SinkMetrics

_log = structlog.get_logger("tailrace.sink")


class FoldReports:
    """Log events and metrics of one lake's fold."""

    def __init__(self, topics: TopicNames, metrics: SinkMetrics) -> None:
        self._topics = topics
        self._metrics = metrics

    def stopped(self, topic: str, reason: str) -> None:
        """Report a table that stopped, or that the source's configuration excluded."""
        table = self._table_of(topic)
        if reason == EXCLUDED:
            _log.info("table_excluded", table=table)
            return
        _log.error(
            "table_stopped",
            table=table,
            reason=reason,
            effect="the other tables continue; this one is not part of the lake's cuts until a new"
            " snapshot",
        )
        self._metrics.stopped_tables.labels(table=table).set(1)
        self._metrics.failed("TableStopped", reason, table)

    def waits(self, topic: str, reason: str) -> None:
        """Report a table whose snapshot is applied whole, at its end."""
        _log.info("snapshot_applied_at_its_end", table=self._table_of(topic), reason=reason)

    def restarted(self, topic: str) -> None:
        """Report a table that had stopped."""
        table = self._table_of(topic)
        _log.info("table_restarted", table=table)
        self._metrics.stopped_tables.labels(table=table).set(0)

    def lag(self, plan: BatchPlan) -> None:
        """Set the metrics of how far the tables are."""
        self._metrics.folded_through(plan.published_ms)
        if plan.following.closed_commit_ms is not None:
            self._metrics.closed_commit_seconds.set(plan.following.closed_commit_ms / 1000)

    def _table_of(self, topic: str) -> str:
        return str(self._topics.table_of(topic) or topic)
