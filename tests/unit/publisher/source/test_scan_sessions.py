"""What log scan sessions prove, and what they do not."""

from datetime import datetime, timedelta

from tailrace_publisher.source.log.scan_sessions import (
    ScanSession,
    Sessions,
    captured_lsn,
    captured_time,
    captured_until,
    was_drained_since,
)
from tailrace_schemas.position.lsn import Lsn

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
    last: Lsn | None = None,
    captured: Lsn | None = None,
    committed_at: float | None = None,
) -> ScanSession:
    return ScanSession(
        *(number, at(start), None if end is None else at(end)),
        *(tran_count, empty, errors),
        last_commit_lsn=last,
        last_captured_lsn=captured,
        last_commit_time=None if committed_at is None else at(committed_at),
    )


def sessions(now: float, *newest_first: ScanSession, commit: Lsn | None = Lsn.MAX) -> Sessions:
    return Sessions(at(now), newest_first, Lsn.MAX, commit)


def lsn(block: int) -> Lsn:
    return Lsn(1, block, 1)


def test_a_scan_of_hours_proves_nothing_while_it_runs():
    running = session(8, 0, None, tran_count=100)
    before = session(7, -5, -4, tran_count=3, last=lsn(1))

    assert captured_until(sessions(180, running, before), 500) == at(-5)


def test_a_session_proves_its_beginning_not_its_end():
    assert captured_until(sessions(61, session(8, 0, 60, tran_count=3, last=lsn(1))), 500) == at(0)


def test_a_session_that_took_as_many_as_it_may_has_not_drained_the_log():
    full = session(8, 1, 2, tran_count=500, last=lsn(2))
    before = session(7, 0, 1, tran_count=499, last=lsn(1))

    assert captured_until(sessions(3, full, before), 500) == at(0)
    assert captured_until(sessions(3, full), 500) is None


def test_of_an_unknown_bound_only_a_session_that_found_nothing_drained_the_log():
    assert not session(8, 0, 1, tran_count=1).has_drained(None)
    assert session(8, 0, 1, empty=1).has_drained(None)


def test_a_session_with_an_error_proves_nothing():
    assert captured_until(sessions(3, session(8, 1, 2, errors=1)), 500) is None


def test_without_sessions_nothing_is_known():
    assert captured_until(sessions(3), 500) is None


def test_empty_sessions_that_share_the_times_of_the_first_are_told_by_their_count():
    first = sessions(10, session(8, 0, 1, empty=5))

    assert captured_until(sessions(20, session(8, 0, 1, empty=6)), 500, first) == at(0)
    assert captured_until(sessions(20, session(8, 0, 1, empty=7)), 500, first) == at(10)
    assert captured_until(sessions(20, session(8, 19, 20, empty=7)), 500, first) == at(19)


def test_a_session_proves_nothing_while_its_rows_are_not_committed():
    """The view shows its end before that, and readers of row versions wait for no locks.

    The newest LSN may be that of an entry that only marks time, above all that it found.
    """
    done = session(8, 0, 1, tran_count=3, last=lsn(9), captured=lsn(5))

    early = sessions(2, done, commit=lsn(4))
    assert (captured_lsn(early), captured_until(early, 500)) == (None, None)
    seen = sessions(2, done, commit=lsn(5))
    assert (captured_lsn(seen), captured_until(seen, 500)) == (lsn(9), at(0))
    never = sessions(2, done, commit=None)
    assert (captured_lsn(never), captured_until(never, 500)) == (None, None)


def test_a_later_session_has_begun_after_the_one_before_was_committed():
    done = session(8, 0, 1, tran_count=3, last=lsn(9), captured=lsn(5))
    later = sessions(3, session(9, 2, None), done, commit=lsn(4))

    assert (captured_lsn(later), captured_until(later, 500)) == (lsn(9), at(0))


def test_what_a_session_read_is_captured_whatever_it_waits_for():
    read = session(8, 0, 1, tran_count=500, last=lsn(5), committed_at=-2)
    running = session(9, 1, None, tran_count=7, committed_at=0)

    found = captured_time(sessions(3, running, read))
    assert found is not None
    assert timedelta(0) < at(-2) - found < timedelta(seconds=1)
    assert captured_time(sessions(3, session(8, 0, 1, empty=1, committed_at=0))) is None


def test_a_session_is_later_by_its_number_and_by_its_time():
    before = sessions(10, session(8, 9, 10, empty=1))

    assert not was_drained_since(sessions(12, session(8, 9, 10, empty=2)), before, None)
    assert was_drained_since(sessions(12, session(8, 9, 10, empty=3)), before, None)
    assert was_drained_since(sessions(12, session(9, 11, 12, empty=1)), before, None)
    assert not was_drained_since(sessions(12, session(9, 9, 12, empty=1)), before, None)
    assert not was_drained_since(sessions(12, session(8, 11, 12, empty=1)), before, None)
    assert not was_drained_since(sessions(12, session(9, 11, 12, tran_count=2)), before, None)
    assert was_drained_since(sessions(12, session(9, 11, 12, tran_count=2, last=lsn(1))), before, 3)
