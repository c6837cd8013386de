"""What log scan sessions prove, and what they do not."""

from datetime import datetime, timedelta

from tailrace_publisher.source.log.scan_sessions import (
    ScanSession,
    Sessions,
    captured_until,
    is_drained,
)

NOON = datetime(2026, 11, 22, 12, 0, 0)  # noqa: DTZ001


def at(minutes: float) -> datetime:
    return NOON + timedelta(minutes=minutes)


def session(
    number: int,
    start: float,
    end: float | None,
    *,
    tran_count: int = 0,
    empty: int = 0,
    errors: int = 0,
) -> ScanSession:
    return ScanSession(
        number, at(start), None if end is None else at(end), tran_count, empty, errors
    )


def sessions(now: float, *newest_first: ScanSession) -> Sessions:
    return Sessions(at(now), newest_first)


def test_a_scan_of_hours_proves_nothing_while_it_runs():
    running = session(8, 0, None, tran_count=100)
    before = session(7, -5, -4, tran_count=3)

    assert captured_until(sessions(180, running, before), 500) == at(-5)


def test_a_session_proves_its_beginning_not_its_end():
    assert captured_until(sessions(61, session(8, 0, 60, tran_count=3)), 500) == at(0)


def test_a_session_that_took_as_many_as_it_may_has_not_drained_the_log():
    full = session(8, 1, 2, tran_count=500)

    assert captured_until(sessions(3, full, session(7, 0, 1, tran_count=499)), 500) == at(0)
    assert captured_until(sessions(3, full), 500) is None


def test_of_an_unknown_bound_only_a_session_that_found_nothing_drained_the_log():
    assert not is_drained(session(8, 0, 1, tran_count=1), None)
    assert is_drained(session(8, 0, 1, empty=1), None)


def test_a_session_with_an_error_proves_nothing():
    assert captured_until(sessions(3, session(8, 1, 2, errors=1)), 500) is None


def test_without_sessions_nothing_is_known():
    assert captured_until(sessions(3), 500) is None


def test_empty_sessions_that_share_the_times_of_the_first_are_told_by_their_count():
    first = sessions(10, session(8, 0, 1, empty=5))

    assert captured_until(sessions(20, session(8, 0, 1, empty=6)), 500, first) == at(0)
    assert captured_until(sessions(20, session(8, 0, 1, empty=7)), 500, first) == at(10)
    assert captured_until(sessions(20, session(8, 19, 20, empty=7)), 500, first) == at(19)
