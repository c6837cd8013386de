"""What counts as lost, and what each error names."""

import pytest

from publisher.errors import CaptureInstanceGone, DatabaseReplaced, LsnWentBack, PositionExpired
from publisher.source.loss import check_not_backwards, check_not_expired, check_same_database
from publisher.source.queries import DatabaseIdentity
from schemas.lsn import Lsn


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


def test_another_recovery_fork_is_another_database():
    known = DatabaseIdentity("a", "f1")

    check_same_database("db", known, DatabaseIdentity("a", "f1"))
    check_same_database("db", known, DatabaseIdentity(None, None))
    with pytest.raises(DatabaseReplaced, match="f2"):
        check_same_database("db", known, DatabaseIdentity("a", "f2"))


def test_a_newest_lsn_below_our_position_is_a_restore():
    check_not_backwards("db", Lsn(1, 2, 3), Lsn(1, 2, 3))
    with pytest.raises(LsnWentBack):
        check_not_backwards("db", Lsn(1, 2, 3), Lsn(1, 2, 2))
    with pytest.raises(LsnWentBack):
        check_not_backwards("db", Lsn(1, 2, 3), None)
