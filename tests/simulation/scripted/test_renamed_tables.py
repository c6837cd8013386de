"""A table under another name is the same one, until an operator says otherwise."""

from __future__ import annotations

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
