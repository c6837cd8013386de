"""Capture instances come and go: what is lost stops its table alone, or has it read again."""

from __future__ import annotations

import pytest

from tailrace_publisher.runtime import Step
from tests.simulation.scripted.script import Script, events

_BY_SNAPSHOT = {"mode": "initial", "on_gap": "snapshot"}


@pytest.fixture
def script() -> Script:
    """Two tables of two rows, published."""
    script = Script()
    script.create("keeps", 1, 2)
    script.create("loses", 1, 2)
    script.publish(lambda: not script.out_of_cut() and script.snapshot("loses") == [1, 2])
    return script


def change_both(script: Script) -> None:
    script.delete("loses", 1)
    script.update("keeps", 1, 10)


def lose_the_older_instance(script: Script, *, is_known: bool) -> None:
    """The older instance, whose changes are not published yet, goes: the newer one lacks them."""
    change_both(script)
    script.scan()
    script.enable("loses", "loses_2")
    script.scan()
    script.insert("loses", 3)
    script.scan()
    if is_known:  # the newer one is in the checkpoint, at a position before its start
        script.die_at(Step.WINDOW)
    script.disable("dbo_loses")


@pytest.mark.parametrize("is_known", [True, False], ids=["known", "met at the restart"])
def test_an_instance_that_goes_before_it_was_read_to_its_end_stops_its_table(
    script: Script, is_known: bool
) -> None:
    lose_the_older_instance(script, is_known=is_known)

    told = script.publish(lambda: script.out_of_cut() == {"loses"})
    (stopped,) = events(told, "table_stopped")
    assert (stopped["error"], stopped["table"]) == ("PositionExpired", "shop.dbo.loses")
    assert "dbo_loses" in stopped["reason"]
    assert "sys.sp_cdc_disable_table" in stopped["reason"]
    assert script.notes("keeps") == {1: 10, 2: 2}
    assert script.changes("loses") == [], "nothing after the gap is out"

    script.ask_for("loses")
    told = script.publish(lambda: not script.out_of_cut())
    assert events(told, "table_restarted")
    assert script.snapshot("loses") == [1, 2, 2, 3]
    assert script.changes("keeps") == [("u", 1)]


@pytest.mark.parametrize("is_known", [True, False], ids=["known", "met at the restart"])
def test_its_table_begins_again_where_the_configuration_says_so(
    script: Script, is_known: bool
) -> None:
    lose_the_older_instance(script, is_known=is_known)

    told = script.publish(
        lambda: len(script.snapshot("loses")) == 4 and not script.out_of_cut(),
        snapshot=_BY_SNAPSHOT,
    )
    assert not events(told, "table_stopped")
    assert events(told, "table_restarted")
    assert script.snapshot("loses") == [1, 2, 2, 3]
    assert script.changes("keeps") == [("u", 1)]


@pytest.mark.parametrize("on_gap", ["stop", "snapshot"])
def test_the_next_instance_is_not_recognised_yet(script: Script, on_gap: str) -> None:
    """The capture process has not come to it: what is lost shows before its start LSN is known."""

    def exchange() -> None:
        script.disable("dbo_loses")
        script.delete("loses", 1)
        script.enable("loses", "loses_2")
        script.update("keeps", 1, 10)
        script.insert("loses", 3)

    told = script.publish(
        lambda: (
            script.notes("keeps")[1] == 10
            and script.out_of_cut() == ({"loses"} if on_gap == "stop" else set())
        ),
        during=exchange,
        snapshot={"mode": "initial", "on_gap": on_gap},
    )
    assert events(told, "table_stopped" if on_gap == "stop" else "table_restarted")
    if on_gap == "stop":
        script.ask_for("loses")
    script.publish(lambda: not script.out_of_cut())
    assert script.snapshot("loses") == [1, 2, 2, 3]
    assert script.changes("keeps") == [("u", 1)]


def lose_changes(script: Script) -> None:
    """Changes of both tables; cleanup takes those of one before they are read."""
    change_both(script)
    script.insert("loses", 3)
    script.scan()
    script.clean("dbo_loses")


