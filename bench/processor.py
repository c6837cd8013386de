"""Processor seconds of processes with all that they started, read from /proc.

On a machine with other load they say more than seconds of the clock. The time of a child that has
ended is counted once its parent has waited for it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
_PARENT, _TIMES = 1, slice(11, 15)
"""Fields of /proc/PID/stat after the name: parent; own and children's user and system time."""


def processor_s(roots: Iterable[int]) -> float:
    """Return the processor seconds so far of these processes and all their descendants."""
    stats = {int(path.name): _stat(path) for path in Path("/proc").glob("[0-9]*")}
    children: dict[int, list[int]] = {}
    for pid, fields in stats.items():
        if fields:
            children.setdefault(int(fields[_PARENT]), []).append(pid)
    waiting, ticks = list(dict.fromkeys(roots)), 0
    while waiting:
        pid = waiting.pop()
        ticks += sum(map(int, (stats.get(pid) or [])[_TIMES]))
        waiting += children.get(pid, [])
    return ticks / _TICKS_PER_S


def _stat(process: Path) -> list[str]:
    try:
        text = (process / "stat").read_text(encoding="utf-8")
    except OSError:  # it has ended
        return []
    return text.rpartition(")")[2].split()
