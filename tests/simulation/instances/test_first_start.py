"""A first start leaves out what cannot be published, and refuses wrong options (ADR 0122)."""

from __future__ import annotations

import pytest

from tailrace_publisher.errors import PreflightError
from tests.simulation.scripted.script import Script, events


def _two_tables(**options: object) -> Script:
    script = Script(**options).hides_nothing()
    script.create("orders", 1, 2)
    script.create("people", 1, 2)
    return script


@pytest.mark.parametrize(
    ("hides", "fix"), [("mask", "GRANT UNMASK"), ("hide_rows", "snapshot.exempt_policies")]
)
def test_a_table_that_may_not_be_read_is_left_out(hides: str, fix: str) -> None:
    script = _two_tables()
    script.grant_unmask(is_granted=False)
    getattr(script, hides)("orders")
    told = script.publish(lambda: script.snapshot("people") == [1, 2], is_whole=False)
    (stop,) = events(told, "table_stopped")
    assert stop["table"] == "shop.dbo.orders"
    assert stop["log_level"] == "error"
    assert fix in stop["reason"]
    assert script.snapshot("orders") == []
    assert script.out_of_cut() == {"orders"}


def test_a_table_that_was_left_out_gets_its_snapshot_after_the_grant() -> None:
    script = _two_tables()
    script.grant_unmask(is_granted=False)
    script.mask("orders", in_change_tables=True)
    told = script.publish(lambda: script.out_of_cut() == {"orders"}, is_whole=False)
    assert "cdc.dbo_orders_CT" in events(told, "table_stopped")[0]["reason"]
    script.update("orders", 1, 7)
    script.grant_unmask(is_granted=True)
    script.publish(lambda: not script.out_of_cut())
    assert script.notes("orders") == script.source_notes("orders") == {1: 7, 2: 2}


def test_a_table_that_is_not_captured_is_added_when_it_is() -> None:
    script = _two_tables()
    script.create("later", 1, is_captured=False)
    options = {"tables": {"include": ["dbo.orders", "dbo.people", "dbo.later"]}}
    told = script.publish(
        lambda: script.snapshot("later") == [1],
        during=lambda: script.enable("later"),
        **options,
    )
    (stop,) = events(told, "table_stopped")
    assert stop["table"] == "shop.dbo.later"
    assert "sys.sp_cdc_enable_table" in stop["reason"]
    assert not script.out_of_cut()


def test_a_first_start_without_a_table_that_can_be_published_is_refused() -> None:
    script = _two_tables()
    script.grant_unmask(is_granted=False)
    for table in ("orders", "people"):
        script.mask(table, in_change_tables=True)
    with pytest.raises(PreflightError, match=r"cdc\.dbo_orders_CT") as refused:
        script.publish()
    assert len(refused.value.problems) == 2


@pytest.mark.parametrize(
    "options",
    [
        {"tables": {"include": ["dbo.orders", "dbo.misspelt"]}},
        {"message_keys": {"dbo.orders": ["misspelt"]}},
        {"columns": {"exclude": ["dbo.orders.misspelt"]}},
        {"columns": {"exclude": ["dbo.orders.id"]}},
        {"snapshot": {"where": {"dbo.misspelt": "id = 1"}}},
    ],
)
def test_a_wrong_option_refuses_the_first_start(options: dict[str, object]) -> None:
    script = _two_tables()
    with pytest.raises(PreflightError, match=r"misspelt|column id"):
        script.publish(**options)
