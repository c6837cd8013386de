"""A secondary that is behind is waited for, and told after an hour."""

from tailrace_publisher.daemon.patience import Patience


def test_an_hour_from_the_first_time_on():
    times = iter([0.0, 3600.0, 3601.0])
    patience = Patience(lambda: next(times))

    assert [patience.has_ended() for _ in range(3)] == [False, False, True]


def test_what_was_caught_up_has_an_hour_again():
    times = iter([0.0, 3601.0, 7000.0])
    patience = Patience(lambda: next(times))
    patience.has_ended()
    patience.renew()

    assert not patience.has_ended()
    assert not patience.has_ended()
