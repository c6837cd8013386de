"""What counts as lost, and what each error names."""

import pytest

from tailrace_publisher.errors import (
    CaptureInstanceGone,
    DatabaseReplaced,
    LsnWentBack,
    PositionExpired,
    ReplicaBehind,
)
from tailrace_publisher.source.loss import (
    check_not_backwards,
    check_not_expired,
    check_place_kept,
    check_same_database,
)
from tailrace_publisher.source.queries import DatabaseIdentity
from tailrace_schemas.lsn import Lsn


def test_rows_at_the_low_watermark_are_still_there():
    check_not_expired("dbo_flights", Lsn(1, 2, 3), Lsn(1, 2, 3))


def test_a_low_watermark_behind_what_is_needed_is_a_gap():
    with pytest.raises(PositionExpired, match="dbo_flights") as raised:
        check_not_expired("dbo_flights", Lsn(1, 2, 3), Lsn(1, 2, 4))

    assert raised.value.requested == Lsn(1, 2, 3)
    assert raised.value.minimum == Lsn(1, 2, 4)
    assert "sp_cdc_change_job" in str(raised.value)


def test_no_low_watermark_means_no_instance():
    with pytest.raises(CaptureInstanceGone, match="dbo_flights"):
        check_not_expired("dbo_flights", Lsn(1, 2, 3), None)


OUT = Lsn(1, 2, 20)
OLD, AT, NEW = Lsn(1, 2, 10), Lsn(1, 2, 20), Lsn(1, 2, 21)


@pytest.mark.parametrize(
    ("known", "covers", "has_begun", "may_begin"),
    [
        ({}, {"b": NEW}, False, False),  # a new table that begins behind the position
        ({"b": NEW}, {"b": NEW}, False, True),  # the same, in the book
        ({"b": NEW}, {"b": NEW}, False, False),  # the same, without a snapshot
        ({"a": OLD, "b": NEW}, {"a": OLD, "b": NEW}, True, False),
        ({"a": OLD, "b": AT}, {"b": AT}, True, False),  # everything up to its start is out
        ({"a": OLD}, {"b": AT}, True, False),
        ({"a": NEW}, {"b": Lsn(1, 2, 30)}, False, True),  # nothing was published of it
        ({}, {}, False, False),
        ({"a": OLD}, {"a": OLD}, True, False),
    ],
)
def test_a_table_that_is_covered_keeps_its_place(
    known: dict[str, Lsn], covers: dict[str, Lsn], has_begun: bool, may_begin: bool
):
    check_place_kept(OUT, known, covers, has_begun=has_begun, may_begin=may_begin)


@pytest.mark.parametrize(
    ("known", "covers", "has_begun", "may_begin"),
    [
        ({"a": OLD, "b": NEW}, {"b": NEW}, True, False),
        ({"a": OLD, "b": NEW}, {"b": NEW}, False, False),  # no snapshot was wanted
        ({"a": OLD, "b": NEW}, {"b": NEW}, False, True),  # changes are out, the snapshot is not
        ({"a": OLD}, {"b": NEW}, True, False),
        ({"a": OLD}, {"b": NEW, "c": Lsn(1, 2, 30)}, True, False),
        ({"a": OLD}, {}, True, False),  # the next one is not recognised yet
        ({"a": NEW}, {"b": Lsn(1, 2, 30)}, False, False),  # followed from behind the position
        ({"b": NEW}, {"b": NEW}, True, False),  # the older one was forgotten already
    ],
)
def test_a_table_whose_rows_are_in_no_instance_has_lost_its_place(
    known: dict[str, Lsn], covers: dict[str, Lsn], has_begun: bool, may_begin: bool
):
    with pytest.raises(PositionExpired) as raised:
        check_place_kept(OUT, known, covers, has_begun=has_begun, may_begin=may_begin)

    error = raised.value
    assert error.requested >= OUT.increment()
    assert error.minimum == min(covers.values(), default=None)
    assert ("a was disabled (sys.sp_cdc_disable_table)" in str(error)) == ("a" in known)


def test_another_recovery_fork_is_another_database():
    known = DatabaseIdentity("a", "f1")

    check_same_database("db", known, DatabaseIdentity("a", "f1"))
    check_same_database("db", known, DatabaseIdentity(None, None))
    with pytest.raises(DatabaseReplaced, match="f2"):
        check_same_database("db", known, DatabaseIdentity("a", "f2"))


def test_a_newest_lsn_below_our_position_is_a_restore():
    check_not_backwards("db", Lsn(1, 2, 3), Lsn(1, 2, 3), is_secondary=False)
    with pytest.raises(LsnWentBack):
        check_not_backwards("db", Lsn(1, 2, 3), Lsn(1, 2, 2), is_secondary=False)
    with pytest.raises(LsnWentBack):
        check_not_backwards("db", Lsn(1, 2, 3), None, is_secondary=False)


def test_a_secondary_that_is_behind_is_waited_for():
    check_not_backwards("db", Lsn(1, 2, 3), Lsn(1, 2, 3), is_secondary=True)
    for newest in (Lsn(1, 2, 2), None):
        with pytest.raises(ReplicaBehind, match="redo_queue_size") as raised:
            check_not_backwards("db", Lsn(1, 2, 3), newest, is_secondary=True)
        assert raised.value.retryable
