"""The publisher rotates capture instances itself: each rule of docs/schema-changes.md."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tailrace_publisher.runtime import Step
from tests.simulation.mutants import put_back
from tests.simulation.scripted.script import Script, Told, events
from tests.simulation.world import Finding

_ROTATE = {"schema_change": "rotate"}


@pytest.fixture
def script() -> Script:
    """Two tables of two rows, published; capture instances of both are rotated."""
    script = Script(tables=_ROTATE)
    script.create("orders", 1, 2)
    script.create("other", 1)
    script.publish(lambda: script.snapshot("orders") == [1, 2] and not script.out_of_cut())
    return script


def only(script: Script, name: str) -> Callable[[], bool]:
    """Whether a table has that instance alone."""
    return lambda: list(script.instances("orders")) == [name]


def steps(told: Told) -> list[str]:
    """What was created and dropped."""
    names = {"capture_instance_created": "+", "capture_instance_dropped": "-"}
    return [
        names[event["event"]] + event["capture_instance"]
        for event in told
        if event["event"] in names
    ]


def test_an_added_column_arrives_and_the_older_instance_goes(script: Script) -> None:
    def alter() -> None:
        script.alter("orders", "add", "city")
        script.update("orders", 1, 10)

    told = script.publish(only(script, "dbo_orders_r1"), during=alter)
    assert steps(told) == ["+dbo_orders_r1", "-dbo_orders"]
    assert script.instances("orders") == {"dbo_orders_r1": ["id", "note", "city"]}
    assert list(script.instances("other")) == ["dbo_other"]

    script.update("orders", 2, 20)
    told = script.publish(lambda: script.notes("orders") == {1: 10, 2: 20})
    assert script.values("orders", "city") == {2: None}
    assert not events(told, "table_stopped")
    assert steps(told) == []

    script.alter("orders", "add", "street")
    told = script.publish(only(script, "dbo_orders_r2"))
    assert steps(told) == ["+dbo_orders_r2", "-dbo_orders_r1"]


def test_a_change_during_its_downtime_is_found_at_the_next_start(script: Script) -> None:
    script.alter("orders", "add", "city")
    script.update("orders", 1, 10)
    script.scan()

    told = script.publish(only(script, "dbo_orders_r1"))
    assert steps(told) == ["+dbo_orders_r1", "-dbo_orders"]
    assert script.notes("orders") == {1: 10, 2: 2}


def test_a_dropped_column_leaves_the_events(script: Script) -> None:
    told = script.publish(
        only(script, "dbo_orders_r1"), during=lambda: script.alter("orders", "drop", "note")
    )
    assert steps(told) == ["+dbo_orders_r1", "-dbo_orders"]
    assert script.instances("orders") == {"dbo_orders_r1": ["id"]}


def test_a_type_change_needs_no_rotation(script: Script) -> None:
    def alter() -> None:
        script.alter("orders", "alter", "note", "bigint")
        script.update("orders", 1, 1 << 40)

    told = script.publish(lambda: script.notes("orders")[1] == 1 << 40, during=alter)
    assert steps(told) == []
    assert list(script.instances("orders")) == ["dbo_orders"]


def test_a_column_that_is_added_and_dropped_before_it_is_seen_needs_none(script: Script) -> None:
    script.alter("orders", "add", "city")
    script.alter("orders", "drop", "city")
    script.update("orders", 1, 10)
    script.scan()

    told = script.publish(lambda: script.notes("orders")[1] == 10)
    assert steps(told) == []


def test_a_column_that_is_dropped_before_the_hand_over_takes_two_rotations(script: Script) -> None:
    script.before_change(lambda: script.alter("orders", "add", "street"))
    script.alter("orders", "add", "city")
    script.scan()
    script.die_at(Step.ROTATED)
    assert script.instances("orders")["dbo_orders_r1"] == ["id", "note", "city", "street"]
    script.alter("orders", "drop", "city")

    told = script.publish(only(script, "dbo_orders_r2"))
    assert steps(told) == ["-dbo_orders", "+dbo_orders_r2", "-dbo_orders_r1"]
    assert script.instances("orders") == {"dbo_orders_r2": ["id", "note", "street"]}


def _without_secret() -> Script:
    """A published table whose author left a column out of the list."""
    script = Script(tables=_ROTATE)
    script.create("orders", 1, is_captured=False)
    script.alter("orders", "add", "secret")
    script.enable("orders")
    script.leave_out("dbo_orders", "secret")
    script.scan()
    script.publish(lambda: script.snapshot("orders") == [1])
    return script


def test_a_column_that_was_left_out_stays_out() -> None:
    script = _without_secret()
    told = script.publish(
        only(script, "dbo_orders_r1"), during=lambda: script.alter("orders", "drop", "note")
    )
    assert steps(told) == ["+dbo_orders_r1", "-dbo_orders"]
    assert script.instances("orders") == {"dbo_orders_r1": ["id"]}
    assert script.publish(scans=True)
    assert script.instances("orders") == {"dbo_orders_r1": ["id"]}


def test_who_lists_columns_decides_about_a_new_one_too() -> None:
    script = _without_secret()

    def alter() -> None:
        script.alter("orders", "add", "city")
        script.update("orders", 1, 10)

    told = script.publish(lambda: script.notes("orders") == {1: 10}, during=alter)
    (waiting,) = events(told, "rotation_waiting")
    assert waiting["table"] == "shop.dbo.orders"
    assert waiting["reason"].startswith("added city, but dbo_orders has a column list, which left")
    assert "tailrace enable dbo.orders --capture-instance dbo_orders_r1" in waiting["reason"]
    assert steps(told) == []
    assert list(script.instances("orders")) == ["dbo_orders"]

    script.enable("orders", "dbo_orders_r1", "id", "note", "city")
    told = script.publish(only(script, "dbo_orders_r1"))
    assert steps(told) == ["-dbo_orders"]


def test_a_column_under_the_name_of_one_that_was_left_out_stays_out_too() -> None:
    script = _without_secret()

    def alter() -> None:
        script.alter("orders", "drop", "secret")
        script.alter("orders", "add", "secret")
        script.update("orders", 1, 10)

    told = script.publish(lambda: script.notes("orders") == {1: 10}, during=alter)
    assert "left out secret" in events(told, "rotation_waiting")[0]["reason"]
    assert steps(told) == []


def test_a_list_is_not_copied_once_nothing_would_show_what_it_left_out() -> None:
    script = _without_secret()

    def alter() -> None:
        script.alter("orders", "drop", "secret")
        script.alter("orders", "drop", "note")
        script.insert("orders", 2)

    told = script.publish(lambda: script.changes("orders") == [("c", 2)], during=alter)
    assert "dropped note, but dbo_orders has" in events(told, "rotation_waiting")[0]["reason"]
    assert steps(told) == []


def test_a_list_that_is_forgotten_shows() -> None:
    script = _without_secret()
    with put_back("lists-forgotten"), pytest.raises(Finding, match="no list of an operator"):
        script.publish(
            only(script, "dbo_orders_r1"), during=lambda: script.alter("orders", "add", "city")
        )


def test_a_renamed_table_is_rotated_under_its_present_name() -> None:
    script = Script(tables={**_ROTATE, "on_rename": "keep_topic"})
    script.create("orders", 1, 2)
    script.publish(lambda: script.snapshot("orders") == [1, 2] and not script.out_of_cut())
    script.rename("orders", "sales")
    script.alter("sales", "add", "city")
    script.update("sales", 1, 10)
    script.scan()

    told = script.publish(lambda: list(script.instances("sales")) == ["dbo_orders_r1"])
    assert steps(told) == ["+dbo_orders_r1", "-dbo_orders"]
    assert script.notes("orders") == {1: 10, 2: 2}


def test_a_table_that_is_created_again_waits_for_an_operator(script: Script) -> None:
    script.drop("orders")
    script.create("orders", 5, is_captured=False)
    script.scan()
    told = script.publish(lambda: script.instances("orders") == {})
    assert steps(told) == []

    script.enable("orders")
    script.publish(lambda: 5 in script.snapshot("orders"))
    assert list(script.instances("orders")) == ["dbo_orders"]


def test_two_instances_of_an_operator_are_waited_for(script: Script) -> None:
    script.enable("orders", "by_hand")
    script.scan()
    script.alter("orders", "add", "city")
    script.scan()
    told = script.publish(lambda: len(script.instances("orders")) == 2)
    (waiting,) = events(told, "rotation_waiting")
    assert "no third capture instance besides dbo_orders and by_hand" in waiting["reason"]
    assert steps(told) == []

    told = script.publish(only(script, "by_hand_r1"), during=lambda: script.disable("dbo_orders"))
    assert steps(told) == ["+by_hand_r1", "-by_hand"]


def test_whoever_creates_first_wins(script: Script) -> None:
    """A foreign tool rotates in the same moment: the publisher follows, and drops nothing."""
    script.before_change(lambda: script.enable("orders", "theirs"))

    def alter() -> None:
        script.alter("orders", "add", "city")
        script.update("orders", 1, 10)

    told = script.publish(
        lambda: len(script.instances("orders")) == 2 and script.notes("orders")[1] == 10,
        during=alter,
    )
    assert events(told, "rotation_overtaken")
    assert steps(told) == []
    assert set(script.instances("orders")) == {"dbo_orders", "theirs"}
    script.disable("dbo_orders")
    script.update("orders", 2, 20)
    told = script.publish(lambda: script.values("orders", "city") == {2: None})
    assert not events(told, "table_stopped")


def test_another_publisher_that_drops_first_is_no_error(script: Script) -> None:
    script.alter("orders", "add", "city")
    script.scan()
    script.die_at(Step.ROTATED)
    script.before_change(lambda: script.disable("dbo_orders"))
    told = script.publish(only(script, "dbo_orders_r1"))
    assert not events(told, "table_stopped")


def test_a_login_without_rights_is_told_what_it_needs(script: Script) -> None:
    script.may_change(is_owner=False)

    def alter() -> None:
        script.alter("orders", "add", "city")
        script.update("orders", 1, 10)

    told = script.publish(lambda: script.notes("orders")[1] == 10, during=alter)
    refused = events(told, "rotation_refused")[0]
    assert refused["table"] == "shop.dbo.orders"
    assert refused["capture_instance"] == "dbo_orders_r1"
    assert "source.primary" in refused["reason"]
    assert "tailrace grants" in refused["reason"]
    assert not events(told, "table_stopped")

    script.may_change(is_owner=True)
    told = script.publish(only(script, "dbo_orders_r1"))
    assert steps(told) == ["+dbo_orders_r1", "-dbo_orders"]


def test_a_table_that_is_locked_is_tried_again_soon(script: Script) -> None:
    script.mark_seldom().lock_changes(1)

    def a_pause_passes() -> bool:
        """The calls of a life take less time than the pause after a lock that was not granted."""
        script.pass_time(1)
        return only(script, "dbo_orders_r1")()

    told = script.publish(a_pause_passes, during=lambda: add_city(script))
    assert len(events(told, "rotation_retried")) == 1
    assert not events(told, "rotation_refused")
    assert steps(told) == ["+dbo_orders_r1", "-dbo_orders"]


def killed_after_it_was_created(script: Script) -> None:
    script.die_at(Step.ROTATED)


def killed_before_the_answer(script: Script) -> None:
    script.lose_answer()
    script.publish(lambda: "dbo_orders_r1" in script.instances("orders"), scans=False)


def killed_after_the_hand_over(script: Script) -> None:
    script.die_at(Step.ROTATED)
    script.scan()
    script.update("orders", 2, 15)
    script.scan()
    script.die_at(Step.BEFORE_COMMIT)


def killed_after_the_drop(script: Script) -> None:
    script.die_at(Step.ROTATED, 2)


@pytest.mark.parametrize(
    "kill",
    [
        killed_after_it_was_created,
        killed_before_the_answer,
        killed_after_the_hand_over,
        killed_after_the_drop,
    ],
)
def test_a_kill_at_any_step_loses_nothing(script: Script, kill: Callable[[Script], None]) -> None:
    script.alter("orders", "add", "city")
    script.update("orders", 1, 10)
    script.scan()
    kill(script)

    script.update("orders", 2, 20)
    told = script.publish(
        lambda: only(script, "dbo_orders_r1")() and script.notes("orders") == {1: 10, 2: 20}
    )
    assert not events(told, "table_stopped")
    assert not events(told, "table_restarted")
    assert script.snapshot("orders") == [1, 2]


def test_an_answer_that_is_lost_with_the_drop_is_no_error(script: Script) -> None:
    script.alter("orders", "add", "city")
    script.scan()
    script.die_at(Step.ROTATED)
    script.lose_answer()
    told = script.publish(only(script, "dbo_orders_r1"))
    assert events(told, "rotation_retried")
    assert not events(told, "table_stopped")


def test_the_older_instance_stays_until_its_changes_are_committed(script: Script) -> None:
    script.alter("orders", "add", "city")
    script.update("orders", 1, 10)
    script.scan()
    script.die_at(Step.ROTATED)
    script.scan()  # the newer one is recognised, and nothing after it is published
    script.die_at(Step.WINDOW)
    assert set(script.instances("orders")) == {"dbo_orders", "dbo_orders_r1"}
    script.die_at(Step.BEFORE_COMMIT)
    assert set(script.instances("orders")) == {"dbo_orders", "dbo_orders_r1"}


def test_only_the_named_tables_are_rotated() -> None:
    script = Script(tables={"schema_changes": {r"dbo\.orders": "rotate"}})
    script.create("orders", 1)
    script.create("other", 1)
    script.publish(lambda: script.snapshot("other") == [1])

    def alter() -> None:
        for table in ("orders", "other"):
            script.alter(table, "add", "city")

    told = script.publish(only(script, "dbo_orders_r1"), during=alter)
    assert steps(told) == ["+dbo_orders_r1", "-dbo_orders"]
    assert list(script.instances("other")) == ["dbo_other"]


def test_newer_instances_are_ignored_while_the_present_one_exists() -> None:
    script = Script(tables={"schema_change": "ignore"})
    script.create("orders", 1, 2)
    script.publish(lambda: script.snapshot("orders") == [1, 2] and not script.out_of_cut())
    script.alter("orders", "add", "city")
    script.enable("orders", "by_hand")
    script.scan()
    script.update("orders", 1, 10)
    script.scan()
    told = script.publish(lambda: script.notes("orders")[1] == 10)
    assert script.values("orders", "city") == {}
    assert not events(told, "table_stopped")

    script.disable("dbo_orders")
    script.update("orders", 2, 20)
    script.scan()
    told = script.publish(lambda: script.values("orders", "city") == {2: None})
    assert not events(told, "table_stopped")


def add_city(script: Script) -> None:
    script.alter("orders", "add", "city")


def drop_note(script: Script) -> None:
    script.alter("orders", "drop", "note")


def widen_note(script: Script) -> None:
    script.alter("orders", "alter", "note", "bigint")


def add_city_with_an_instance(script: Script) -> None:
    script.alter("orders", "add", "city")
    script.enable("orders", "by_hand")


@pytest.mark.parametrize("alter", [add_city, drop_note, widen_note, add_city_with_an_instance])
def test_a_table_stops_at_each_change_until_it_is_allowed(alter: Callable[[Script], None]) -> None:
    script = Script(tables={"schema_change": "fail"})
    script.create("orders", 1, 2)
    script.create("other", 1)
    script.publish(lambda: script.snapshot("orders") == [1, 2] and not script.out_of_cut())
    told = script.publish(
        lambda: script.out_of_cut() == {"orders"}, during=lambda: (alter(script), script.scan())[1]
    )
    (stopped,) = events(told, "table_stopped")
    assert (stopped["error"], stopped["table"]) == ("SchemaChanged", "shop.dbo.orders")

    script.ask_for("orders")
    script.publish(lambda: not script.out_of_cut(), tables={"schema_change": "follow"})
    script.update("other", 1, 5)
    told = script.publish(lambda: script.notes("other") == {1: 5}, tables=_FAILS_OTHER)
    assert not script.out_of_cut()


_FAILS_OTHER = {"schema_changes": {"dbo\\.other": "fail"}}
