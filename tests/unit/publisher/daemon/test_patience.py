"""What waiting may cure for some time only, as a secondary that is behind, is told after that."""

from tailrace_publisher.daemon.session.retry_bounds import Patience
from tailrace_publisher.errors import ReplicaBehind, SourceUnavailable

HOUR_S = ReplicaBehind.waited_for_s


def test_an_hour_from_the_first_time_on():
    times = iter([0.0, 3600.0, 3601.0])
    patience = Patience(lambda: next(times))

    assert [patience.has_ended(HOUR_S) for _ in range(3)] == [False, False, True]


def test_what_was_caught_up_has_an_hour_again():
    times = iter([0.0, 3601.0, 7000.0])
    patience = Patience(lambda: next(times))
    patience.has_ended(HOUR_S)
    patience.renew()

    assert not patience.has_ended(HOUR_S)
    assert not patience.has_ended(HOUR_S)


def test_what_may_take_for_ever_is_not_counted():
    patience = Patience(iter([0.0, 3601.0]).__next__)
    patience.has_ended(HOUR_S)

    assert not patience.has_ended(SourceUnavailable.waited_for_s)
    assert patience.has_ended(HOUR_S)
