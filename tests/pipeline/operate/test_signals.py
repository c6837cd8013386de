"""A new snapshot is asked for while the publisher runs, and comes exactly once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from tailrace.cli.root import cli
from tailrace.signals.request import SignalNotTaken, ask
from tailrace_schemas.topics.topic_names import TableName
from tests.pipeline.conftest import Pipe
from tests.pipeline.running import Running, live_until_killed

pytestmark = pytest.mark.kafka


@pytest.fixture
def shop(pipe: Pipe) -> Pipe:
    """Two tables of two rows, published."""
    for table in ("orders", "Order Items"):
        pipe.source.execute(f"CREATE TABLE dbo.[{table}] (id int PRIMARY KEY, note int)")
        pipe.source.execute(f"INSERT dbo.[{table}] VALUES (1, 1), (2, 2)")
        pipe.source.enable(table)
    with Running(pipe.config()) as publisher:
        publisher.until(pipe.is_caught_up, "both snapshots are out")
    return pipe


def snapshot_keys(pipe: Pipe, table: str) -> list[int]:
    """Keys of all snapshot rows so far, after a scan: a snapshot waits for one."""
    pipe.source.scan()
    events = pipe.topics.snapshot(pipe.source.name, table)
    return sorted(event.envelope["after"]["id"] for event in events if event.envelope)


def write(pipe: Pipe, value: bytes | None) -> None:
    producer = Producer({"bootstrap.servers": pipe.topics.bootstrap})
    producer.produce(pipe.topics.names.signals, value)
    assert producer.flush(10) == 0


def test_a_table_is_read_again_while_others_go_on(shop: Pipe):
    source = shop.source
    source.execute("DELETE dbo.orders WHERE id = 1", "INSERT dbo.orders VALUES (3, 3)")
    with Running(shop.config()) as publisher:
        publisher.until(shop.is_caught_up, "the changes are out")
        ask(shop.config(), ["DBO.orders"], 30)
        publisher.until(
            lambda: snapshot_keys(shop, "orders") == [1, 2, 2, 3], "orders has a new snapshot"
        )
        publisher.until(shop.is_caught_up, "it is over")
        topic = shop.topics.names.data(TableName(source.name, "dbo", "orders"))
        assert [topic] in [record["snapshotting"] for record in shop.topics.progress()]
        assert shop.topics.progress()[-1]["snapshotting"] == []
    assert snapshot_keys(shop, "Order Items") == [1, 2]
    shop.assert_exactly_once("orders")


def test_names_with_blanks_and_several_tables(shop: Pipe):
    with Running(shop.config()) as publisher:
        ask(shop.config(), ["dbo.Order Items", "dbo.orders"], 30)
        publisher.until(
            lambda: (
                snapshot_keys(shop, "orders") == [1, 1, 2, 2]
                and snapshot_keys(shop, "Order Items") == [1, 1, 2, 2]
            ),
            "both have a new snapshot",
        )


def test_a_signal_waits_for_the_publisher_and_is_taken_once(shop: Pipe):
    ask(shop.config(), ["dbo.orders"], 0)
    with pytest.raises(SignalNotTaken, match="no publisher took the request"):
        ask(shop.config(), ["dbo.orders"], 0.1)
    for step in ("snapshot_read", "before_commit"):
        live_until_killed(shop.options(), step)
    for _ in range(2):
        with Running(shop.config()) as publisher:
            publisher.until(shop.is_caught_up, "the snapshot is out")
    assert snapshot_keys(shop, "orders") == [1, 1, 2, 2]


def test_a_topic_of_signals_with_less_than_was_read_carries_out_nothing_twice(shop: Pipe):
    with Running(shop.config()) as publisher:
        for taken in (2, 3):
            ask(shop.config(), ["dbo.orders"], 30)
            publisher.until(
                lambda taken=taken: snapshot_keys(shop, "orders") == sorted([1, 2] * taken),
                "orders is read again",
            )
    admin = AdminClient({"bootstrap.servers": shop.topics.bootstrap})
    for future in admin.delete_topics([shop.topics.names.signals]).values():
        future.result(10)
    with Running(shop.config()) as publisher:
        publisher.until(lambda: "heartbeat" in publisher.steps, "it has made the topic anew")
        publisher.until(lambda: publisher.told("signal_refused"), "it names what was lost")
        ask(shop.config(), ["dbo.orders"], 30)
        publisher.until(
            lambda: snapshot_keys(shop, "orders") == sorted([1, 2] * 4), "orders is read again"
        )


@pytest.mark.parametrize("is_noticed", [False, True], ids=["unnoticed", "stopped for it"])
def test_a_topic_that_was_deleted_is_made_anew(
    shop: Pipe, is_noticed: bool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("tailrace_publisher.deliver.topics.UNKNOWN_TOPIC_S", 0.5)
    topic = shop.topics.names.data(TableName(shop.source.name, "dbo", "orders"))
    admin = AdminClient({"bootstrap.servers": shop.topics.bootstrap})

    def delete() -> None:
        for future in admin.delete_topics([topic]).values():
            future.result(10)

    if is_noticed:
        delete()
    with Running(shop.config()) as publisher:
        publisher.until(lambda: "heartbeat" in publisher.steps, "it runs")
        if is_noticed:
            assert publisher.told("table_stopped")
        else:
            delete()
        ask(shop.config(), ["dbo.orders"], 30)
        publisher.until(lambda: snapshot_keys(shop, "orders") == [1, 2], "orders is read again")
        publisher.until(shop.is_caught_up, "it is over")


def test_debezium_s_conditions_are_taken_and_what_cannot_be_read_by_one_costs_nothing(
    shop: Pipe,
):
    shop.source.execute("CREATE TABLE dbo.keyless (id int)", "INSERT dbo.keyless VALUES (1)")
    shop.source.enable("keyless")

    def executing(table: str, condition: str) -> bytes:
        conditions = [{"data-collection": table, "filter": condition}]
        data = {"data-collections": [table], "additional-conditions": conditions}
        return json.dumps({"type": "execute-snapshot", "data": data}).encode()

    with Running(shop.config()) as publisher:
        publisher.until(shop.is_caught_up, "all snapshots are out")
        write(shop, executing("dbo.orders", "1 = 1) OR (1 = 1"))
        write(shop, executing("dbo.orders", "nosuch = 1"))
        write(shop, executing("dbo.keyless", "id = 1"))
        write(shop, executing("dbo.orders", "1 / (id - 2) < 7"))
        publisher.until(
            lambda: shop.source.scan() or bool(publisher.told("partial_snapshot_given_up")),
            "a row that the condition cannot be asked of ends it",
        )
        shop.source.execute("INSERT dbo.orders VALUES (3, 3)")
        write(shop, executing("dbo.orders", "id = 2"))
        publisher.until(lambda: snapshot_keys(shop, "orders") == [1, 2, 2], "one row came again")
        publisher.until(shop.is_caught_up, "it is over")
    told = [event["reason"] for event in publisher.told("signal_refused")]
    assert len(told) == 3
    assert "closes what was not opened" in told[0]
    assert "the server refuses its condition (10 characters, sha256" in told[1]
    assert "nosuch" in told[1], "names of columns are no values"
    assert "it has no key" in told[2]
    (given_up,) = publisher.told("partial_snapshot_given_up")
    assert "the condition of its snapshot (16 characters, sha256" in given_up["reason"]
    assert "id - 2" not in given_up["reason"]
    assert not publisher.told("table_stopped")
    shop.assert_exactly_once("orders")


def test_only_published_tables_can_be_asked_for(shop: Pipe):
    with pytest.raises(SignalNotTaken, match=r"dbo\.nosuch") as refused:
        ask(shop.config(), ["dbo.orders", "dbo.nosuch"], 0)
    assert "Published: dbo.Order Items, dbo.orders" in str(refused.value)


def test_the_command_line_asks_and_says_what_is_wrong(shop: Pipe, tmp_path: Path):
    options = shop.options()
    options["source"]["password"] = str(options["source"]["password"])
    file = tmp_path / "tailrace.json"  # which is YAML
    file.write_text(json.dumps({"publisher": options}))

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(cli, ["snapshot", "--config", str(file), *arguments])

    asked = run("--wait", "0", "dbo.orders")
    assert (asked.exit_code, "Requested a new snapshot" in asked.output) == (0, True)
    asked = run("--wait", "0", "--where", "id = 1", "dbo.orders")
    assert (asked.exit_code, "Requested a partial snapshot" in asked.output) == (0, True)
    for wrong in (["--where", "id = 1;"], ["--where", "id = 1", "--pause"]):
        assert run(*wrong, "dbo.orders").exit_code == 2
    refused = run("dbo.nosuch")
    assert (refused.exit_code, "not published" in refused.output) == (1, True)
    assert run().exit_code == 2
