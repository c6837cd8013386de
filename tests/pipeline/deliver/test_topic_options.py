"""Prefixes with dots, what topics of single tables have, and the partitions that others choose."""

from __future__ import annotations

import uuid
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Producer, TopicPartition
from confluent_kafka.admin import NewPartitions, NewTopic

from tailrace.reading.topics import consumer_of
from tailrace.signals.request import ask
from tests.pipeline.commands import invoke
from tests.pipeline.conftest import Pipe
from tests.pipeline.deliver.test_kafka_settings import admin_of, settings_of
from tests.pipeline.running import Running, wait_until

pytestmark = pytest.mark.kafka


def test_topics_are_named_and_made_as_the_options_say(pipe: Pipe, tmp_path: Path):
    """The partitions are those of another implementation: librdkafka's own murmur2."""
    pipe.topics = replace(pipe.topics, prefix=f"shop_eu.{pipe.topics.prefix}")
    source = pipe.source
    for table in ("orders", "log"):
        source.execute(f"CREATE TABLE dbo.{table} (id int PRIMARY KEY, name nvarchar(20))")
        source.enable(table)
    kafka: dict[str, Any] = {
        **pipe.options()["kafka"],
        "partitioner": "murmur2",
        "topic_settings": {"retention.ms": "86400000"},
        "topic_rules": {
            r"dbo\.orders": {"partitions": 5, "settings": {"retention.ms": "3600000"}},
            ".*": {"settings": {"segment.bytes": "1048576"}},
        },
    }
    with Running(pipe.config(kafka=kafka)) as publisher:
        publisher.until(pipe.is_caught_up, "the snapshots are out")
        source.execute(*(f"INSERT dbo.orders VALUES ({n}, N'{n}')" for n in range(20)))
        publisher.until(pipe.is_caught_up, "the changes are out")

    pipe.assert_exactly_once("orders")
    topics = admin_of(pipe).list_topics(timeout=10).topics
    assert len(topics[pipe.topic("orders")].partitions) == 5
    assert len(topics[pipe.topic("log")].partitions) == 2
    orders, log = (settings_of(pipe, pipe.topic(table)) for table in ("orders", "log"))
    assert (orders["retention.ms"], log["retention.ms"]) == ("3600000", "86400000")
    assert log["segment.bytes"] == "1048576" != orders["segment.bytes"]

    audited = invoke(pipe, tmp_path, "audit", kafka=kafka)
    assert audited.exit_code == 0, audited.output
    keys = keys_of(pipe, pipe.topic("orders"))
    assert len(set(keys.values())) > 1
    assert keys == partitions_by_librdkafka(pipe, list(keys))


@pytest.mark.slow("three publishers and three commands go by the names")
def test_topics_have_the_names_of_templates(pipe: Pipe, tmp_path: Path):
    """Restarts, commands and the ledger go by them; a name that is no table's alone stops one."""
    source, prefix = pipe.source, pipe.topics.prefix
    for table in ("orders", "Log", "progress"):
        source.execute(f"CREATE TABLE dbo.{table} (id int PRIMARY KEY)")
        source.enable(table)
    templates = {r"dbo\.Log": "{prefix}-the-log", r"dbo\..*": "{prefix}.{table}"}
    pipe.further = {"topic_names": templates}
    pipe.topics.names_by = lambda _: pipe.config().topics
    left_out = {"tables": {"exclude": [r"dbo\.progress"]}}
    with Running(pipe.config(**left_out)) as publisher:
        publisher.until(pipe.is_caught_up, "the snapshots are out")
        source.execute("INSERT dbo.orders VALUES (1), (2)", "INSERT dbo.Log VALUES (3)")
        publisher.until(pipe.is_caught_up, "the changes are out")
    with Running(pipe.config()) as publisher:
        source.execute("DELETE dbo.orders WHERE id = 2")
        publisher.until(lambda: pipe.is_caught_up(gone=()), "it goes on, without the third")
    pipe.assert_exactly_once("orders")
    pipe.assert_exactly_once("Log")
    of_test = {t for t in admin_of(pipe).list_topics(timeout=10).topics if t.startswith(prefix)}
    beside = {f"{prefix}.{name}" for name in ("offsets", "progress", "signals")}
    assert of_test == beside | {f"{prefix}.orders", f"{prefix}-the-log"}

    audited = invoke(pipe, tmp_path, "audit")
    assert (audited.exit_code, "orders" in audited.output) == (0, True), audited.output
    told = invoke(pipe, tmp_path, "doctor").output
    assert f"the topic of {source.name}.dbo.progress would be {prefix}.progress" in " ".join(
        told.split()
    )
    source.execute("DROP TABLE dbo.progress")

    pipe.further = {"topic_names": {r"dbo\..*": "{prefix}.{table}"}}
    with Running(pipe.config()) as publisher:
        publisher.until(
            lambda: pipe.topics.progress()[-1]["snapshotting"] == [pipe.topic("Log")], "it is told"
        )
        (stopped,) = publisher.told("table_stopped")
        assert "take a new snapshot" in stopped["reason"]
        asked = invoke(pipe, tmp_path, "snapshot", "dbo.log")
        assert asked.exit_code == 0, asked.output
        source.execute("INSERT dbo.orders VALUES (5)")  # its gap is behind the last commit
        publisher.until(pipe.is_caught_up, "it is out under another name")
    assert sorted(pipe.topics.state(source.name, "Log", "id")) == [3]
    pipe.assert_exactly_once("orders")


