"""tailrace tail, schema and seek, beside what a subscriber of the topics sees."""

from __future__ import annotations

import base64
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest
from click.testing import Result
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from tailrace.reading.moments import Moment
from tailrace.reading.progress import decode
from tailrace.signals.seek import SeekRefused, cut_at
from tailrace_publisher.checkpoint.partition import partition_reader
from tailrace_publisher.daemon.adapters.production import kafka_at
from tailrace_schemas.topics.topic_names import TableName
from tests.pipeline.commands import configuration, invoke
from tests.pipeline.conftest import Pipe
from tests.pipeline.running import Running, wait_until

pytestmark = pytest.mark.kafka


def lines(answer: Result) -> list[dict[str, Any]]:
    assert answer.exit_code == 0, answer.output
    return [json.loads(line) for line in answer.output.splitlines()]


@pytest.fixture
def shop(pipe: Pipe) -> Iterator[Pipe]:
    """Two tables whose transactions alternate, published with a schema change between them."""
    pipe.source.execute(
        "CREATE TABLE dbo.orders (id int PRIMARY KEY, sum decimal(9, 2), raw varbinary(9))",
        "CREATE TABLE dbo.items (id int PRIMARY KEY, note nvarchar(20))",
        "INSERT dbo.orders VALUES (0, 0, 0x)",
    )
    pipe.source.enable("orders")
    pipe.source.enable("items")
    with Running(pipe.config(rows_per_transaction=3, linger_ms=0)) as publisher:
        publisher.until(pipe.is_caught_up, "the snapshots are out")
        for number in range(1, 6):
            pipe.source.transaction(
                *(
                    f"INSERT dbo.orders VALUES ({number}{extra}, {number}.5, 0xFF)"
                    for extra in range(4)
                ),
                f"INSERT dbo.items VALUES ({number}, N'«{number}»')",
                f"UPDATE dbo.orders SET sum = {number}.75 WHERE id = {number}0",
            )
        pipe.source.execute("DELETE dbo.items WHERE id = 5")
        publisher.until(pipe.is_caught_up, "the changes are out")
        yield pipe


def test_events_of_all_tables_come_in_commit_order(shop: Pipe, tmp_path: Path):
    events = lines(invoke(shop, tmp_path, "tail", "--json"))

    changes = [e for e in events if e["op"] != "r"]
    assert changes == sorted(
        changes, key=lambda e: (e["commit_lsn"], e["command_id"], e["change_lsn"])
    )
    assert len(changes) == sum(
        len(shop.topics.changes(shop.source.name, table)) for table in ("orders", "items")
    )
    inserted = next(e for e in changes if e["op"] == "c")
    assert (inserted["after"]["sum"], base64.b64decode(inserted["after"]["raw"])) == (
        "1.50",
        b"\xff",
    )

    items = lines(invoke(shop, tmp_path, "tail", "--json", "DBO.items"))
    assert items == [e for e in events if e["table"] == "dbo.items"]
    third = items[2]["commit_lsn"]
    behind = lines(invoke(shop, tmp_path, "tail", "--json", "--from-lsn", third, "dbo.items"))
    assert behind == [e for e in items if e["commit_lsn"] >= third]
    raw = f"0x{third.replace(':', '')}"
    at_time = items[2]["commit_time"]
    assert lines(invoke(shop, tmp_path, "tail", "--json", "--from-lsn", raw, "dbo.items")) == behind
    timed = lines(invoke(shop, tmp_path, "tail", "--json", "--from-time", at_time, "dbo.items"))
    assert timed == [e for e in items if e["commit_time"] >= at_time]
    assert len(lines(invoke(shop, tmp_path, "tail", "--json", "--limit", "2"))) == 2
    past = invoke(shop, tmp_path, "tail", "--from-lsn", "ffffffff:ffffffff:ffff")
    assert (past.exit_code, past.stdout) == (0, "")
    assert "No event from there on: the topics are complete up to LSN 0" in past.stderr

    told = invoke(shop, tmp_path, "tail", "dbo.orders").output
    assert 'update  dbo.orders id=10  sum: "1.50" -> "1.75"' in told