def test_a_stopped_table_is_taken_up_with_another_instance(script: Script) -> None:
    """It was stopped; while the publisher was away its instance was made again."""
    lose_changes(script)
    told = script.publish(lambda: script.out_of_cut() == {"loses"})
    assert events(told, "table_stopped")
    script.disable("dbo_loses")
    script.enable("loses", "loses_2")
    script.scan()

    script.ask_for("loses")
    told = script.publish(lambda: not script.out_of_cut())
    assert events(told, "table_restarted")
    assert script.snapshot("loses") == [1, 2, 2, 3]


def test_a_new_table_whose_instance_starts_after_the_position_is_no_loss(script: Script) -> None:
    change_both(script)
    script.scan()
    script.create("late", 1)

    script.die_at(Step.WINDOW, window_transactions=1)
    told = script.publish(lambda: not script.out_of_cut(), window_transactions=1)
    assert not events(told, "table_stopped")
    assert script.snapshot("late") == [1]
    assert script.changes("loses") == [("d", 1)]


def test_an_instance_that_goes_during_the_snapshot_loses_its_place() -> None:
    """Chunks that are out are older than the newer instance: what changed since is in neither."""
    options = {"snapshot": {**_BY_SNAPSHOT, "chunk_rows": 1}}
    script = Script(**options)
    script.create("loses", 1, 2, 3, 4, 5)
    script.die_at(Step.COMMITTED, 2)
    out = script.snapshot("loses")
    assert 0 < len(out) < 5
    script.delete("loses", 1)
    script.scan()
    script.enable("loses", "loses_2")
    script.scan()
    script.die_at(Step.WINDOW)
    script.disable("dbo_loses")

    told = script.publish(lambda: not script.out_of_cut())
    (restarted,) = events(told, "table_restarted")
    assert "dbo_loses was disabled" in restarted["reason"]
    assert script.snapshot("loses") == sorted([*out, 2, 3, 4, 5])


def test_an_instance_made_again_under_its_name_begins_anew(script: Script) -> None:
    """Two names in turn: the first comes back while the second one is read."""
    note = 0

    def update() -> None:
        nonlocal note
        note += 1
        script.update("loses", 1, note)

    def is_out() -> bool:
        return script.notes("loses")[1] == note

    for old, new in (("dbo_loses", "other"), ("other", "dbo_loses"), ("dbo_loses", "other")):

        def hand_over(new: str = new) -> None:
            script.enable("loses", new)
            update()

        def make_again(old: str = old) -> None:
            script.disable(old)
            script.enable("loses", old)
            update()

        def end(old: str = old) -> None:
            script.disable(old)
            update()

        for happens in (hand_over, make_again, end):
            told = script.publish(is_out, during=happens)
            assert not events(told, "retrying")
            assert not events(told, "table_stopped")
    assert script.snapshot("loses") == [1, 2]
    assert script.changes("loses") == [("u", 1)] * 9


def test_a_gap_is_read_again_once_the_configuration_says_so(script: Script) -> None:
    lose_changes(script)
    script.publish(lambda: script.out_of_cut() == {"loses"})

    script.publish(lambda: not script.out_of_cut(), snapshot=_BY_SNAPSHOT)
    assert script.snapshot("loses") == [1, 2, 2, 3]


def test_a_gap_is_followed_by_a_new_snapshot_where_the_configuration_says_so(
    script: Script,
) -> None:
    before = len(script.has_been_out_of_cut("loses"))
    lose_changes(script)

    told = script.publish(
        lambda: len(script.snapshot("loses")) == 4 and not script.out_of_cut(),
        snapshot=_BY_SNAPSHOT,
    )
    assert not events(told, "table_stopped")
    assert events(told, "table_restarted")
    assert script.snapshot("loses") == [1, 2, 2, 3]
    named = script.has_been_out_of_cut("loses")[before:]
    first_row = script.has_rows_of("loses")[before:].index(True)
    assert any(named[:first_row]), "it is named before the first row of its snapshot"
    assert not named[-1]
    assert script.changes("keeps") == [("u", 1)]
