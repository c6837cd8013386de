"""How fast the source is read, and in which hours."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tailrace.verify.pace import Hours, Pace


class Clock:
    """Time that passes only by pauses and by statements."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.pauses: list[float] = []

    def __call__(self) -> float:
        return self.now

    def pause(self, seconds: float) -> None:
        self.pauses.append(round(seconds, 6))
        self.now += seconds

    def read(self, pace: Pace, rows: int, seconds: float) -> None:
        self.now += seconds
        pace.took(rows)


def test_the_rows_of_a_read_take_the_time_of_the_rate():
    clock = Clock()
    pace = Pace(100, pause=clock.pause, clock=clock)
    pace.begin()
    clock.read(pace, 100, 0.25)
    clock.read(pace, 300, 0.5)
    clock.read(pace, 1, 7.0)  # slower than the rate
    assert clock.pauses == [0.75, 2.5]


def test_time_in_which_nothing_was_read_is_not_made_up_for():
    clock = Clock()
    pace = Pace(100, 50, clock.pause, clock)
    pace.begin()
    clock.read(pace, 100, 1.0)
    clock.now += 3600
    pace.begin()
    clock.read(pace, 100, 0.1)
    assert clock.pauses == [1.0, 0.9]


def test_statements_take_at_most_their_share_of_a_processor():
    clock = Clock()
    pace = Pace(None, 10, clock.pause, clock)
    pace.begin()
    for seconds in (1.0, 0.5, 2.0):
        clock.read(pace, 10**9, seconds)
    assert clock.pauses == [9.0, 4.5, 18.0]
    assert sum((1.0, 0.5, 2.0)) / (clock.now - 1000.0) == pytest.approx(0.1)


def test_the_stricter_bound_counts():
    clock = Clock()
    pace = Pace(10, 50, clock.pause, clock)
    pace.begin()
    clock.read(pace, 10, 0.1)
    clock.read(pace, 10, 30.0)
    assert clock.pauses == [0.9, 30.0]


def test_without_a_bound_nothing_is_waited_for():
    clock = Clock()
    pace = Pace(pause=clock.pause, clock=clock)
    pace.begin()
    clock.read(pace, 10**9, 0.001)
    assert clock.pauses == []


@pytest.mark.parametrize(
    ("text", "at", "wait_s"),
    [
        ("22-6", "23:00:00", 0),
        ("22-6", "22:00:00", 0),
        ("22-6", "05:59:59", 0),
        ("22-6", "06:00:00", 16 * 3600),
        ("22-6", "21:59:59", 1),
        ("9-17", "12:00:00", 0),
        ("9-17", "17:00:00", 16 * 3600),
        ("9-17", "08:30:00", 1800),
        ("20-24", "23:59:59", 0),
        ("20-0", "00:00:00", 20 * 3600),
        ("0-6", "00:00:00", 0),
        (" 00-06 ", "06:30:00", 17.5 * 3600),
    ],
)
def test_hours_are_those_of_the_day_in_utc(text, at, wait_s):
    moment = datetime.fromisoformat(f"2026-11-27T{at}").replace(tzinfo=UTC)
    assert Hours.parse(text).wait_s(moment.timestamp()) == wait_s


@pytest.mark.parametrize("text", ["", "22", "22-", "22-6-7", "a-b", "25-6", "6-25", "6-6", "0-24"])
def test_what_is_no_two_hours_is_refused(text):
    with pytest.raises(ValueError, match=r"hours .*: not two .* Fix: give them as begin and end"):
        Hours.parse(text)
