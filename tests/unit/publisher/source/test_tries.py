"""Statements that lost against others, and how often they are sent."""

from __future__ import annotations

from typing import Any, cast

import pytest

from tailrace_publisher.errors import SourceBusy, SourceError
from tailrace_publisher.ports import Connection
from tailrace_publisher.source.connection.tries import TRIES, TryingConnection

DEADLOCK = SourceBusy("a deadlock's victim", sqlstate="40001", number=1205)
TOO_LONG = SourceBusy("query timeout expired", sqlstate="HYT00")
WRONG = SourceError("invalid object", number=208)


class Answers:
    """A connection that refuses its first statements."""

    def __init__(self, *refusals: SourceError) -> None:
        self.queries = 0
        self._refusals = list(refusals)

    def _answer(self, *_: object, **__: object) -> Any:
        self.queries += 1
        if self._refusals:
            raise self._refusals.pop(0)
        return "answer"

    query = query_sets = query_together = query_within = _answer


def trying(*refusals: SourceError) -> TryingConnection:
    return TryingConnection(cast(Connection, Answers(*refusals)))


def test_a_statement_is_sent_again_whichever_way_it_is_asked() -> None:
    connection = trying(*[DEADLOCK] * 2)
    assert connection.query("SELECT 1") == "answer"
    assert trying(DEADLOCK).query_sets("SELECT 1") == "answer"
    assert trying(DEADLOCK).query_together(["SELECT 1"]) == "answer"
    assert trying(DEADLOCK).query_within("SELECT 1", size_of=len, at_most=1) == "answer"
    assert connection.queries == TRIES


@pytest.mark.parametrize(
    ("refusal", "sent"), [(DEADLOCK, TRIES), (TOO_LONG, 1), (WRONG, 1)], ids=str
)
def test_what_counts_in_the_end(refusal: SourceError, sent: int) -> None:
    connection = trying(*[refusal] * TRIES)
    with pytest.raises(type(refusal)):
        connection.query("SELECT 1")
    assert connection.queries == sent
