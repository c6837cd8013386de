"""The sink's status, computed when the threads of its endpoint read it.

States of log and tables are immutable values; their threads replace them.
"""

from __future__ import annotations

import time
from typing import Final, Literal

from tailrace_service.status import DaemonStatus, TableStatus, by_name
from tailrace_sink.daemon.sink import Sink
from tailrace_sink.errors import EXCLUDED
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.plan.sink_state import SinkState
from tailrace_sink.watch.hang_detector import Steps
from tailrace_sink.watch.metrics import SinkMetrics

Phase = Literal["starting", "running", "retrying", "ended"]

_FIGURES: Final = {
    "cuts": "tailrace_sink_cuts_total",
    "batches": "tailrace_sink_batches_total",
    "changes_in_log": "tailrace_sink_cut_changes_total",
    "changes_in_tables": "tailrace_sink_changes_total",
}


class SinkBoard:
    """The present status of one sink.

    Attributes:
        steps: detects whether the sink hangs.
    """

    def __init__(self, config: SinkConfig, metrics: SinkMetrics) -> None:
        self._config = config
        self._metrics = metrics
        self._phase: Phase = "starting"
        self._since_ms = _now_ms()
        self._sink: Sink | None = None
        self.steps = Steps(config.hang_s)

    def open(self, sink: Sink) -> None:
        """Set the sink."""
        self._sink = sink

    def enter(self, phase: Phase) -> None:
        """Enter a phase."""
        if phase != self._phase:
            self._phase, self._since_ms = phase, _now_ms()

    @property
    def phase(self) -> Phase:
        """The present phase."""
        return self._phase

    def status(self) -> DaemonStatus:
        """Compute the whole status."""
        metrics, sink = self._metrics, self._sink
        log = sink.log.state if sink is not None else SinkState()
        folded = sink.fold.state if sink is not None else SinkState()
        has_folded, has_logged = metrics.has_folded, metrics.has_logged
        figures = {name: metrics.value(figure) for name, figure in _FIGURES.items()}
        for stage in ("log", "tables"):
            figures[f"waiting_for_{stage}"] = metrics.carried(stage)[1]
        return DaemonStatus(
            program="sink",
            state=self._phase,
            since_ms=self._since_ms,
            now_ms=_now_ms(),
            prefix=self._config.prefix,
            database=folded.database or log.database or None,
            closed_lsn=folded.closed_lsn or None,
            closed_commit_ms=folded.closed_commit_ms,
            log_lsn=log.closed_lsn or None,
            lag_s=metrics.value("tailrace_sink_lag_seconds") if has_folded else None,
            log_lag_s=metrics.value("tailrace_sink_log_lag_seconds") if has_logged else None,
            figures=figures,
            tables=by_name(self._tables(folded, log)),
            errors=metrics.failures.newest_first(),
            backlog=metrics.backlog,
        )

    def _tables(self, folded: SinkState, log: SinkState) -> list[TableStatus]:
        found = []
        for topic in {*folded.offsets, *folded.held, *folded.stopped}:
            name = self._config.topics.table_of(topic)
            reason = folded.stopped.get(topic)
            held = folded.held.get(topic)
            state = "followed"
            if reason is not None:
                state = "excluded" if reason == EXCLUDED else "stopped"
            elif held is not None:
                state = "held"
            found.append(
                TableStatus(
                    table=topic if name is None else f"{name.schema}.{name.table}",
                    topic=topic,
                    state=state,
                    lsn=folded.closed_lsn if state == "followed" else None,
                    log_lsn=log.closed_lsn or None,
                    snapshot_rows=None if held is None else held.count,
                    reason=reason,
                )
            )
        return found


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
