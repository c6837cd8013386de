"""Orders of an operator: a snapshot or a table is stopped or paused, and comes back."""

from __future__ import annotations

from collections import Counter

import pytest

from tailrace_publisher.runtime import Step
from tailrace_schemas.records.signals import TableOrder
from tests.simulation.scripted.script import Script, events

ROWS = 8
ONE_BY_ONE = {"snapshot": {"mode": "initial", "chunk_rows": 1}}


@pytest.fixture
def script() -> Script:
    """A table whose rows are read one by one, and one whose snapshot is over."""
    script = Script(**ONE_BY_ONE)
    script.create("other", 1, 2)
    script.publish(lambda: script.snapshot("other") == [1, 2] and not script.out_of_cut())
    script.create("orders", *range(ROWS))
    return script


def come_to_the_middle(script: Script, *, table: str = "orders", published: int = 0) -> list[int]:
    """Die when some rows of the table's snapshot are published; gives all its rows so far."""
    for _ in range(4 * ROWS):
        script.die_at(Step.COMMITTED)
        rows = script.snapshot(table)
        if len(rows) > published + 1:
            assert len(rows) < published + ROWS, "its snapshot is over already"
            return rows
    raise AssertionError("no row of the snapshot was published")


def test_a_stopped_snapshot_leaves_its_table_out_of_the_cut_until_a_new_one(
    script: Script,
) -> None:
    out = come_to_the_middle(script)
    script.order(TableOrder.STOP_SNAPSHOT)  # of all tables whose snapshot is not over
    script.publish(lambda: script.out_of_cut() == {"orders"})
    script.delete("orders", 0)
    for _ in range(2):  # a restart changes nothing
        script.publish(lambda: script.out_of_cut() == {"orders"})
    assert script.changes("orders") == [("d", 0)], "its changes continue"
    halted = script.snapshot("orders")
    assert halted[: len(out)] == out
    assert len(halted) < ROWS

    before = len(script.progress())
    for table in ("orders", "other"):
        script.ask_for(table)
    script.publish(lambda: script.snapshot("other") == [1, 1, 2, 2] and not script.out_of_cut())
    assert script.snapshot("orders") == sorted([*halted, *range(1, ROWS)])
    # No reader takes what was published of the stopped snapshot for a part of the new one.
    named = script.has_been_out_of_cut("orders")[before:]
    assert named.index(False) < len(named) - 1 - named[::-1].index(True)
    assert not named[-1]


def test_a_partial_snapshot_is_paused_over_a_restart_and_leaves_its_table_in_the_cut(
    script: Script,
) -> None:
    script.publish(lambda: len(script.snapshot("orders")) == ROWS and not script.out_of_cut())
    whole = len(script.progress())
    script.ask_for("orders", "[id] >= 3")
    out = come_to_the_middle(script, published=ROWS)
    script.ask_for("orders", "[id] >= 3")
    script.order(TableOrder.PAUSE_SNAPSHOT, "orders")
    told = script.publish()
    assert "one is being read" in events(told, "signal_refused")[0]["reason"]
    paused = script.snapshot("orders")
    assert len(out) <= len(paused) < 2 * ROWS - 3

    for number in (1, 7):
        script.update("orders", number, 100)
    script.delete("orders", 6)
    script.publish()
    assert script.snapshot("orders") == paused, "it is still paused"
    script.order(TableOrder.RESUME_SNAPSHOT, "orders")
    script.publish(lambda: {*range(3, 6)} <= {n for n, c in read_of(script).items() if c == 2})

    read = read_of(script)
    assert [read[number] for number in range(3)] == [1, 1, 1]
    assert {read[6], read[7]} <= {1, 2}  # those two may have come as changes alone
    assert not any(script.has_been_out_of_cut("orders")[whole:])
    assert script.notes("orders") == script.source_notes("orders")


def read_of(script: Script) -> Counter[int]:
    """How often each row is in a snapshot."""
    return Counter(script.snapshot("orders"))


def test_a_stopped_table_comes_back_with_a_snapshot(script: Script) -> None:
    script.publish(lambda: len(script.snapshot("orders")) == ROWS and not script.out_of_cut())
    script.order(TableOrder.STOP_TABLE, "orders")
    script.order(TableOrder.STOP_TABLE, "orders")
    told = script.publish(lambda: script.out_of_cut() == {"orders"})
    (stopped,) = events(told, "table_stopped")
    assert "an operator stopped it" in stopped["reason"]
    assert "stopped already" in events(told, "signal_refused")[0]["reason"]
    for table in ("orders", "other"):
        script.insert(table, 77)
    script.publish(lambda: script.changes("other") == [("c", 77)])
    assert script.out_of_cut() == {"orders"}, "a start does not resume it"

    script.order(TableOrder.STOP_TABLE, "other")
    told = script.publish(lambda: script.out_of_cut() == {"orders", "other"})
    assert events(told, "all_tables_stopped")
    for table in ("orders", "other"):
        script.ask_for(table)
    script.publish(lambda: not script.out_of_cut() and 77 in script.snapshot("orders"))
    assert script.changes("orders") == []
    assert script.notes("orders").keys() == {*range(ROWS), 77}


def test_signals_are_not_carried_out_again_where_their_topic_lost_its_end() -> None:
    script = Script()
    script.create("orders", 1, 2)
    script.publish(lambda: script.snapshot("orders") == [1, 2])
    for times in (2, 3):
        script.ask_for("orders")
        script.publish(lambda times=times: script.snapshot("orders") == sorted([1, 2] * times))

    script.lose_signals(1)
    told = script.publish(lambda: not script.out_of_cut())
    assert script.snapshot("orders") == sorted([1, 2] * 3), "a signal took effect twice"
    (refused,) = events(told, "signal_refused")
    assert "lost its end" in refused["reason"]

    script.ask_for("orders")
    script.publish(lambda: script.snapshot("orders") == sorted([1, 2] * 4))


def test_signals_that_retention_took_are_passed_over() -> None:
    script = Script()
    script.create("orders", 1, 2)
    script.publish(lambda: script.snapshot("orders") == [1, 2])
    script.ask_for("orders")
    script.ask_for("orders")
    script.forget_signals(1)
    told = script.publish(lambda: script.snapshot("orders") == sorted([1, 2] * 2))
    assert not events(told, "signal_refused")
