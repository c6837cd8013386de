"""Watches the backlog while the sink runs, by the counters of its metrics."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tailrace_sink.watch.backlog import BacklogPace, WaitingChanges
from tailrace_sink.watch.metrics import SinkMetrics

_LOOK_S: Final = 1.0


class BacklogWatch:
    """What watches; the fold's thread reports its plans."""

    def __init__(self, metrics: SinkMetrics) -> None:
        self._metrics = metrics
        self._pace, self._waiting = BacklogPace(), WaitingChanges()

    def stepped(self, step: str) -> None:
        """Record a step of the sink (``hooks``)."""
        if step == "planned":
            self._waiting.planned(*self._counters())

    def look(self) -> None:
        """Observe the backlog now."""
        log, tables = self._counters()
        left = self._waiting.left(log, tables)
        self._metrics.backlogged(self._pace.observe(time.monotonic(), tables[0], left))

    def _counters(self) -> tuple[tuple[int, int], tuple[int, int]]:
        return self._metrics.carried("log"), self._metrics.carried("tables")


@contextmanager
def watched_backlog(metrics: SinkMetrics) -> Iterator[BacklogWatch]:
    """Watch the backlog while the block runs."""
    over, watch = threading.Event(), BacklogWatch(metrics)

    def look() -> None:
        while not over.wait(_LOOK_S):
            watch.look()

    looking = threading.Thread(target=look, name="backlog", daemon=True)
    looking.start()
    try:
        yield watch
    finally:
        over.set()
        looking.join()
        watch.look()
