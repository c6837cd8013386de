"""What the text of tailrace plan says of sizes that are large, or not known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tailrace.plan.plan import PlannedTable, PublishPlan, snapshot_seconds
from tailrace.plan.report import as_text

TABLE = PlannedTable("dbo.a", ["id"], ["dbo_a"], "p.db.dbo.a", 1, None, None, None, [])


@pytest.mark.parametrize(
    ("rows", "size", "seconds", "words"),
    [
        (None, None, None, "rows: unknown, size: unknown, snapshot: unknown"),
        (0, 0, 0, "rows: 0, size: 0 B, snapshot: 0:00:00"),
        (40_001, 999, 40_001 / 20_000, "rows: 40,001, size: 999 B, snapshot: 0:00:03"),
        (10, 72_000_000_000, 3600, "rows: 10, size: 72 GB, snapshot: 1:00:00"),
    ],
)
def test_the_slower_of_rows_and_bytes_is_the_time(
    rows: int | None, size: int | None, seconds: float | None, words: str
):
    assert snapshot_seconds(rows, size) == seconds
    table = replace(TABLE, rows=rows, bytes=size, snapshot_s=seconds)
    assert f"    {words}" in list(as_text(PublishPlan([table], {}, [])))


def test_of_many_tables_left_out_twenty_are_named():
    left_out = {f"dbo.t{number:02}": "no" for number in range(30)}
    (line,) = [line for line in as_text(PublishPlan([], left_out, [])) if "Left out" in line]
    assert line.startswith("Left out (30), no: dbo.t00, ")
    assert line.endswith("dbo.t19 and 10 more (--json)")
