"""The plan for people and for programs."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import timedelta
from math import ceil
from typing import Final

from tailrace.plan.plan import BYTES_PER_S, ROWS_PER_S, PlannedTable, PublishPlan
from tailrace.reading.terminal import shown, shown_json

_NAMED_MAX: Final = 20
"""Tables of one reason that the text names; JSON has all."""
_STEP: Final = 1000


def as_json(plan: PublishPlan) -> str:
    """Return the plan as one JSON object."""
    answer = {
        "tables": [asdict(table) for table in plan.tables],
        "left_out": [{"table": t, "reason": reason} for t, reason in plan.left_out.items()],
        "problems": plan.problems,
        "is_refused": plan.is_refused,
        "snapshot_s": plan.snapshot_s,
        "assumed": {"rows_per_s": ROWS_PER_S, "bytes_per_s": BYTES_PER_S},
    }
    return shown_json(json.dumps(answer, indent=2, ensure_ascii=False))


def as_text(plan: PublishPlan) -> Iterator[str]:
    """Return the lines: tables, what follows from them, what is left out, problems."""
    for table in plan.tables:
        yield from map(shown, _of_table(table))
    yield (
        f"All snapshots: about {_duration(plan.snapshot_s)} at {ROWS_PER_S:,} rows/s and"
        f" {BYTES_PER_S // 1_000_000} MB/s in all, which is assumed and not measured."
    )
    yield "Rows and sizes are the server's estimates. Partitions are those of new topics."
    yield "Tables that are not captured are listed only if the login may see them."
    by_reason: defaultdict[str, list[str]] = defaultdict(list)
    for name, reason in plan.left_out.items():
        by_reason[reason].append(name)
    for reason, names in by_reason.items():
        yield shown(f"Left out ({len(names)}), {reason}: {_named(names)}")
    for problem in plan.problems:
        yield shown(f"Problem: {problem}", lines=True)
    if plan.is_refused:
        yield "A first start is refused until these problems are fixed."
    elif plan.problems:
        yield "A first start leaves out the tables with these problems until they are fixed."


def _of_table(table: PlannedTable) -> Iterator[str]:
    partitions = "1 partition" if table.partitions == 1 else f"{table.partitions} partitions"
    yield f"{table.table} -> {table.topic or 'no topic'} ({partitions})"
    rows = "unknown" if table.rows is None else f"{table.rows:,}"
    size = "unknown" if table.bytes is None else _size(table.bytes)
    time = "unknown" if table.snapshot_s is None else _duration(table.snapshot_s)
    yield f"    key: {', '.join(table.key) or 'none'}"
    yield f"    capture instance: {', '.join(table.capture_instances)}"
    yield f"    rows: {rows}, size: {size}, snapshot: {time}"
    yield from (f"    note: {note}" for note in table.notes)


def _named(names: Sequence[str]) -> str:
    more = len(names) - _NAMED_MAX
    return ", ".join(names[:_NAMED_MAX]) + (f" and {more} more (--json)" if more > 0 else "")


def _duration(seconds: float) -> str:
    return str(timedelta(seconds=ceil(seconds)))


def _size(count: int) -> str:
    value, units = float(count), ["B", "kB", "MB", "GB"]
    while value >= _STEP and len(units) > 1:
        value /= _STEP
        units.pop(0)
    return f"{value:,.0f} {units[0]}"
