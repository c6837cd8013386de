"""A topic that is deleted while the publisher runs is named soon, and stops its table alone."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient

from tailrace_compose.local.broker import KafkaBroker
from tests.pipeline.conftest import Pipe
from tests.pipeline.running import Running

pytestmark = [pytest.mark.kafka, pytest.mark.slow("the brokers are asked after some seconds")]


@pytest.fixture
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker as Kafka is by default; with partitions as the publisher's option has them (2)."""
    broker = KafkaBroker(
        tmp_path_factory.mktemp("kafka"),
        is_short_lived=True,
        settings={"auto.create.topics.enable": "true", "num.partitions": "2"},
    )
    try:
        yield broker.start()
    finally:
        broker.stop()


@pytest.mark.parametrize("heartbeats", [0, 25])
def test_a_topic_that_is_deleted_meanwhile_stops_its_table_alone(
    pipe: Pipe, heartbeats: int
) -> None:
    """After some seconds the client has forgotten the topic, and waits for it instead."""
    source = pipe.source
    for table in "TU":
        source.execute(
            f"CREATE TABLE dbo.{table} (id int PRIMARY KEY)", f"INSERT dbo.{table} VALUES (1)"
        )
        source.enable(table)
    admin = AdminClient({"bootstrap.servers": pipe.topics.bootstrap})
    with Running(pipe.config()) as publisher:
        publisher.until(pipe.is_caught_up, "the snapshots are published")
        (deleted,) = admin.delete_topics([pipe.topic("T")]).values()
        deleted.result(10)
        records = len(pipe.topics.progress()) + heartbeats
        publisher.until(lambda: len(pipe.topics.progress()) >= records, "the client notices it")
        source.execute("INSERT dbo.T VALUES (2)", "INSERT dbo.U VALUES (2)")
        source.scan()
        began = time.monotonic()
        publisher.until(lambda: bool(publisher.told("table_stopped")), "the table is stopped")
        named_s = time.monotonic() - began
        publisher.until(lambda: pipe.is_caught_up(gone=["T"]), "the other one is published")

    (stopped,) = publisher.told("table_stopped")
    assert pipe.topic("T") in stopped["reason"]
    assert all(pipe.topic("T") in e["topics"] for e in publisher.told("waiting_for_kafka"))
    pipe.assert_exactly_once("U")
    assert named_s < 45, "the time after which a transaction of all tables gives up"
    assert pipe.topic("T") not in admin.list_topics(timeout=10).topics
