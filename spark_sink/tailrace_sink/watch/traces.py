"""The sink's spans: when a Kafka transaction reached the log, and the tables.

The progress records of Kafka transactions determine which of them are traced.
"""

from __future__ import annotations

from collections.abc import Iterable

import structlog

from tailrace_schemas.records.progress import PartitionProgress, Progress
from tailrace_service.tracing.export import TracingUnavailable, open_traces
from tailrace_service.tracing.traces import Span, TraceKey, Traces
from tailrace_sink.errors import ConfigError
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.plan.progress_record import ProgressRecord
from tailrace_sink.plan.sink_state import SinkState

_log = structlog.get_logger("tailrace.sink")


class SinkTraces:
    """Sender of the sink's spans; does nothing unless tracing is configured.

    Raises:
        ConfigError: tracing is configured and cannot start.
    """

    def __init__(self, config: SinkConfig) -> None:
        self._prefix = config.prefix
        try:
            self._traces: Traces | None = open_traces(config.tracing, "tailrace-sink")
        except TracingUnavailable as error:
            raise ConfigError([str(error)]) from error
        if self._traces is not None:
            _log.info("traces_sent", endpoint=config.tracing.endpoint, ratio=config.tracing.ratio)

    def close(self) -> None:
        """Send the waiting spans."""
        if self._traces is not None:
            self._traces.close()

    def logged(
        self, records: Iterable[ProgressRecord], batch: int, began_s: float, ended_s: float
    ) -> None:
        """Record a cut that was appended to the log.

        Args:
            began_s: start of the append, seconds since 1970.
            ended_s: end of its commit, seconds since 1970.
        """
        if self._traces is not None:
            self._send(self._traces, "log", records, batch, began_s, ended_s)

    def folded(
        self, waiting: Iterable[ProgressRecord], state: SinkState, began_s: float, ended_s: float
    ) -> None:
        """Record a batch that was applied to the tables.

        Args:
            waiting: progress records, including those of the batch.
            state: the one after the batch.
            began_s: start of the batch, seconds since 1970.
            ended_s: time of its commit row, seconds since 1970.
        """
        if self._traces is None:
            return
        passed = 0 if state.position is None else state.position.next_offset
        records = [r for r in waiting if r.offset < passed]
        self._send(self._traces, "fold", records, state.batch, began_s, ended_s)

    def _send(
        self,
        traces: Traces,
        name: str,
        records: Iterable[ProgressRecord],
        batch: int,
        began_s: float,
        ended_s: float,
    ) -> None:
        span = Span(name, round(began_s * 1000), round(ended_s * 1000), {"tailrace.batch": batch})
        for record in records:
            key = self._key_of(record.progress)
            if key is not None and traces.wants(key):
                traces.send(key, span)

    def _key_of(self, progress: Progress) -> TraceKey | None:
        """Key of a transaction's trace; None if it closes no LSN or has no changes."""
        if not progress.closed or progress.closed_lsn == progress.after_lsn:
            return None
        if not any(_has_changes(part) for part in progress.partitions):
            return None
        return TraceKey(self._prefix, progress.database, progress.shard, progress.closed_lsn)


def _has_changes(part: PartitionProgress) -> bool:
    """Whether the record counts changes other than snapshot rows, or no operations at all."""
    return part.count > (0 if part.operations is None else part.operations.reads)