def test_partitions_that_were_added_stop_the_table_until_it_is_asked_for(pipe: Pipe):
    """Of a table without a key all events are in the first one: it goes on."""
    source = pipe.source
    source.execute("CREATE TABLE dbo.orders (id int PRIMARY KEY)", "CREATE TABLE dbo.log (id int)")
    for table in ("orders", "log"):
        source.execute(*(f"INSERT dbo.{table} VALUES ({n})" for n in range(9)))
        source.enable(table)
    with Running(pipe.config()) as publisher:
        publisher.until(pipe.is_caught_up, "the snapshots are out")
    admin = admin_of(pipe)
    grown = admin.create_partitions([NewPartitions(pipe.topic(t), 3) for t in ("orders", "log")])
    for future in grown.values():
        future.result(10)

    with Running(pipe.config()) as publisher:
        source.execute(*(f"INSERT dbo.{table} VALUES (9)" for table in ("orders", "log")))
        publisher.until(lambda: pipe.is_caught_up(gone=["orders"]), "the other one goes on")
        (told,) = publisher.told("table_stopped")
        assert f"{pipe.topic('orders')} has 3 partitions" in told["reason"]
        older = {(e.partition, e.offset) for e in pipe.topics.events(source.name, "orders")}
        ask(pipe.config(), ["dbo.orders"], 60)
        publisher.until(pipe.is_caught_up, "it begins with the new number")
        source.execute(*(f"DELETE dbo.orders WHERE id = {n}" for n in range(5)))
        publisher.until(pipe.is_caught_up, "its changes are out")

    with Running(pipe.config()) as publisher:
        source.execute("DELETE dbo.orders WHERE id = 5")
        publisher.until(pipe.is_caught_up, "a later start finds the number that it knows")
    newer: dict[int, set[int]] = defaultdict(set)
    for event in pipe.topics.events(source.name, "orders"):
        if event.key is not None and (event.partition, event.offset) not in older:
            newer[event.key["id"]].add(event.partition)
    assert newer.keys() == set(range(10))
    assert all(len(partitions) == 1 for partitions in newer.values())
    assert {2} < set.union(*newer.values()), "the one that was added is in use"
    pipe.assert_exactly_once("log")


def keys_of(pipe: Pipe, topic: str, count: int = 20) -> dict[bytes, int]:
    """The partition of each key; so many keys are waited for."""
    consumer = consumer_of(pipe.topics.bootstrap)
    consumer.assign([TopicPartition(topic, n, OFFSET_BEGINNING) for n in range(5)])
    found: dict[bytes, int] = {}

    def has_all() -> bool:
        for message in consumer.consume(100, 0.1):
            if message.error() is None:
                found[message.key() or b""] = message.partition() or 0
        return len(found) == count

    wait_until(has_all, "all keys")
    consumer.close()
    return found


def partitions_by_librdkafka(pipe: Pipe, keys: list[bytes]) -> dict[bytes, int]:
    topic = f"judge-{uuid.uuid4().hex[:8]}"
    admin = admin_of(pipe)
    (made,) = admin.create_topics([NewTopic(topic, 5, 1)]).values()
    made.result(10)
    chosen: dict[bytes, int] = {}
    producer = Producer({"bootstrap.servers": pipe.topics.bootstrap, "partitioner": "murmur2"})

    def note(_: object, message: Any) -> None:
        chosen[message.key()] = message.partition()

    for key in keys:
        producer.produce(topic, key=key, on_delivery=note)
    assert producer.flush(10) == 0
    return chosen


def test_compaction_is_not_set_without_being_allowed(pipe: Pipe):
    kafka = {**pipe.options()["kafka"], "topic_rules": {"(": {}, ".*": {"partitions": 0}}}
    told = invoke_options(pipe, kafka)
    assert "topic_rules" in told
    compact = {"dbo.t": {"settings": {"cleanup.policy": "compact,delete"}}}
    assert "needs allow_compaction" in invoke_options(
        pipe, {**pipe.options()["kafka"], "topic_rules": compact}
    )


def invoke_options(pipe: Pipe, kafka: dict[str, Any]) -> str:
    with pytest.raises(Exception, match="configuration") as refused:
        pipe.config(kafka=kafka)
    return str(refused.value)
