"""A table under another name is the same one, until an operator says otherwise."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.simulation.scripted.script import Script, events


@pytest.fixture
def script() -> Script:
    """Two published tables, of which one was renamed since; then a change of each."""
    script = Script()
    script.create("stays", 1)
    script.create("old", 1)
    script.publish(lambda: script.snapshot("old") == [1] and not script.out_of_cut())
    script.rename("old", "new")
    script.insert("new", 2)
    script.insert("stays", 2)
    script.scan()
    return script


def test_a_renamed_table_stops_by_name_until_somebody_says_what_to_do(script: Script) -> None:
    for _ in range(2):
        told = script.publish(lambda: "new" in script.out_of_cut())
        (stopped,) = events(told, "table_stopped")
        assert stopped["error"] == "TableRenamed"
        assert stopped["table"] == "shop.dbo.new"
        for part in ("published as", "dbo.old", "keep_topic"):
            assert part in stopped["reason"]
    assert script.changes("stays") == [("c", 2)]
    assert script.snapshot("new") == script.changes("new") == script.changes("old") == []

    def is_whole() -> bool:
        return script.out_of_cut() == {"old"}  # what is under that name is not true any more

    script.ask_for("new")
    script.publish(is_whole)
    script.insert("new", 3)
    script.publish(is_whole)
    assert script.snapshot("new") == [1, 2]
    assert script.changes("new") == [("c", 3)]
    assert not events(script.publish(is_whole), "table_stopped"), "a start knows it by that name"


@pytest.mark.parametrize("policy", ["stop", "keep_topic"])
def test_a_table_that_takes_over_the_old_name_begins_with_a_snapshot(
    script: Script, policy: str
) -> None:
    script.create("old", 7, is_captured=False)
    script.enable("old", "old_2")

    told = script.publish(
        lambda: script.snapshot("old") == [1, 7] and script.out_of_cut() == {"new"},
        tables={"on_rename": policy},
    )
    (stopped,) = events(told, "table_stopped")
    assert (stopped["error"], stopped["table"]) == ("TableRenamed", "shop.dbo.new")
    assert script.snapshot("new") == []


def test_the_old_name_given_back_heals_it(script: Script) -> None:
    script.publish(lambda: "new" in script.out_of_cut())
    script.rename("new", "old")

    script.publish(lambda: not script.out_of_cut())
    assert script.notes("old") == {1: 1, 2: 2}


@pytest.mark.parametrize(
    "order",
    [
        lambda script: script.ask_for("old"),
        lambda script: script.repair("old", 1),
    ],
    ids=["whole", "repair"],
)
def test_a_table_that_is_renamed_before_it_is_read_is_read_under_its_new_name(
    order: Callable[[Script], None],
) -> None:
    """The statement has the old name, as the catalog was read before; no read is given up."""
    script = Script(tables={"on_rename": "keep_topic"})
    script.create("old", 1)
    script.publish(lambda: script.snapshot("old") == [1] and not script.out_of_cut())

    def rename() -> None:
        order(script)
        script.rename("old", "new")

    told = script.publish(lambda: script.seconds > 60 and not script.out_of_cut(), during=rename)
    assert events(told, "snapshot_finished")
    assert not events(told, "partial_snapshot_given_up")
    assert not events(told, "table_stopped")


def test_rows_of_a_table_that_was_just_renamed_are_refused_for_that() -> None:
    script = Script()
    script.create("old", 1)
    script.publish(lambda: script.snapshot("old") == [1] and not script.out_of_cut())

    def rename() -> None:
        script.rename("old", "new")
        script.insert("new", 2)
        script.ask_for("old", "[id] >= 0")

    told = script.publish(lambda: script.changes("old") == [("c", 2)], during=rename)
    (refused,) = events(told, "signal_refused")
    assert "perhaps because it was just renamed" in refused["reason"]
