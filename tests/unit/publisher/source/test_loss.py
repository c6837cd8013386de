"""What counts as lost, and what each error names."""

from dataclasses import replace
from datetime import datetime
from decimal import Decimal

import pytest

from tailrace_publisher.errors import (
    CaptureInstanceGone,
    DatabaseReplaced,
    LsnWentBackwards,
    PositionExpired,
    ReplicaBehind,
)
from tailrace_publisher.source.log.commit_times import CommitTime
from tailrace_publisher.source.log.identity import Continuity, DatabaseIdentity, lsn_of_number
from tailrace_publisher.source.log.loss import (
    check_continues,
    check_not_backwards,
    check_not_expired,
    check_position_held,
    check_same_database,
)
from tailrace_schemas.position.lsn import Lsn


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
    ("covers_from", "covers", "gone", "may_start"),
    [
        (NEW, {"b": NEW}, [], True),  # a table that begins behind the position
        (NEW, {"b": NEW}, [], False),  # the same, without a snapshot
        (OLD, {"a": OLD, "b": NEW}, [], False),
        (OLD, {"b": AT}, ["a"], False),  # everything up to its start is out
        (NEW, {"b": Lsn(1, 2, 30)}, ["a"], True),  # nothing was published of it
        (OLD, {"a": OLD}, [], False),
        (OLD, {}, [], False),
    ],
)
def test_a_table_that_is_covered_keeps_its_place(
    covers_from: Lsn, covers: dict[str, Lsn], gone: list[str], may_start: bool
):
    check_position_held(OUT, covers_from, covers, gone, may_start=may_start)


@pytest.mark.parametrize(
    ("covers_from", "covers", "gone", "may_start"),
    [
        (OLD, {"b": NEW}, ["a"], False),
        (OLD, {"b": NEW}, ["a"], True),  # changes are out, the snapshot is not
        (OLD, {"b": NEW, "c": Lsn(1, 2, 30)}, ["a"], False),
        (OLD, {}, ["a"], False),  # the next one is not recognised yet
        (NEW, {"b": Lsn(1, 2, 30)}, ["a"], False),  # followed from behind the position
        (OLD, {"b": NEW}, [], False),  # the older one was forgotten already
    ],
)
def test_a_table_whose_rows_are_in_no_instance_has_lost_its_place(
    covers_from: Lsn, covers: dict[str, Lsn], gone: list[str], may_start: bool
):
    with pytest.raises(PositionExpired) as raised:
        check_position_held(OUT, covers_from, covers, gone, may_start=may_start)

    error = raised.value
    assert error.requested >= OUT.increment()
    assert error.minimum == min(covers.values(), default=None)
    assert ("a was disabled (sys.sp_cdc_disable_table)" in str(error)) == ("a" in gone)


POSITION = Lsn(1, 2, 3)
KNOWN = DatabaseIdentity("copy 1", "fork 1", "family")
OLD_KNOWN = DatabaseIdentity("copy 1", "fork 1")


@pytest.mark.parametrize(
    ("known", "found"),
    [
        (KNOWN, KNOWN),
        (KNOWN, DatabaseIdentity(None, None)),  # not visible
        (DatabaseIdentity(None, None), KNOWN),
        (KNOWN, DatabaseIdentity("copy 2", "fork 1", "family")),  # another replica
        # A failover that lost nothing of what was published.
        (KNOWN, DatabaseIdentity("copy 2", "fork 2", "family", Lsn(1, 2, 4))),
        (OLD_KNOWN, KNOWN),
        (OLD_KNOWN, DatabaseIdentity("copy 1", "fork 2", "family", Lsn(1, 2, 4))),
    ],
)
def test_a_copy_of_the_same_family_and_line_is_the_same_database(
    known: DatabaseIdentity, found: DatabaseIdentity
):
    check_same_database("db", known, found, POSITION)


