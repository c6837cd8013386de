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


@contextmanager
def watched_backlog(metrics: SinkMetrics) -> Iterator[None]:
    """Watch the backlog while the block runs."""
    over, pace, waiting = threading.Event(), BacklogPace(), WaitingChanges()

    def look() -> None:
        tables = metrics.carried("tables")
        left = waiting.left(metrics.carried("log"), tables)
        metrics.backlogged(pace.observe(time.monotonic(), tables[0], left))

    def look_until_over() -> None:
        while not over.wait(_LOOK_S):
            look()

    looking = threading.Thread(target=look_until_over, name="backlog", daemon=True)
    looking.start()
    try:
        yield
    finally:
        over.set()
        looking.join()
        look()
