"""Processor seconds of processes with all that they started, read from /proc.

On a machine with other load they say more than seconds of the clock. The time of a child that has
ended is counted once its parent has waited for it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
_PARENT, _TIMES = 1, slice(11, 15)
"""Fields of /proc/PID/stat after the name: parent; own and children's user and system time."""


def processor_s(roots: Iterable[int], without: Collection[int | None] = ()) -> float:
    """Return the processor seconds so far of these processes and all their descendants.

    Args:
        without: processes that are left out with all that they started.
    """
    stats = {int(path.name): _stat(path) for path in Path("/proc").glob("[0-9]*")}
    children: dict[int, list[int]] = {}
    for pid, fields in stats.items():
        if fields:
            children.setdefault(int(fields[_PARENT]), []).append(pid)
    waiting, ticks = list(dict.fromkeys(roots)), 0
    while waiting:
        pid = waiting.pop()
        if pid in without:
            continue
        ticks += sum(map(int, (stats.get(pid) or [])[_TIMES]))
        waiting += children.get(pid, [])
    return ticks / _TICKS_PER_S


def _stat(process: Path) -> list[str]:
    try:
        text = (process / "stat").read_text(encoding="utf-8")
    except OSError:  # it has ended
        return []
    return text.rpartition(")")[2].split()


@dataclass(frozen=True, slots=True)
class Spent:
    """Seconds of the clock and of the processor."""

    clock_s: float
    processor_s: float


class Stopwatch:
    """Measures this process and all that it started, without the processes of some servers."""

    def __init__(self, servers: Collection[int | None] = ()) -> None:
        self._servers = servers
        self._since = self._now()

    def spent(self) -> Spent:
        """Return what was spent since the watch was started."""
        clock, processor = self._now()
        return Spent(clock - self._since[0], processor - self._since[1])

    def _now(self) -> tuple[float, float]:
        return time.perf_counter(), processor_s([os.getpid()], self._servers)
