"""Orders by signal, command and HTTP, to a running publisher.

What each order leads to is scripted: tests/simulation/scripted/test_orders.py.
"""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from tailrace.cli.root import cli
from tailrace.signals.request import ask
from tailrace_schemas.records.signals import TableOrder, TableSignal
from tailrace_schemas.topics.topic_names import TableName
from tailrace_service.status import DaemonStatus, TableStatus
from tests.pipeline.conftest import Pipe
from tests.pipeline.running import Running

pytestmark = pytest.mark.kafka

SLOW = {"snapshot": {"chunk_rows": 1, "chunk_mb": 1, "memory_mb": 1}, "metrics_port": 0}
"""One row in memory at a time: the next is read when the one before is out."""
ROWS = 8


@pytest.fixture
def shop(pipe: Pipe) -> Pipe:
    """A table of some rows, of which nothing is published, and one of two."""
    pipe.source.execute("CREATE TABLE dbo.orders (id int PRIMARY KEY, note int)")
    values = ", ".join(f"({number}, 0)" for number in range(ROWS))
    pipe.source.execute(f"INSERT dbo.orders VALUES {values}")
    pipe.source.execute("CREATE TABLE dbo.[Order Items] (id int PRIMARY KEY, note int)")
    pipe.source.execute("INSERT dbo.[Order Items] VALUES (1, 1), (2, 2)")
    pipe.source.enable("orders")
    pipe.source.enable("Order Items")
    return pipe


class Client:
    """The endpoint of a publisher, as an operator asks it."""

    def __init__(self, publisher: Running) -> None:
        publisher.until(lambda: bool(publisher.told("http_served")), "it listens")
        url = str(publisher.told("http_served")[0]["url"])
        self.http = httpx.Client(base_url=url, trust_env=False)

    def status(self) -> DaemonStatus:
        return DaemonStatus.from_json(self.http.get("/status").json())

    def orders(self) -> TableStatus:
        found = [table for table in self.status().tables if table.table == "dbo.orders"]
        return found[0] if found else TableStatus("dbo.orders", "", "not known yet")

    def ask(self, path: str, *tables: str) -> int:
        return self.http.post(path, json={"tables": tables}).status_code


def is_named(shop: Pipe) -> bool:
    """Whether the newest progress record names the table."""
    topic = shop.topics.names.data(TableName(shop.source.name, "dbo", "orders"))
    records = shop.topics.progress()
    return bool(records) and topic in records[-1]["snapshotting"]


def order(shop: Pipe, wanted: TableOrder, *tables: str) -> None:
    ask(shop.config(), tables, 30, lambda names: TableSignal(wanted, names), wanted.value)


def come_to_the_middle(shop: Pipe, publisher: Running, client: Client) -> None:
    """Some rows are out, and no further one without a scan: its fence is behind a commit."""
    numbers = count(100)

    def is_there() -> bool:
        shop.source.scan()
        shop.source.execute(f"INSERT dbo.[Order Items] VALUES ({next(numbers)}, 0)")
        table = client.orders()
        return table.state == "snapshotting" and 0 < (table.snapshot_rows or 0) < ROWS

    publisher.until(is_there, "some rows are out")