def test_a_tail_waits_for_the_first_topics_and_spells_columns_as_the_source(
    pipe: Pipe, tmp_path: Path
):
    pipe.source.execute(
        "CREATE TABLE dbo.kunden ([Kunden Nr] int PRIMARY KEY, [Größe] int)",
        "INSERT dbo.kunden VALUES (1, 180)",
    )
    pipe.source.enable("kunden")
    following = [sys.executable, "-m", "tailrace", "tail", "--follow", "--limit", "1"]
    following += ["--config", configuration(pipe, tmp_path)]
    with ExitStack() as ended:
        tails = [
            ended.enter_context(subprocess.Popen(command, stdout=PIPE, stderr=PIPE, text=True))
            for command in ([*following, "DBO.Kunden"], [*following, "--json"])
        ]
        named, every = tails
        assert [tail.stderr and tail.stderr.readline() for tail in tails] == [
            "Waiting: table DBO.Kunden is not published: there are none\n",
            f"Waiting: Kafka at {pipe.topics.bootstrap} has no topics of prefix"
            f" {pipe.topics.prefix} yet\n",
        ]
        with Running(pipe.config()):
            (line, said), (event, nothing) = (tail.communicate(timeout=120) for tail in tails)
    assert (named.returncode, every.returncode, said, nothing) == (0, 0, "", "")
    assert "read    dbo.kunden Kunden Nr=1  Größe=180" in line
    assert json.loads(event)["after"] == {"Kunden Nr": 1, "Größe": 180}
    assert json.loads(event)["key"] == {"Kunden Nr": 1}


def test_the_versions_of_a_schema_say_what_changed_and_by_which_statement(
    shop: Pipe, tmp_path: Path
):
    shop.source.execute("ALTER TABLE dbo.orders ALTER COLUMN sum decimal(12, 2)")
    shop.source.execute("INSERT dbo.orders VALUES (99, 9, NULL)")
    wait_until(
        lambda: shop.is_caught_up() and len(lines_of_schema(shop, tmp_path)) == 2,
        "the second version is out",
    )

    first, second = lines_of_schema(shop, tmp_path)
    assert first["changes"] == ["id int NOT NULL (key 1)", "sum decimal(9,2)", "raw varbinary(9)"]
    assert second["changes"] == ["sum: decimal(9,2) became decimal(12,2)"]
    assert second["ddl"] == "ALTER TABLE dbo.orders ALTER COLUMN sum decimal(12, 2)"
    assert second["schema_lsn"] > first["schema_lsn"]
    assert "by: ALTER TABLE" in invoke(shop, tmp_path, "schema", "dbo.orders").output

    # A column is captured by a second instance only, which begins behind the statement.
    shop.source.execute("ALTER TABLE dbo.orders ADD gate char(3)")
    shop.source.enable("orders", capture_instance="N'orders_with_gate'")
    shop.source.execute("INSERT dbo.orders VALUES (98, 9, NULL, 'A1')")
    wait_until(
        lambda: shop.is_caught_up() and len(lines_of_schema(shop, tmp_path)) == 3,
        "the third version is out",
    )
    third = lines_of_schema(shop, tmp_path)[2]
    assert third["changes"] == ["added gate char(3)"]
    assert third["ddl"] == "ALTER TABLE dbo.orders ADD gate char(3)"


def lines_of_schema(pipe: Pipe, folder: Path) -> list[dict[str, Any]]:
    answer = invoke(pipe, folder, "schema", "dbo.orders", "--json")
    assert answer.exit_code == 0, answer.output
    found: list[dict[str, Any]] = json.loads(answer.output)["versions"]
    return found


