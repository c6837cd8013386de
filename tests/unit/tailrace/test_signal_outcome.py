"""The outcome of a signal: opened once, and read until the publisher has taken it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tailrace.signals.outcome import CheckpointReader, Outcome
from tailrace_publisher.errors import CheckpointUnavailable
from tailrace_schemas.position.change_position import ChangePosition
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.records.checkpoint import DatabaseCheckpoint

LSN = Lsn.parse("00000001:00000002:0003")


def taken(up_to: int, **refused: str) -> DatabaseCheckpoint:
    """The checkpoint of a publisher that has taken the signals before an offset."""
    refusals = {offset.removeprefix("at_"): why for offset, why in refused.items()}
    position = ChangePosition.end_of(LSN)
    return DatabaseCheckpoint(position, LSN, 1, signals_offset=up_to, refused_signals=refusals)


class Topics:
    """Topics whose checkpoint the test sets; opening them fails at first."""

    def __init__(self) -> None:
        self.seen: DatabaseCheckpoint | Exception | None = None
        self.opened = self.closed = 0

    @contextmanager
    def open(self) -> Iterator[CheckpointReader]:
        self.opened += 1
        if self.opened == 1:
            raise CheckpointUnavailable("no broker")
        yield self.read
        self.closed += 1

    def read(self) -> DatabaseCheckpoint | None:
        if isinstance(self.seen, Exception):
            raise self.seen
        return self.seen


def test_it_is_opened_once_and_read_until_the_signal_is_taken():
    topics = Topics()
    with Outcome(topics.open, 5) as outcome:
        with pytest.raises(CheckpointUnavailable):
            outcome.look()
        assert outcome.look() is None, "opening is tried again"
        topics.seen = CheckpointUnavailable("away")
        with pytest.raises(CheckpointUnavailable, match="away"):
            outcome.look()
        topics.seen = taken(5)
        assert outcome.look() is None
        topics.seen = taken(6, at_5="not paused", at_4="of another")
        assert outcome.look() == ["not paused"]
        topics.seen = taken(7, at_6="of another")
        assert outcome.look() == []
    assert (topics.opened, topics.closed) == (2, 1)
