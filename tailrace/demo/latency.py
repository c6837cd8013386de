"""Latency figures: how long after its commit a change was in its topic, and in the lake."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Seconds; ``count`` is the number of changes they are of."""

    count: int
    p50_s: float
    p99_s: float


def percentiles(latencies_s: Sequence[float]) -> Percentiles | None:
    """The median and the 99th percentile (nearest rank), or None of nothing."""
    if not latencies_s:
        return None
    ordered = sorted(latencies_s)
    count = len(ordered)
    return Percentiles(count, ordered[(count - 1) // 2], ordered[min(count - 1, count * 99 // 100)])


def by_closing(
    commits: Sequence[tuple[str, int]], closings: Sequence[tuple[str, int]]
) -> list[float]:
    """Seconds from each commit to the first closing at or above its LSN.

    Args:
        commits: (commit LSN as text, commit time in ms) of each change.
        closings: (closed LSN as text, time in ms at which it was closed), in order.

    Returns:
        One latency per change that a closing covers. Times of two machines' clocks may make a
        small one negative: it is given as it is.
    """
    lsns = [lsn for lsn, _ in closings]
    latencies = []
    for lsn, commit_ms in commits:
        index = bisect_left(lsns, lsn)
        if index < len(closings):
            latencies.append((closings[index][1] - commit_ms) / 1000)
    return latencies
