"""The publisher removes published change rows, and no others (cleanup.wait_for: topics)."""

from __future__ import annotations

import pytest

from tailrace_publisher.runtime import Step
from tests.simulation.scripted.script import Script, events

_CLEANS = {"wait_for": "topics", "every_s": 1}


@pytest.fixture
def script() -> Script:
    """Two tables whose snapshots and first changes are published."""
    script = Script(cleanup=_CLEANS)
    for name in ("orders", "other"):
        script.create(name, 1)
    script.publish(lambda: not script.out_of_cut())
    for number in range(2, 8):
        script.insert("orders", number)
        script.insert("other", number)
    return script


def test_what_is_published_goes_and_later_changes_are_published_once(script: Script) -> None:
    script.publish(lambda: len(script.commits("dbo_orders")) <= 1)
    script.insert("orders", 8)

    told = script.publish(lambda: len(script.changes("orders")) == 7)

    assert script.changes("orders") == [("c", number) for number in range(2, 9)]
    assert not events(told, "table_stopped")


@pytest.mark.parametrize("number", range(1, 5))
def test_nothing_goes_that_is_not_committed(script: Script, number: int) -> None:
    script.die_at(Step.SENT, number, rows_per_transaction=1)
    published = {identity for _, identity in script.changes("orders")}

    kept = script.commits("dbo_orders")

    assert 6 - len(kept) <= len(published)
    script.publish(lambda: len(script.changes("orders")) == 6)


def test_a_stopped_table_keeps_its_rows(script: Script) -> None:
    script.rename("orders", "sales")  # by default a renamed table stops
    script.publish(lambda: len(script.commits("dbo_other")) <= 1)

    assert len(script.commits("dbo_orders")) == 6


def test_a_table_keeps_its_rows_until_a_newer_instance_has_its_columns(script: Script) -> None:
    script.alter("orders", "add", "city")
    script.publish(lambda: len(script.commits("dbo_other")) <= 1)

    assert len(script.commits("dbo_orders")) == 6


def test_a_refusal_is_reported_and_stops_nothing(script: Script) -> None:
    script.may_change(is_owner=False)

    told = script.publish(lambda: len(script.changes("orders")) == 6)
    script.insert("orders", 8)
    told += script.publish(lambda: len(script.changes("orders")) == 7)

    (refused, *_) = events(told, "cleanup_refused")
    assert "source.primary name a login in the role db_owner" in refused["reason"]
    assert len(script.commits("dbo_orders")) == 7
