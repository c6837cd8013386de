"""Snapshots of some rows: those that meet the condition, and of the others what changes."""

from __future__ import annotations

import pytest

from tailrace_publisher.errors import PreflightError
from tests.pipeline.conftest import Pipe
from tests.pipeline.running import Running

pytestmark = pytest.mark.kafka

WHERE = "status <> 'closed' OR status IS NULL"
STATUS = {1: "open", 2: "closed", 3: None, 4: "closed", 5: "open", 6: "closed", 7: "?"}


@pytest.fixture
def orders(pipe: Pipe) -> Pipe:
    """The same rows with a key and without one."""
    rows = ", ".join(
        f"({number}, {'NULL' if status is None else repr(status)}, N'long')"
        for number, status in STATUS.items()
    )
    for table, key in (("orders", " PRIMARY KEY"), ("keyless", "")):
        pipe.source.execute(
            f"CREATE TABLE dbo.{table} (id int NOT NULL{key}, status varchar(10),"
            " note nvarchar(max))",
            f"INSERT dbo.{table} VALUES {rows}",
        )
        pipe.source.enable(table)
    return pipe


def read_ids(pipe: Pipe, table: str) -> list[int]:
    events = pipe.topics.snapshot(pipe.source.name, table)
    return sorted(event.envelope["after"]["id"] for event in events if event.envelope)


def test_rows_that_are_left_out_arrive_when_they_change(orders: Pipe):
    source = orders.source
    where = {r"dbo\.orders": f"{WHERE} OR status = '?'", ".*": WHERE}
    with Running(orders.config(snapshot={"chunk_rows": 2, "where": where})) as publisher:
        publisher.until(orders.is_caught_up, "the snapshots are out")
        assert read_ids(orders, "orders") == [1, 3, 5, 7]
        assert read_ids(orders, "keyless") == [1, 3, 5, 7]
        source.execute(
            "UPDATE dbo.orders SET status = 'late' WHERE id = 2",
            "UPDATE dbo.orders SET status = 'closed' WHERE id = 1",
            "DELETE dbo.orders WHERE id = 4",
        )
        publisher.until(orders.is_caught_up, "the changes are out")

    orders.assert_exactly_once("orders")
    state = orders.topics.state(source.name, "orders", "id")
    held = {number: row["status"] for number, row in state.items()}
    assert held == {1: "closed", 2: "late", 3: None, 5: "open", 7: "?"}
    (late,) = [
        event.envelope
        for event in orders.topics.changes(source.name, "orders")
        if event.envelope and (event.envelope["after"] or {}).get("id") == 2
    ]
    assert late["op"] == "u"
    held_note = late["after"]["note"], late["source"]["unavailable"]
    assert held_note in [("long", []), (None, ["note"])]  # a change table may lack it
    told = {e["table"]: e["columns"] for e in publisher.told("snapshot_leaves_large_values_out")}
    assert told == {f"{source.name}.dbo.{name}": ["note"] for name in ("orders", "keyless")}


def test_a_condition_that_the_server_refuses_is_told_by_name(orders: Pipe):
    where = {"dbo.orders": "state = 'open'", "dbo.keyless": "status =", "dbo.nothing": "id = 1"}
    with Running(orders.config(snapshot={"where": where})) as publisher:
        error = publisher.ended()

    assert isinstance(error, PreflightError)
    told = {p.partition(" table ")[2].split()[0].rstrip(":"): p for p in error.problems}
    assert len(error.problems) == len(told) == 3
    assert "snapshot.where: the server refuses" in told[f"{orders.source.name}.dbo.orders"]
    assert "state" in told[f"{orders.source.name}.dbo.orders"]
    assert "yntax" in told[f"{orders.source.name}.dbo.keyless"]
    assert "snapshot.where: table dbo.nothing is not published" in told["dbo.nothing"]
