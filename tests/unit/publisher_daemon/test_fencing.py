"""Of two publishers with one transactional id exactly one remains."""

from dataclasses import replace

import pytest

from tailrace_publisher.daemon.fencing import FencingCheck
from tailrace_publisher.errors import LeaseLost
from tailrace_schemas.checkpoint import DatabaseCheckpoint
from tailrace_schemas.lsn import Lsn
from tailrace_schemas.position import ChangePosition

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


def test_fenced_twice_without_a_commit_between_it_ends():
    fencing = fenced(RECORD)
    fencing.found(RECORD)

    with pytest.raises(LeaseLost, match="fenced"):
        fencing.doubt(LeaseLost("fenced"))
