"""Tables that are stopped or missing leave the others alone, and come back."""

from __future__ import annotations

import json

import pytest

from tests.simulation.scripted.script import Script, events


def shop(*tables: str) -> Script:
    """Tables of two rows, published."""
    script = Script()
    for table in tables:
        script.create(table, 1, 2)
    script.publish(
        lambda: all(script.snapshot(t) == [1, 2] for t in tables) and not script.out_of_cut()
    )
    return script


def test_missing_tables_do_not_keep_a_later_start_from_the_others() -> None:
    tables = ("stays", "disabled", "dropped")
    script = shop(*tables)
    script.disable("dbo_disabled")
    script.drop("dropped")
    script.insert("stays", 3)
    enables = [lambda: script.enable("disabled")]

    def is_taken_up() -> bool:
        if enables and script.out_of_cut() == {"disabled", "dropped"}:
            enables.pop()()
        return script.out_of_cut() == {"dropped"}

    told = script.publish(
        is_taken_up,
        tables={"include": [rf"dbo\.{table}" for table in tables]},
        message_keys={"dbo.dropped": ["id"]},
    )
    reasons = {event["table"]: event["reason"] for event in events(told, "table_stopped")}
    assert reasons.keys() == {"shop.dbo.disabled", "shop.dbo.dropped"}
    assert "sys.sp_cdc_enable_table" in reasons["shop.dbo.disabled"]
    assert "does not exist" in reasons["shop.dbo.dropped"]
    assert script.snapshot("disabled") == [1, 1, 2, 2]
    assert script.changes("stays") == [("c", 3)]


def test_a_stopped_table_comes_back_without_a_restart() -> None:
    script = shop("orders")
    script.create("other", 1)
    script.delete("orders", 1)
    script.insert("orders", 3)
    script.scan()
    script.clean("dbo_orders")
    asks = [lambda: script.ask_for("orders")]

    def is_whole() -> bool:
        if asks and "orders" in script.out_of_cut():
            asks.pop()()
        return not asks and not script.out_of_cut()

    told = script.publish(is_whole)
    assert len(events(told, "table_stopped")) == 1
    assert script.snapshot("orders") == [1, 2, 2, 3]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"not JSON", "not JSON"),
        (None, "not JSON"),
        (b'{"type": "sleep", "tables": ["dbo.orders"]}', "expected"),
        (json.dumps({"type": "snapshot", "tables": ["dbo.nosuch"]}).encode(), "no such table"),
    ],
    ids=["text", "null", "another type", "unknown table"],
)
def test_a_wrong_signal_is_told_and_passed_over(value: bytes | None, reason: str) -> None:
    script = shop("orders")
    script.send(value)
    script.ask_for("orders")

    told = script.publish(
        lambda: script.snapshot("orders") == [1, 1, 2, 2] and not script.out_of_cut()
    )
    (refused,) = events(told, "signal_refused")
    assert reason in refused["reason"]
