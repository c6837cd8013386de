"""Rows that SQL Server changes without change rows: their table stops, or is read again."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from tests.pipeline.conftest import Pipe
from tests.pipeline.running import Running

pytestmark = pytest.mark.kafka

_CONVERSION = "ALTER TABLE dbo.loses ALTER COLUMN at date"


def two_tables(pipe: Pipe) -> None:
    for table in ("keeps", "loses"):
        pipe.source.execute(
            f"CREATE TABLE dbo.{table} (id int PRIMARY KEY, at datetime2(3))",
            f"INSERT dbo.{table} VALUES (1, '2026-01-02T03:04:05'), (2, '2026-02-03T00:00:00')",
        )
        pipe.source.enable(table)


def rows(pipe: Pipe, table: str) -> dict[Any, Any]:
    return pipe.topics.state(pipe.source.name, table, "id")


def stopped(publisher: Running) -> list[dict[str, Any]]:
    return [event for event in publisher.events if event["event"] == "table_stopped"]


def restarted(publisher: Running) -> list[dict[str, Any]]:
    return [event for event in publisher.events if event["event"] == "table_restarted"]


def read_ids(pipe: Pipe) -> list[int]:
    snapshot = pipe.topics.snapshot(pipe.source.name, "parts")
    return sorted(event.as_envelope["after"]["id"] for event in snapshot)


def test_a_conversion_that_can_change_values_stops_its_table(pipe: Pipe):
    two_tables(pipe)
    with Running(pipe.config()) as publisher:
        publisher.until(pipe.is_caught_up, "both snapshots are out")
        pipe.source.execute("ALTER TABLE dbo.keeps ALTER COLUMN at datetime2(7)", _CONVERSION)
        pipe.source.execute("INSERT dbo.keeps (id) VALUES (3)")
        pipe.source.scan()
        publisher.until(lambda: 3 in rows(pipe, "keeps"), "the other table goes on")
        publisher.until(lambda: bool(stopped(publisher)), "the table is stopped")

    (told,) = stopped(publisher)
    assert told["error"] == "ValuesConverted"
    assert told["table"] == f"{pipe.source.name}.dbo.loses"
    assert "column at: ALTER COLUMN at " in told["reason"]
    assert "converted datetime2(3) to date" in told["reason"]


def test_by_option_it_is_read_again(pipe: Pipe):
    two_tables(pipe)
    options = pipe.options(snapshot={"on_gap": "snapshot"})
    with Running(pipe.config(**options)) as publisher:
        publisher.until(pipe.is_caught_up, "both snapshots are out")
    pipe.source.execute(_CONVERSION, "INSERT dbo.loses VALUES (3, '2026-03-04')")
    pipe.source.scan()

    with Running(pipe.config(**options)) as publisher:
        publisher.until(pipe.is_caught_up, "the change is out")
        publisher.until(
            lambda: rows(pipe, "loses")[1]["at"] == date(2026, 1, 2), "it was read again"
        )
    assert rows(pipe, "loses")[3]["at"] == date(2026, 3, 4)
    assert not stopped(publisher)
    assert (
        len(restarted(publisher)) == 1
    )  # and not once more when the stream has come to the statement


def test_a_switch_is_noticed_and_its_table_read_again(pipe: Pipe):
    pipe.source.execute(
        "CREATE PARTITION FUNCTION by_id (int) AS RANGE RIGHT FOR VALUES (10)",
        "CREATE PARTITION SCHEME by_id AS PARTITION by_id ALL TO ([PRIMARY])",
        "CREATE TABLE dbo.parts (id int PRIMARY KEY) ON by_id (id)",
        "CREATE TABLE dbo.archive (id int PRIMARY KEY)",
        "INSERT dbo.parts VALUES (1), (11)",
    )
    pipe.source.enable("parts")
    options = pipe.options(snapshot={"on_gap": "snapshot"})
    with Running(pipe.config(**options)) as publisher:
        publisher.until(pipe.is_caught_up, "the snapshot is out")
        pipe.source.execute("ALTER TABLE dbo.parts SWITCH PARTITION 2 TO dbo.archive")
        publisher.until(lambda: bool(restarted(publisher)), "the switch is noticed")
        pipe.source.scan()
        publisher.until(lambda: read_ids(pipe) == [1, 1, 11], "it was read again")
