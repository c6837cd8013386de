"""Watches the backlog while the sink runs, by the counters of its metrics."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import structlog
from pyspark.sql import SparkSession

from tailrace_service.status import Backlog
from tailrace_sink.watch.backlog import BacklogPace, Carried, RunningBatch, WaitingChanges
from tailrace_sink.watch.metrics import SinkMetrics
from tailrace_sink.watch.task_rows import TaskRows

_LOOK_S: Final = 1.0
_LOG_S: Final = 10.0
_END_S: Final = 5.0
"""Seconds to wait for a JVM that does not answer."""

_log = structlog.get_logger("tailrace.sink")


class BacklogWatch:
    """What watches; the fold's thread reports its plans."""

    def __init__(
        self,
        metrics: SinkMetrics,
        spark: SparkSession,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._metrics = metrics
        self._spark = spark
        self._monotonic = monotonic
        self._pace, self._waiting = BacklogPace(), WaitingChanges()
        self._batch = RunningBatch(Carried(), Carried())
        self._logged_s = float("-inf")

    def stepped(self, step: str) -> None:
        """Record a step of the sink (``hooks``)."""
        if step == "planned":
            log, tables = self._metrics.carried("log"), self._metrics.carried("tables")
            self._waiting.planned(log, tables)
            whole = Carried(*self._metrics.batch)
            # Only a large batch takes long enough for anyone to look.
            is_large = Backlog(0, whole.changes).is_large
            rows = TaskRows(self._spark).count if is_large else None
            self._batch = RunningBatch(self._committed(), whole, rows)

    def look(self) -> None:
        """Observe the backlog now, and log it from time to time."""
        log, (_, waiting) = self._metrics.carried("log"), self._metrics.carried("tables")
        carried = self._batch.carried(self._committed())
        left = self._waiting.left(log, (carried.changes, waiting))
        now_s = self._monotonic()
        backlog = self._pace.observe(now_s, carried, left)
        self._metrics.backlogged(backlog)
        if backlog.is_large and now_s - self._logged_s >= _LOG_S:
            self._logged_s = now_s
            _log.info(
                "backlog_progress",
                done=backlog.done,
                left=backlog.left,
                changes_per_s=_rounded(backlog.per_s),
                bytes_per_s=_rounded(backlog.bytes_per_s),
                left_s=_rounded(backlog.left_s),
            )

    def _committed(self) -> Carried:
        changes, _ = self._metrics.carried("tables")
        return Carried(changes, int(self._metrics.value("tailrace_sink_change_bytes_total") or 0))


def _rounded(value: float | None) -> int | None:
    return None if value is None else round(value)


@contextmanager
def watched_backlog(metrics: SinkMetrics, spark: SparkSession) -> Iterator[BacklogWatch]:
    """Watch the backlog while the block runs."""
    over, watch = threading.Event(), BacklogWatch(metrics, spark)

    def look() -> None:
        while not over.wait(_LOOK_S):
            watch.look()

    looking = threading.Thread(target=look, name="backlog", daemon=True)
    looking.start()
    try:
        yield watch
    finally:
        over.set()
        looking.join(_END_S)
        if not looking.is_alive():
            watch.look()
