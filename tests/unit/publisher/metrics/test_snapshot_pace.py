"""How long a snapshot will still take."""

from __future__ import annotations

import pytest

from tailrace_publisher.metrics.snapshot_pace import SnapshotPace
from tailrace_schemas.topics.topic_names import TableName

TABLE = TableName("db", "dbo", "t")


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_it_goes_by_the_last_chunks(clock: Clock):
    pace = SnapshotPace(clock)
    pace.note(TABLE, 0)
    assert pace.left_s(TABLE, 1000) is None, "nothing was measured yet"
    for rows in range(10, 400, 10):  # slow: 10 rows a second
        clock.now += 1
        pace.note(TABLE, rows)
    assert pace.left_s(TABLE, 1000) == pytest.approx(61)
    for rows in range(490, 490 + 100 * 40, 100):  # then 100 rows a second
        clock.now += 1
        pace.note(TABLE, rows)
    assert pace.left_s(TABLE, 5390) == pytest.approx(10)
    assert pace.left_s(TABLE, 100) == 0, "an estimate may be too small"
    pace.forget(TABLE)
    assert pace.left_s(TABLE, 5000) is None


def test_another_snapshot_has_a_pace_of_its_own(clock: Clock):
    pace = SnapshotPace(clock)
    pace.note(TABLE, 0)
    clock.now += 10
    pace.note(TABLE, 100)
    pace.note(TABLE, 0)
    assert pace.left_s(TABLE, 100) is None
    clock.now -= 5  # a clock that is put back says nothing
    pace.note(TABLE, 50)
    assert pace.left_s(TABLE, 100) is None