def test_a_group_is_put_exactly_at_a_cut(shop: Pipe, tmp_path: Path):
    events = [e for e in lines(invoke(shop, tmp_path, "tail", "--json")) if e["op"] != "r"]
    third = sorted({e["commit_lsn"] for e in events})[2]

    shown = invoke(shop, tmp_path, "seek", "readers", "--lsn", third)
    assert (shown.exit_code, "Nothing was set" in shown.output) == (0, True), shown.output
    done = invoke(shop, tmp_path, "seek", "readers", "--lsn", third, "--run")
    assert (done.exit_code, "continues with the first event after the cut" in done.output) == (
        0,
        True,
    ), done.output

    consumer = Consumer(
        {"bootstrap.servers": shop.topics.bootstrap, "group.id": "readers", "log_level": 2}
    )
    try:
        names = shop.topics.names
        topics = [names.data(TableName(shop.source.name, "dbo", t)) for t in ("orders", "items")]
        wanted = [TopicPartition(topic, partition) for topic in topics for partition in range(2)]
        at = {(p.topic, p.partition): p.offset for p in consumer.committed(wanted, timeout=10)}
    finally:
        consumer.close()
    before = [e for e in events if e["offset"] < at[e["topic"], e["partition"]]]
    assert before == [e for e in events if e["commit_lsn"] <= third]


def test_a_cut_is_found_as_long_as_its_progress_records_are_there(shop: Pipe, tmp_path: Path):
    events = [e for e in lines(invoke(shop, tmp_path, "tail", "--json")) if e["op"] != "r"]
    fourth = sorted({e["commit_lsn"] for e in events})[3]
    forget_progress_before(shop, fourth)

    bootstrap, names = shop.topics.bootstrap, shop.topics.names
    cut = cut_at(bootstrap, names, Moment.parse(fourth, None))

    before = [e for e in events if e["offset"] < cut.offsets[e["topic"], e["partition"]]]
    assert before == [e for e in events if e["commit_lsn"] <= fourth]
    with pytest.raises(SeekRefused, match="no longer holds the records of that moment"):
        cut_at(bootstrap, names, Moment.parse(events[0]["commit_lsn"], None))


def forget_progress_before(pipe: Pipe, lsn: str) -> None:
    """Remove the progress records before the one that closes an LSN, as retention does."""
    topic = pipe.topics.names.progress
    with partition_reader(kafka_at(pipe.topics.bootstrap), topic) as reader:
        closing = next(
            message.offset()
            for message in reader.read_all(30)
            if decode(message.value()).closed_lsn >= lsn
        )
    admin = AdminClient({"bootstrap.servers": pipe.topics.bootstrap})
    (removed,) = admin.delete_records([TopicPartition(topic, 0, closing)]).values()
    removed.result(10)


def test_a_row_is_followed_from_the_source_to_its_events(shop: Pipe, tmp_path: Path):
    answer = invoke(shop, tmp_path, "explain", "dbo.orders", '{"ID": 10}', "--json")
    assert answer.exit_code == 0, answer.output
    found = json.loads(answer.output)

    assert found["now"] == {"id": 10, "sum": "1.75", "raw": "/w=="}
    assert [change["operation"] for change in found["changes"]] == ["update", "insert"]
    events = {
        (e["partition"], e["offset"]): e
        for e in lines(invoke(shop, tmp_path, "tail", "--json", "dbo.orders"))
    }
    for change in found["changes"]:
        event = events[change["event"]["partition"], change["event"]["offset"]]
        assert (event["commit_lsn"], event["after"]["id"]) == (change["commit_lsn"], 10)
        assert event["after"]["sum"] == change["values"]["sum"]

    gone = invoke(shop, tmp_path, "explain", "dbo.items", "5", "--changes", "1").output
    assert "source now: no such row" in gone
    assert " delete in dbo_items: id=5" in gone

    shop.source.execute(
        "CREATE TABLE dbo.lines (a int, b nvarchar(9), PRIMARY KEY (a, b))",
        "INSERT dbo.lines VALUES (1, N'x')",
    )
    shop.source.enable("lines")
    for key in ('{"B": "x", "a": 1}', '[1, "x"]'):
        told = invoke(shop, tmp_path, "explain", "dbo.lines", key).output
        assert 'source now: a=1, b="x"' in told
        assert "none that the change tables still hold" in told


