"""Of two publishers with one transactional id exactly one remains."""

from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest

from tailrace_publisher.daemon.start.fencing import FencingCheck
from tailrace_publisher.errors import PublisherReplaced
from tailrace_schemas.position.change_position import ChangePosition
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.records.checkpoint import DatabaseCheckpoint
from tailrace_schemas.topics.topic_names import TableName

RECORD = DatabaseCheckpoint(ChangePosition.end_of(Lsn(1, 1, 1)), Lsn(1, 1, 1), 1)


FENCED = PublisherReplaced("fenced")


def fenced(last: DatabaseCheckpoint) -> FencingCheck:
    fencing = FencingCheck("db")
    fencing.found(RECORD)
    fencing.written(last)
    fencing.doubt(FENCED, 1)
    return fencing


def test_fenced_by_the_transaction_timeout_it_goes_on():
    fencing = fenced(RECORD)

    fencing.found(RECORD)
    fencing.written(replace(RECORD, written_ms=2))
    fencing.doubt(FENCED, 1)


def test_fenced_by_another_publisher_it_ends():
    fencing = fenced(RECORD)

    with pytest.raises(PublisherReplaced, match="another publisher of database db"):
        fencing.found(replace(RECORD, written_ms=2))


def test_who_ends_names_the_tables_that_stand_still():
    stopped = {
        TableName("db", "dbo", "orders"): "PositionExpired: rows were cleaned up",
        TableName("db", "dbo", "items"): "SchemaRefused: the registry says no",
    }

    with pytest.raises(PublisherReplaced) as ended:
        fenced(RECORD).found(replace(RECORD, written_ms=2), stopped)

    told = str(ended.value)
    assert told.index("db.dbo.items (SchemaRefused: the registry says no)") < told.index(
        "db.dbo.orders (PositionExpired: rows were cleaned up)"
    )
    assert "tailrace snapshot" in told


def test_fenced_again_without_a_commit_between_it_waits_twice_as_long_and_looks_again():
    fencing = fenced(RECORD)
    fencing.found(RECORD)

    assert fencing.doubt(FENCED, 10) == 20
    fencing.check(RECORD)
    fencing.found(RECORD)
    assert fencing.doubt(FENCED, 10) == 40
    fencing.written(RECORD)
    assert fencing.doubt(FENCED, 10) == 10
    with pytest.raises(PublisherReplaced, match="another publisher") as found:
        fencing.found(replace(RECORD, written_ms=2))
    with pytest.raises(PublisherReplaced, match="another publisher"):
        fencing.doubt(found.value, 10)


def test_one_that_took_its_id_again_takes_it_before_it_looks():
    fencing = fenced(RECORD)
    assert fencing.is_fenced

    fencing.found(RECORD)  # from here on an open transaction may be its own

    assert not fencing.is_fenced
    with pytest.raises(PublisherReplaced, match="another publisher"):
        fencing.found(replace(RECORD, written_ms=2))


class TwoPublishers:
    """Publishers of one database, and what the brokers know of them."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.holder = -1
        self.stored = RECORD
        self.commits = 1
        self.lives = [self.publisher(number) for number in (0, 1)]
        self.ended: set[int] = set()

    def publisher(self, number: int) -> Iterator[None]:
        """One life after another; each step may be the last before the other has its turn."""
        fencing = FencingCheck("db")
        while True:
            if fencing.is_fenced:
                fencing.check(self.stored)
            self.holder = number
            yield
            fencing.found(self.stored)
            yield
            while self.holder == number and self.rng.random() < 0.9:
                record = replace(RECORD, written_ms=self.commits)
                self.commits += 1
                fencing.writing(record)
                self.stored = record
                if self.rng.random() < 0.2:
                    break  # committed, and the answer is lost
                fencing.written(record)
                yield
            if self.holder != number:
                fencing.doubt(FENCED, 1)
            yield

    def run(self, steps: int) -> None:
        """Give turns at random."""
        for _ in range(steps):
            number = self.rng.choice([0, 1])
            if number not in self.ended:
                try:
                    next(self.lives[number])
                except PublisherReplaced:
                    self.ended.add(number)


@pytest.mark.parametrize("seed", range(300))
def test_of_two_that_fence_each_other_in_any_order_exactly_one_ends(seed: int):
    two = TwoPublishers(Random(seed))

    two.run(1_000)

    assert len(two.ended) == 1


def test_a_commit_of_its_own_whose_outcome_was_unknown_is_nobody_elses():
    fencing = fenced(RECORD)
    fencing.found(RECORD)
    tried = replace(RECORD, written_ms=2)
    fencing.writing(tried)  # no answer; the brokers have committed it all the same

    assert fencing.found(tried)
    fencing.doubt(FENCED, 1)


def test_one_that_was_not_committed_after_all_proves_nothing():
    fencing = fenced(RECORD)
    fencing.found(RECORD)
    fencing.writing(replace(RECORD, written_ms=2))

    assert fencing.found(RECORD)
    fencing.doubt(FENCED, 1)
    with pytest.raises(PublisherReplaced, match="another publisher"):
        fencing.found(replace(RECORD, written_ms=3))