@pytest.mark.slow("a publisher starts again within a paused snapshot")
def test_a_snapshot_is_paused_over_a_restart_and_resumed_where_it_was(shop: Pipe, tmp_path: Path):
    with Running(shop.config(**SLOW)) as publisher:
        client = Client(publisher)
        come_to_the_middle(shop, publisher, client)
        assert client.ask("/resume-snapshot", "dbo.orders") == 409
        assert client.ask("/stop-table", "dbo.nosuch") == 404
        order(shop, TableOrder.PAUSE_SNAPSHOT, "dbo.orders")
        publisher.until(lambda: client.orders().snapshot_paused, "it is paused")
        assert client.ask("/pause-snapshot", "dbo.orders") == 409
        assert "paused" in client.http.get("/status", headers={"Accept": "text/plain"}).text
        assert "tailrace_snapshot_paused 1.0" in client.http.get("/metrics").text
        out = client.orders().snapshot_rows
    told = shown_status(file_of(shop, tmp_path))
    assert (
        f"The snapshot of dbo.orders is paused at {out} rows. Fix: tailrace snapshot --res" in told
    )
    assert "snapshot paused" in told
    shop.source.execute(
        "UPDATE dbo.orders SET note = 1 WHERE id = 7", "DELETE dbo.orders WHERE id = 0"
    )
    with Running(shop.config(**SLOW)) as publisher:
        client = Client(publisher)
        publisher.until(
            lambda: shop.source.scan() or shop.topics.through() >= shop.source.max_lsn(),
            "its changes go on",
        )
        publisher.until(lambda: is_named(shop), "it is out of the cut")
        assert client.orders().snapshot_rows == out
        assert client.orders().snapshot_bytes
        assert client.ask("/resume-snapshot", "dbo.orders") == 202
        publisher.until(shop.is_caught_up, "the snapshot is out")
        assert client.ask("/stop-snapshot", "dbo.Order Items") == 409
        part = {"tables": ["dbo.Order Items"], "where": "id = 1"}
        assert client.http.post("/snapshot", json=part).status_code == 202
        assert client.ask("/stop-table", "DBO.orders") == 202
        publisher.until(lambda: client.orders().state == "stopped", "it is stopped")
        assert client.ask("/stop-table", "dbo.orders") == 409
    rows = shop.topics.state(shop.source.name, "orders", "id")
    assert {key: row["note"] for key, row in rows.items()} == {
        **dict.fromkeys(range(1, 7), 0),
        7: 1,
    }
    assert len(shop.topics.snapshot(shop.source.name, "orders")) <= ROWS
    shop.assert_exactly_once("orders")


def file_of(shop: Pipe, folder: Path) -> str:
    """A configuration file of the shop's publisher."""
    options = shop.options()
    options["source"]["password"] = str(options["source"]["password"])
    file = folder / "tailrace.json"  # which is YAML
    file.write_text(json.dumps({"publisher": options}))
    return str(file)


def shown_status(file: str, *flags: str) -> str:
    told = CliRunner(env={"COLUMNS": "200"}).invoke(cli, ["status", "--config", file, *flags])
    assert told.exit_code == 0, told.output
    return told.stdout


def test_a_publisher_that_is_paused_lives_and_publishes_nothing(shop: Pipe, tmp_path: Path):
    file = file_of(shop, tmp_path)
    with Running(shop.config(metrics_port=0)) as publisher:
        client = Client(publisher)
        publisher.until(shop.is_caught_up, "the snapshots are out")
        assert client.http.post("/resume", json={}).status_code == 409
        assert "paused" not in shown_status(file)
        asked = CliRunner().invoke(cli, ["pause", "--config", file])
        assert (asked.exit_code, "has taken the request" in asked.output) == (0, True), asked.output
        publisher.until(lambda: client.status().state == "paused", "it is paused")
        again = CliRunner().invoke(cli, ["pause", "--config", file])
        refusal = "The publisher refused the request: the publisher is paused already"
        assert (again.exit_code, refusal in again.output) == (1, True), again.output
        assert client.http.post("/pause", json={}).status_code == 409
        assert client.http.get("/health").text == "ok, paused\n"
        assert client.http.get("/ready").status_code == 503
        assert "tailrace_paused 1.0" in client.http.get("/metrics").text
    assert "The publisher is paused since 2" in shown_status(file)
    assert {
        lag["publisher_paused"] for lag in json.loads(shown_status(file, "--json"))["tables"]
    } == {True}
    shop.source.execute("INSERT dbo.orders VALUES (77, 0)")
    shop.source.scan()
    with Running(shop.config(metrics_port=0)) as publisher:
        client = Client(publisher)
        publisher.until(lambda: bool(publisher.told("publisher_paused")), "a restart tells it")
        records = len(shop.topics.progress())
        publisher.until(lambda: len(shop.topics.progress()) >= records + 3, "it lives")
        assert shop.topics.through() < shop.source.max_lsn()
        times = {record["through_commit_ms"] for record in shop.topics.progress()[-3:]}
        assert len(times) == 1, "it is no source at rest"
        assert client.http.post("/resume", json={}).status_code == 202
        publisher.until(shop.is_caught_up, "it goes on")
        assert client.http.get("/ready").status_code == 200
    shop.assert_exactly_once("orders")
