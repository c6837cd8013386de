"""The publisher removes published change rows, and no others (cleanup.wait_for: topics)."""

from __future__ import annotations

from typing import Any

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


def test_a_bite_of_commits_of_one_time_is_not_repeated(
    script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a commit time, the server takes the smallest LSN as the low watermark."""
    script.mark_seldom()
    monkeypatch.setattr("tailrace_publisher.source.log.cleanup.COMMITS_MAX", 2)
    for first in (10, 20):
        script.insert_at_once("orders", *range(first, first + 6))

    script.publish(lambda: len(script.commits("dbo_orders")) <= 1)
    script.insert("orders", 30)
    script.publish(lambda: len(script.changes("orders")) == 19)

    numbers = (*range(2, 8), *range(10, 16), *range(20, 26), 30)
    assert script.changes("orders") == [("c", number) for number in numbers]


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


def of_lake(**options: Any) -> Script:
    """One table that is published, and a lake that is waited for."""
    script = Script(lakes=["lake"], cleanup=_CLEANS | {"wait_for": "lake"}, **options)
    script.create("orders", 1)
    script.publish(lambda: not script.out_of_cut())
    return script


def test_change_rows_wait_for_the_lake() -> None:
    script = of_lake()
    told = script.publish(during=lambda: script.insert("orders", 2, 3))
    (unknown,) = events(told, "lake_unknown")
    assert "option lakes" in unknown["reason"]
    assert "kafka.consumer_group: lake" in unknown["reason"]
    script.lake_reads()
    had = script.lake_closed
    script.insert("orders", 4)
    script.insert("orders", 5)
    rested = script.seconds + 5

    # A finding, had it taken what the lake lacks.
    script.publish(lambda: script.seconds > rested, poll_interval_ms=200)

    assert had < script.newest
    assert len(script.commits("dbo_orders")) == 2
    script.publish(lambda: len(script.commits("dbo_orders")) <= 1, during=script.lake_reads)


def test_the_older_instance_waits_for_the_lake() -> None:
    tables = {"schema_change": "rotate", "drop_after": "lake"}
    script = of_lake(tables=tables)
    script.lake_reads()
    script.alter("orders", "add", "city")
    script.publish(lambda: len(script.instances("orders")) == 2)
    script.insert("orders", 2)

    told = script.publish(lambda: script.values("orders", "city") == {2: None})

    assert list(script.instances("orders")) == ["dbo_orders", "dbo_orders_r1"]
    assert any("a lake (lakes) lacks" in e["reason"] for e in events(told, "rotation_waiting"))
    script.publish(
        lambda: list(script.instances("orders")) == ["dbo_orders_r1"], during=script.lake_reads
    )


def test_a_refusal_is_reported_and_stops_nothing(script: Script) -> None:
    script.may_change(is_owner=False)
    script.insert("orders", 8)
    tried = script.seconds + 5

    told = script.publish(lambda: script.seconds > tried, poll_interval_ms=200)

    assert len(script.changes("orders")) == 7

    (refused, *_) = events(told, "cleanup_refused")
    assert "source.primary name a login in the role db_owner" in refused["reason"]
    assert len(script.commits("dbo_orders")) == 7
