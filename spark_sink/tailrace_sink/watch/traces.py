"""The sink's part of traces: when a Kafka transaction is in the log, and in the tables.

Which Kafka transactions are traced follows from their progress records, which the sink has anyway.
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
    """Sends the sink's spans; does nothing where the options want none.

    Args:
        config: the options.

    Raises:
        ConfigError: traces are wanted and cannot be made.
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
        """Send what waits."""
        if self._traces is not None:
            self._traces.close()

    def logged(
        self, records: Iterable[ProgressRecord], batch: int, began_s: float, ended_s: float
    ) -> None:
        """A cut is in the log.

        Args:
            records: its progress records.
            batch: its number.
            began_s: when its append began, seconds since 1970.
            ended_s: when it was there.
        """
        if self._traces is not None:
            self._send(self._traces, "log", records, batch, began_s, ended_s)

    def folded(
        self, waiting: Iterable[ProgressRecord], state: SinkState, began_s: float, ended_s: float
    ) -> None:
        """A batch is in the tables.

        Args:
            waiting: progress records, those of the batch among them.
            state: behind the batch.
            began_s: when it began, seconds since 1970.
            ended_s: when its commit row was written.
        """
        if self._traces is None:
            return
        passed = {shard: position.next_offset for shard, position in state.shards.items()}
        records = [r for r in waiting if r.offset < passed.get(r.progress.shard, 0)]
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
        """The trace of a Kafka transaction; None where it closes no LSN, or has no changes."""
        if not progress.closed or progress.closed_lsn == progress.after_lsn:
            return None
        if not any(_has_changes(part) for part in progress.partitions):
            return None
        return TraceKey(self._prefix, progress.database, progress.shard, progress.closed_lsn)


def _has_changes(part: PartitionProgress) -> bool:
    """Whether there is more than rows of snapshots, as far as the record tells."""
    return part.count > (0 if part.operations is None else part.operations.reads)
