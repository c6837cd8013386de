"""Of two publishers with one transactional id exactly one remains."""

from dataclasses import replace

import pytest

from tailrace_publisher.daemon.fencing import FencingCheck
from tailrace_publisher.errors import LeaseLost
from tailrace_schemas.checkpoint import DatabaseCheckpoint
from tailrace_schemas.lsn import Lsn
from tailrace_schemas.position import ChangePosition
from tailrace_schemas.topics import TableName

RECORD = DatabaseCheckpoint(ChangePosition.end_of(Lsn(1, 1, 1)), Lsn(1, 1, 1), 1)


def fenced(last: DatabaseCheckpoint) -> FencingCheck:
    fencing = FencingCheck("db")
    fencing.found(RECORD)
    fencing.written(last)
    fencing.doubt(LeaseLost("fenced"))
    return fencing


def test_fenced_by_the_transaction_timeout_it_goes_on():
    fencing = fenced(RECORD)

    fencing.found(RECORD)
    fencing.written(replace(RECORD, written_ms=2))
    fencing.doubt(LeaseLost("fenced again, much later"))


def test_fenced_by_another_publisher_it_ends():
    fencing = fenced(RECORD)

    with pytest.raises(LeaseLost, match="another publisher of database db"):
        fencing.found(replace(RECORD, written_ms=2))


def test_who_ends_names_the_tables_that_stand_still():
    stopped = {
        TableName("db", "dbo", "orders"): "PositionExpired: rows were cleaned up",
        TableName("db", "dbo", "items"): "SchemaRefused: the registry says no",
    }

    with pytest.raises(LeaseLost) as ended:
        fenced(RECORD).found(replace(RECORD, written_ms=2), stopped)

    told = str(ended.value)
    assert told.index("db.dbo.items (SchemaRefused: the registry says no)") < told.index(
        "db.dbo.orders (PositionExpired: rows were cleaned up)"
    )
    assert "tailrace snapshot" in told


def test_fenced_twice_without_a_commit_between_it_ends():
    fencing = fenced(RECORD)
    fencing.found(RECORD)

    with pytest.raises(LeaseLost, match="fenced"):
        fencing.doubt(LeaseLost("fenced"))


def test_a_commit_of_its_own_whose_outcome_was_unknown_is_nobody_elses():
    fencing = fenced(RECORD)
    fencing.found(RECORD)
    tried = replace(RECORD, written_ms=2)
    fencing.writing(tried)  # no answer; the brokers have committed it all the same

    assert fencing.found(tried)
    fencing.doubt(LeaseLost("fenced again: by then it had committed"))


def test_one_that_was_not_committed_after_all_proves_nothing():
    fencing = fenced(RECORD)
    fencing.found(RECORD)
    fencing.writing(replace(RECORD, written_ms=2))

    assert fencing.found(RECORD)
    with pytest.raises(LeaseLost):
        fencing.doubt(LeaseLost("fenced"))
    with pytest.raises(LeaseLost, match="another publisher"):
        fencing.found(replace(RECORD, written_ms=3))
