"""When cleanup reaches what is not published: against a clock that is moved."""

import math

import pytest

from tailrace_publisher.metrics.trend import Trend

RETENTION_S = 3 * 24 * 3600.0


class Moved:
    """A trend whose time passes when the test says so."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.lag_s = 0.0
        self.trend = Trend(lambda: self.now, is_lag=True)

    def pass_time(self, seconds: float, growth: float) -> None:
        """The lag grows by so many seconds a second; a heartbeat notes it each ten seconds."""
        for _ in range(round(seconds / 10)):
            self.now += 10
            self.lag_s = max(0.0, self.lag_s + 10 * growth)
            self.trend.note(self.lag_s)

    @property
    def left_s(self) -> float:
        return self.trend.seconds_until(RETENTION_S)


@pytest.fixture
def moved() -> Moved:
    return Moved()


def test_nothing_is_forecast_before_it_is_known(moved):
    assert math.isnan(moved.left_s)
    moved.pass_time(200, 1)
    assert math.isnan(moved.left_s)


def test_a_publisher_that_keeps_up_loses_nothing(moved):
    moved.pass_time(24 * 3600, 0)
    assert moved.left_s == math.inf


def test_a_publisher_that_stands_still_has_the_retention_less_its_lag(moved):
    moved.pass_time(8 * 3600, 1)
    assert moved.left_s == pytest.approx(RETENTION_S - 8 * 3600)


def test_half_the_pace_lasts_twice_as_long(moved):
    moved.pass_time(10 * 3600, 0.5)
    assert moved.left_s == pytest.approx((RETENTION_S - 5 * 3600) / 0.5)


def test_without_a_note_the_lag_grows_with_the_time(moved):
    moved.pass_time(7 * 3600, 1)
    before = moved.left_s
    moved.now += 3600
    assert moved.left_s == pytest.approx(before - 3600, rel=0.01)


def test_a_burst_is_no_loss(moved):
    moved.pass_time(6 * 3600, 0)
    moved.pass_time(600, 1)
    days = moved.left_s / (24 * 3600)
    assert days > 30, "the long window hardly grows"


def test_a_recovery_ends_the_forecast(moved):
    moved.pass_time(10 * 3600, 1)
    assert moved.left_s < RETENTION_S
    moved.pass_time(600, -1)
    assert moved.left_s == math.inf


def test_a_lag_beyond_the_retention_has_no_time_left(moved):
    moved.pass_time(RETENTION_S, 1)
    assert moved.left_s == 0


def test_an_unknown_retention_is_no_forecast(moved):
    moved.pass_time(8 * 3600, 1)
    assert math.isnan(moved.trend.seconds_until(math.nan))


def test_an_unknown_lag_is_not_noted(moved):
    moved.pass_time(8 * 3600, 1)
    moved.trend.note(math.nan)
    assert moved.left_s == pytest.approx(RETENTION_S - 8 * 3600)
