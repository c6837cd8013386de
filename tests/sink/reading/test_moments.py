"""Moments never go back: ``latest`` while a bulk snapshot ends, and times of a clock that did."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from tailrace import lake as without_spark
from tailrace_sink import read
from tests.envelopes.messages import FIRST_COMMIT_MS
from tests.envelopes.source import Source
from tests.envelopes.tables import column
from tests.sink.conftest import Lake

pytestmark = [pytest.mark.spark, pytest.mark.kafka]
COLUMNS = (column(1, "id", "int", key=1), column(2, "v", "int"))


def cuts(lake: Lake, table: str, **point: Any) -> list[tuple[str, list[int]]]:
    """The LSN and the values of a table at a point, by each reader."""
    found = read(lake.spark, lake.address).as_of(**point)
    values = [row["v"] for row in found.read(f"dbo.{table}").collect()]
    other = without_spark.open(lake.address).as_of(**point)
    other_values = other.read(f"dbo.{table}")["v"].to_pylist()
    return [(found.closed_lsn, sorted(values)), (other.closed_lsn, sorted(other_values))]


def test_latest_stays_where_it_was_while_a_bulk_snapshot_ends(source: Source, lake: Lake):
    lake.options |= {"bulk_changes": 5}
    a, b = (source.table(name, *COLUMNS) for name in "ab")
    source.commit(lambda t: t.insert(a, id=1, v=1))
    source.publish(snapshotting=[b])
    source.snapshot(b, [{"id": n, "v": n} for n in range(8)])
    source.publish(snapshotting=[b])
    lake.catch_up()
    source.commit(lambda t: t.update(a, (1,), v=2))
    source.publish(snapshotting=[b])
    lake.log_only()
    before = cuts(lake, "a")
    assert before[0] == before[1]
    assert before[0][1] == [2]

    source.commit()
    source.publish()
    lake.log_only()
    assert cuts(lake, "a") == before

    lake.catch_up()
    for lsn, values in cuts(lake, "a"):
        assert (lsn > before[0][0], values) == (True, [2])


@pytest.mark.parametrize("folded", [0, 2, 4], ids=["in the log", "in both", "in the tables"])
def test_a_time_is_one_cut_after_the_clock_went_back(
    source: Source, lake: Lake, monkeypatch: pytest.MonkeyPatch, folded: int
):
    """The newest cut of which no earlier one is later than the time."""
    a = source.table("a", *COLUMNS)
    times, made = iter([0, 1_000, 10_000, 9_000, 11_000]), Source._progress

    def progress(self: Source, after: str) -> Any:
        return replace(made(self, after), closed_commit_ms=FIRST_COMMIT_MS + next(times))

    monkeypatch.setattr(Source, "_progress", progress)
    for n in range(5):
        source.commit(lambda t, n=n: t.insert(a, id=n, v=n))
        source.publish()
        if n <= folded:
            lake.catch_up()
    lake.log_only()

    def at(seconds: float) -> list[list[int]]:
        time = datetime.fromtimestamp(FIRST_COMMIT_MS / 1000 + seconds, UTC)
        return [values for _, values in cuts(lake, "a", time=time)]

    assert at(9.5) == [[0, 1], [0, 1]]
    assert at(10.5) == [[0, 1, 2, 3], [0, 1, 2, 3]]
    assert at(11) == [[0, 1, 2, 3, 4], [0, 1, 2, 3, 4]]
