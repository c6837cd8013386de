"""Deletes and inserts of one seqval: what their order cannot tell is refused, the rest is not."""

from __future__ import annotations

import pytest

from tailrace_publisher.encode.encoded_events import EncodedRows
from tailrace_publisher.encode.key_moves import KeyMoves
from tailrace_publisher.errors import OrderUnknown
from tailrace_schemas.position.change_position import ChangePosition, Operation
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.topic_names import TableName

Event = tuple[int, int, str, str]
"""Commit, seqval, d or c, key."""


def moved(commit: int, seqval: int, old: str, new: str) -> list[Event]:
    return [(commit, seqval, "d", old), (commit, seqval, "c", new)]


def encoded(events: list[Event]) -> EncodedRows:
    operations = {"d": Operation.DELETE, "c": Operation.INSERT}
    return EncodedRows(
        "p.db.dbo.t",
        1,
        [
            ChangePosition(Lsn(1, c, 0), 0, Lsn(1, 0, s), operations[op]).to_bytes()
            for c, s, op, _ in events
        ],
        [key.encode() for *_, key in events],
        [b"v"] * len(events),
        [index for index, (_, _, op, _) in enumerate(events) if op == "d"],
        TableName("db", "dbo", "t"),
    )


REFUSED = {
    "every key moves up": [*moved(1, 1, "a", "b"), *moved(1, 2, "b", "c")],
    "the key of a row that is gone": [*moved(1, 1, "a", "b"), (1, 5, "d", "b")],
}
RIGHT = {
    "every key moves down": [*moved(1, 1, "b", "a"), *moved(1, 2, "c", "b")],
    "to new places": [*moved(1, 1, "a", "x"), *moved(1, 2, "b", "y")],
    "in two transactions": [*moved(1, 1, "a", "b"), *moved(2, 2, "b", "c")],
    "gone and there again": [(1, 1, "d", "a"), (1, 2, "c", "a"), (1, 3, "d", "a")],
    "another unique index": [*moved(1, 1, "a", "a"), *moved(1, 2, "a", "a")],
}


def check(events: list[Event], cut: int, moves: KeyMoves) -> None:
    for part in (events[:cut], [], events[cut:]):
        moves.check(encoded(part))


@pytest.mark.parametrize("events", REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_told_is_refused_however_pages_are_cut(events: list[Event]):
    for cut in range(len(events) + 1):
        with pytest.raises(OrderUnknown, match=r"source\.read_mode"):
            check(events, cut, KeyMoves())


@pytest.mark.parametrize("events", RIGHT.values(), ids=RIGHT)
def test_what_can_be_told_passes_however_pages_are_cut(events: list[Event]):
    for cut in range(len(events) + 1):
        check(events, cut, KeyMoves())


def test_a_move_in_a_transaction_whose_beginning_is_not_seen_is_refused():
    within = Lsn(1, 1, 0).to_bytes()
    with pytest.raises(OrderUnknown):
        check(moved(1, 1, "a", "b"), 0, KeyMoves(within))
    check([(1, 1, "d", "a"), *moved(2, 2, "a", "b")], 0, KeyMoves(within))


def test_tables_without_keys_have_nothing_to_move():
    rows = encoded(REFUSED["every key moves up"])
    rows.keys = [None] * len(rows)
    KeyMoves().check(rows)
