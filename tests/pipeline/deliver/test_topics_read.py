"""Reading topics to their end: nothing that was committed is missed, and in commit order."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from hypothesis import given
from hypothesis import strategies as st

from tailrace.reading.committed import committed_messages
from tailrace.reading.topics import Event, in_commit_order
from tailrace_publisher.checkpoint import high_watermarks
from tailrace_publisher.daemon.adapters.production import kafka_at
from tailrace_schemas.position.lsn import Lsn


@pytest.fixture
def topic(kafka: str) -> str:
    name = f"t{uuid.uuid4().hex[:12]}"
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.create_topics([NewTopic(name, 2, 1)])[name].result(30)
    return name


@contextmanager
def open_transaction(kafka: str, topic: str, values: dict[int, list[bytes]]) -> Iterator[Producer]:
    """A transaction with values by partition, on the brokers and not yet decided."""
    producer = Producer({"bootstrap.servers": kafka, "transactional.id": f"{topic}-writer"})
    producer.init_transactions(30)
    producer.begin_transaction()
    for partition, wanted in values.items():
        for value in wanted:
            producer.produce(topic, value, partition=partition)
    assert producer.flush(30) == 0
    yield producer


@pytest.mark.kafka
def test_a_reader_waits_for_a_commit_that_is_under_way(kafka: str, topic: str) -> None:
    with open_transaction(kafka, topic, {0: [b"1", b"2"], 1: [b"3"]}) as producer:
        later = threading.Timer(1.0, producer.commit_transaction, (30,))
        later.start()
        found = [message.value() for message in committed_messages(kafka, {topic: 2})]
        later.join()
    assert sorted(value or b"" for value in found) == [b"1", b"2", b"3"]


@pytest.mark.kafka
def test_an_open_transaction_is_left_out(kafka: str, topic: str) -> None:
    with open_transaction(kafka, topic, {0: [b"1"]}) as producer:
        producer.commit_transaction(30)
        producer.begin_transaction()
        producer.produce(topic, b"2", partition=0)
        producer.produce(topic, b"3", partition=1)
        assert producer.flush(30) == 0
        messages = committed_messages(kafka, {topic: 2}, marker_wait_s=0.5)
        assert [message.value() for message in messages] == [b"1"]
        producer.abort_transaction(30)


@pytest.mark.kafka
def test_empty_partitions_end_at_once(kafka: str, topic: str) -> None:
    assert list(committed_messages(kafka, {topic: 2}, timeout_s=30)) == []
    assert high_watermarks(kafka_at(kafka), [], 30) == {}


def event(partition: int, offset: int, commit: int) -> Event:
    source = {
        "commit_lsn": str(Lsn(1, commit, 1)),
        "command_id": 1,
        "change_lsn": str(Lsn(1, commit, 1)),
        "operation": 2,
    }
    return Event("t", partition, offset, 0, {"id": 1}, {"op": "c", "source": source}, 1)


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=30))
def test_partitions_are_merged_into_commit_order(rows: list[tuple[int, bool]]) -> None:
    written: dict[int, list[Event]] = {}
    wanted = []
    for commit, (partition, deleted) in enumerate(rows):
        mine = written.setdefault(partition, [])
        mine.append(event(partition, len(mine), commit))
        wanted.append(mine[-1])
        if deleted:
            mine.append(Event("t", partition, len(mine), 0, {"id": 1}, None, 0))
            wanted.append(mine[-1])
    read = [one for partition in sorted(written) for one in written[partition]]
    assert in_commit_order(read) == wanted