def test_a_row_of_which_the_brokers_say_nothing_is_not_explained(pipe: Pipe, tmp_path: Path):
    pipe.source.execute("CREATE TABLE dbo.orders (id int PRIMARY KEY)")
    pipe.source.enable("orders")
    pipe.source.execute("INSERT dbo.orders VALUES (1)")
    pipe.source.scan()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        brokers = f"127.0.0.1:{silent.getsockname()[1]}"
        kafka = {"bootstrap": brokers, "start_timeout_s": 1}
        answer = invoke(pipe, tmp_path, "explain", "dbo.orders", "1", kafka=kafka)
    assert (answer.exit_code, answer.output.count("\n")) == (1, 1), answer.output
    assert f"Kafka at {brokers} does not answer" in answer.output
    assert "KafkaError" not in answer.output


def test_a_commit_is_followed_by_its_lsn_and_by_its_time(shop: Pipe, tmp_path: Path):
    events = lines(invoke(shop, tmp_path, "tail", "--json", "dbo.orders"))
    first = min(event["commit_lsn"] for event in events if event["op"] != "r")
    of_it = [event for event in events if event["commit_lsn"] == first]
    for flags in (("--lsn", first), ("--lsn", "0x" + "0" * 20), ("--time", "2000-01-01")):
        answer = invoke(shop, tmp_path, "explain", "dbo.orders", *flags, "--json")
        assert answer.exit_code == 0, answer.output
        found = json.loads(answer.output)
        assert "now" not in found
        told = [(c["event"]["partition"], c["event"]["offset"]) for c in found["changes"]]
        assert sorted(told) == sorted((e["partition"], e["offset"]) for e in of_it)
        assert {change["commit_lsn"] for change in found["changes"]} == {first}
    text = invoke(shop, tmp_path, "explain", "dbo.orders", "--lsn", first, "--changes", "1").output
    assert text.splitlines()[0] == "dbo.orders"
    assert text.count("change: ") == 1

    # What has no key has commits all the same.
    shop.source.execute("CREATE TABLE dbo.notes (note nvarchar(9))")
    shop.source.enable("notes", supports_net_changes="0")
    shop.source.execute("INSERT dbo.notes VALUES (N'a'), (N'b')")
    shop.source.scan()
    newest = str(shop.source.change_rows("dbo_notes")[-1][0].commit_lsn)
    text = invoke(shop, tmp_path, "explain", "dbo.notes", "--lsn", newest).output
    assert text.count(f"change:     {newest} insert in dbo_notes") == 2


def test_bad_input_gets_one_sentence(shop: Pipe, tmp_path: Path):
    for arguments, words in (
        (["tail", "dbo.nosuch"], "there are dbo.items, dbo.orders"),
        (["tail", "--from-lsn", "12"], "write xxxxxxxx:xxxxxxxx:xxxx"),
        (["tail", "--from-time", "yesterday"], "write ISO 8601"),
        (
            ["tail", "--from-time", "2026-01-01", "--from-lsn", "0x" + "0" * 20],
            "Fix: give one of the two",
        ),
        (["schema", "orders"], "write schema.table"),
        (["explain", "dbo.nosuch", "1"], "there are dbo.items, dbo.orders"),
        (["explain", "dbo.items", "one"], "'one' is no value of the key (id int): "),
        (
            ["explain", "dbo.items", "99999999999"],
            "'99999999999' is no value of the key (id int): ",
        ),
        (["explain", "dbo.items", "--lsn", "x"], "is not an LSN"),
        (["explain", "dbo.items", "--time", "2099-01-01"], "nothing was committed at 2099"),
        (["explain", "dbo.items", "--lsn", "0x" + "f" * 20], "hold no change at LSN ffffffff"),
        (["seek", "g", "--lsn", "x"], "is not an LSN"),
    ):
        answer = invoke(shop, tmp_path, *arguments)
        assert (answer.exit_code, words in answer.output) == (1, True), answer.output
        assert "the source is not ready" not in answer.output
