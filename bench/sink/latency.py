"""From a commit in the topics to the lake's readers, while the sink runs as it is run."""

from __future__ import annotations

import math
import random
import statistics
import threading
import time
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any, Final

from pyspark.sql import SparkSession

from bench.sink.topics import Change, Topics
from tailrace_sink.daemon.application import serve
from tailrace_sink.options.config import SinkConfig

Figures = dict[str, Any]

_TABLES: Final = 3
_SEEN: Final[list[tuple[float, str, str]]] = []


def latency(spark: SparkSession, config: SinkConfig, topics: Topics, seconds: int) -> Figures:
    """Run the sink, publish 300 changes each second and record when they are visible.

    Args:
        topics: those of three tables.
        seconds: how long; the first half is not counted: the JVM compiles what Spark plans with.

    Returns:
        Seconds from the commit in the topics, as_of and in the bare tables.
    """
    chance, known = random.Random(7), 2_000  # noqa: S311 - data
    topics.publish(Change(table, "c", key) for table in range(_TABLES) for key in range(known))
    stop, begun = threading.Event(), threading.Event()
    sink = threading.Thread(
        target=serve, args=(spark, config, stop), kwargs={"on_ready": begun.set}
    )
    _SEEN.clear()
    sink.start()
    published: list[tuple[str, float]] = []
    try:
        begun.wait(120)
        next_at = time.monotonic()
        for cut in range(seconds):
            first = known + cut * 100
            changes = [Change(n % _TABLES, "u", chance.randrange(known)) for n in range(200)]
            changes += [Change(n % _TABLES, "c", first + n) for n in range(100)]
            published.append((topics.publish(changes), time.monotonic()))
            next_at += 1
            stop.wait(max(0.0, next_at - time.monotonic()))
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and not _after(published[-1][0], "batch_committed"):
            stop.wait(0.2)
    finally:
        stop.set()
        sink.join()
    measured = published[len(published) // 2 :]  # what is behind the warm-up
    figures: Figures = {"changes_per_s": 300, "seconds": len(measured)}
    for name, event in (("as_of", "cut_logged"), ("bare_tables", "batch_committed")):
        took = [(_after(lsn, event) or math.inf) - at for lsn, at in measured]
        figures[name] = spread(took)
    return figures


def seen(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
    """Return when the sink logged which LSN was where."""
    if "closed_lsn" in event:
        _SEEN.append((time.monotonic(), event["event"], event["closed_lsn"]))
    return event


def _after(lsn: str, event: str) -> float | None:
    """Return when an event first reported an LSN or a later one."""
    found = (at for at, name, closed in list(_SEEN) if name == event and closed >= lsn)
    return next(found, None)


def spread(seconds: Sequence[float]) -> Figures:
    """Median, 99th percentile and slowest of some durations."""
    ordered = sorted(seconds)
    last = len(ordered) - 1
    return {
        "p50_s": round(statistics.median(ordered), 2),
        "p99_s": round(ordered[min(last, round(last * 0.99))], 2),
        "slowest_s": round(ordered[-1], 2),
    }