@pytest.mark.parametrize(
    ("known", "found", "told"),
    [
        (KNOWN, DatabaseIdentity("copy 1", "fork 1", "another"), "another"),
        (OLD_KNOWN, DatabaseIdentity("copy 2", "fork 1", "family"), "copy 2"),
        # It forked before, or at, what was published; or it is on its first line again.
        (KNOWN, DatabaseIdentity("copy 1", "fork 2", "family", Lsn(1, 2, 3)), "fork 2"),
        (KNOWN, DatabaseIdentity("copy 1", "fork 2", "family", Lsn(1, 2, 2)), "fork 2"),
        (KNOWN, DatabaseIdentity("copy 1", "fork 0", "family"), "fork 0"),
    ],
)
def test_another_family_or_line_is_another_database(
    known: DatabaseIdentity, found: DatabaseIdentity, told: str
):
    with pytest.raises(DatabaseReplaced, match=told) as raised:
        check_same_database("db", known, found, POSITION)

    assert "tailrace accept-database" in str(raised.value)


def test_a_fork_at_the_position_is_the_same_database_where_the_commit_there_is_the_published_one():
    at_position = DatabaseIdentity("copy 1", "fork 2", "family", POSITION)
    check_same_database("db", KNOWN, at_position, POSITION, has_commit=True)

    below = replace(at_position, fork_point=POSITION.decrement())
    with pytest.raises(DatabaseReplaced, match="fork 2"):
        check_same_database("db", KNOWN, below, POSITION, has_commit=True)


COMMIT = CommitTime(POSITION, datetime(2013, 1, 1, 0, 0, 1, 3000), b"\x01\x02")  # noqa: DTZ001


@pytest.mark.parametrize(
    ("commit", "kept_from"),
    [
        (COMMIT, Lsn(1, 0, 0)),
        # The driver may give the third of a millisecond that datetime has.
        (replace(COMMIT, local_time=datetime(2013, 1, 1, 0, 0, 1, 3333)), None),  # noqa: DTZ001
        (None, None),  # emptied
        (None, Lsn(1, 2, 4)),  # cleaned up: the change tables tell it
    ],
)
def test_a_commit_that_is_there_or_was_cleaned_up_continues(
    commit: CommitTime | None, kept_from: Lsn | None
):
    check_continues("db", COMMIT, Continuity(commit, kept_from))


@pytest.mark.parametrize(
    ("commit", "told"),
    [
        (None, "is not in cdc.lsn_time_mapping"),
        (replace(COMMIT, tran_id=b"\x03"), "transaction 03"),
        (replace(COMMIT, local_time=datetime(2013, 1, 2)), "2013-01-02"),  # noqa: DTZ001
    ],
)
@pytest.mark.parametrize("kept_from", [POSITION, Lsn(1, 0, 0)])
def test_a_commit_that_is_missing_or_another_one_is_a_restore(
    commit: CommitTime | None, told: str, kept_from: Lsn
):
    with pytest.raises(DatabaseReplaced, match=told) as raised:
        check_continues("db", COMMIT, Continuity(commit, kept_from))

    assert "transaction 0102, ended at 2013-01-01T00:00:01.003" in str(raised.value)
    assert "tailrace accept-database" in str(raised.value)


def test_a_fork_point_is_a_number_of_the_parts_in_decimal():
    assert lsn_of_number(Decimal(21000000019600003)) == Lsn(21, 196, 3)
    assert lsn_of_number(Decimal("4294967295429496729565535")) == Lsn.MAX


def test_a_newest_lsn_below_our_position_is_a_restore():
    check_not_backwards("db", Lsn(1, 2, 3), Lsn(1, 2, 3), is_secondary=False)
    with pytest.raises(LsnWentBackwards):
        check_not_backwards("db", Lsn(1, 2, 3), Lsn(1, 2, 2), is_secondary=False)
    with pytest.raises(LsnWentBackwards):
        check_not_backwards("db", Lsn(1, 2, 3), None, is_secondary=False)


def test_a_secondary_that_is_behind_is_waited_for():
    check_not_backwards("db", Lsn(1, 2, 3), Lsn(1, 2, 3), is_secondary=True)
    for newest in (Lsn(1, 2, 2), None):
        with pytest.raises(ReplicaBehind, match="redo_queue_size") as raised:
            check_not_backwards("db", Lsn(1, 2, 3), newest, is_secondary=True)
        assert raised.value.retryable
