"""The outcome of a signal: opened once, each shard until it answers, refusals remembered."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tailrace.signals.outcome import Outcome, ShardReader
from tailrace_publisher.errors import CheckpointUnavailable
from tailrace_schemas.position.change_position import ChangePosition
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.records.checkpoint import DatabaseCheckpoint

LSN = Lsn.parse("00000001:00000002:0003")


def taken(up_to: int, **refused: str) -> DatabaseCheckpoint:
    """The checkpoint of a shard that has taken the signals before an offset."""
    refusals = {offset.removeprefix("at_"): why for offset, why in refused.items()}
    position = ChangePosition.end_of(LSN)
    return DatabaseCheckpoint(position, LSN, 1, signals_offset=up_to, refused_signals=refusals)


class Shards:
    """Two shards whose checkpoints the test sets."""

    def __init__(self) -> None:
        self.seen: list[DatabaseCheckpoint | Exception | None] = [None, None]
        self.opened = self.closed = 0

    @contextmanager
    def open(self) -> Iterator[list[ShardReader]]:
        self.opened += 1
        if self.opened == 1:
            raise CheckpointUnavailable("no broker")
        yield [lambda: self.read(0), lambda: self.read(1)]
        self.closed += 1

    def read(self, shard: int) -> DatabaseCheckpoint | None:
        found = self.seen[shard]
        if isinstance(found, Exception):
            raise found
        return found


def test_a_refusal_that_the_checkpoint_has_forgotten_is_remembered():
    shards = Shards()
    with Outcome(shards.open, 5) as outcome:
        with pytest.raises(CheckpointUnavailable):
            outcome.look()
        assert outcome.look() is None, "opening is tried again"
        shards.seen = [taken(6, at_5="not paused", at_4="of another"), taken(5)]
        assert outcome.look() is None
        shards.seen = [CheckpointUnavailable("must not be read"), CheckpointUnavailable("away")]
        with pytest.raises(CheckpointUnavailable, match="away"):
            outcome.look()
        shards.seen = [taken(9), taken(9)]
        assert outcome.look() == ["not paused"]
    assert (shards.opened, shards.closed) == (2, 1)


def test_that_all_accepted_it_is_not_that_one_waits():
    shards = Shards()
    shards.opened = 1
    with Outcome(shards.open, 5) as outcome:
        shards.seen = [taken(6), taken(5)]
        assert outcome.look() is None
        shards.seen = [taken(6), taken(6)]
        assert outcome.look() == []
