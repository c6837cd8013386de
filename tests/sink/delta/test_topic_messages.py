"""Tasks that read the brokers by themselves: exactly the committed messages of their offsets."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tailrace_sink.columns.topic_messages import Brokers, MessagesMissing, Piece, values_of
from tests.fix_kafka import SharedBroker

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def topic(shared_broker: SharedBroker) -> Iterator[str]:
    """Offsets 0 to 2: values and a tombstone, 3: marker; 4, 5: aborted, 6: marker; 7: a value, 8:
    marker; from 9 on an open transaction."""
    name = f"pieces-{uuid4().hex}"
    admin = AdminClient({"bootstrap.servers": shared_broker.bootstrap})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(30)
    producer = Producer(
        {"bootstrap.servers": shared_broker.bootstrap, "transactional.id": uuid4().hex}
    )
    producer.init_transactions()
    for values, commits in (
        ([b"one", None, b"two"], True),
        ([b"no", b"never"], False),
        ([b"three"], True),
        ([b"open"], None),
    ):
        producer.begin_transaction()
        for value in values:
            producer.produce(name, value=value, key=b"k")
        producer.flush(30)
        if commits is not None:
            (producer.commit_transaction if commits else producer.abort_transaction)(30)
    yield name
    producer.abort_transaction(30)


@pytest.fixture
def brokers(shared_broker: SharedBroker) -> Brokers:
    options = {"bootstrap.servers": shared_broker.bootstrap, "group.id": "pieces"}
    return Brokers(options, wait_s=15.0)


def read(brokers: Brokers, piece: Piece) -> list[bytes]:
    return [value for array in values_of(brokers, [piece]) for value in array.to_pylist()]


@pytest.mark.parametrize(
    ("first", "end", "values"),
    [
        (0, 9, [b"one", b"two", b"three"]),
        (0, 4, [b"one", b"two"]),
        (0, 3, [b"one", b"two"]),
        (1, 2, []),
        (2, 7, [b"two"]),
        (3, 7, []),
        (4, 6, []),
        (4, 8, [b"three"]),
    ],
)
def test_a_piece_has_the_committed_values_of_its_offsets(
    topic: str, brokers: Brokers, first: int, end: int, values: list[bytes]
):
    """Also if it ends with a marker or with aborted records, before an open transaction."""
    assert read(brokers, Piece(topic, 0, first, end)) == values


def test_a_piece_past_the_committed_records_is_an_error(topic: str, brokers: Brokers):
    with pytest.raises(MessagesMissing, match="no message for 1 s"):
        read(Brokers(brokers.options, wait_s=1.0), Piece(topic, 0, 7, 10))


def test_offsets_that_retention_removed_are_an_error(shared_broker: SharedBroker, brokers: Brokers):
    name = f"short-{uuid4().hex}"
    admin = AdminClient({"bootstrap.servers": shared_broker.bootstrap})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(30)
    producer = Producer({"bootstrap.servers": shared_broker.bootstrap})
    for number in range(4):
        producer.produce(name, value=str(number).encode())
    producer.flush(30)
    admin.delete_records([TopicPartition(name, 0, 2)])[TopicPartition(name, 0, 2)].result(30)
    assert read(brokers, Piece(name, 0, 2, 4)) == [b"2", b"3"]
    with pytest.raises(MessagesMissing, match="AUTO_OFFSET_RESET"):
        read(brokers, Piece(name, 0, 0, 4))


def test_a_share_has_each_of_its_partitions_up_to_its_end(
    shared_broker: SharedBroker, brokers: Brokers
):
    name = f"share-{uuid4().hex}"
    admin = AdminClient({"bootstrap.servers": shared_broker.bootstrap})
    admin.create_topics([NewTopic(name, 3, 1)])[name].result(30)
    producer = Producer({"bootstrap.servers": shared_broker.bootstrap})
    for number in range(30_000):
        producer.produce(name, value=f"{number % 3}.{number // 3}".encode(), partition=number % 3)
        producer.poll(0)
    producer.flush(30)
    share = [Piece(name, 0, 9_000, 10_000), Piece(name, 1, 0, 10_000), Piece(name, 2, 0, 5)]
    values = [value for array in values_of(brokers, share) for value in array.to_pylist()]
    for of in share:
        mine = [value for value in values if value.startswith(f"{of.partition}.".encode())]
        assert mine == read(brokers, of)
        assert len(mine) == of.end - of.first
    assert len(values) == 11_005


def test_a_topic_that_is_not_there_is_an_error(brokers: Brokers):
    with pytest.raises(MessagesMissing, match="no message for 1 s"):
        read(Brokers(brokers.options, wait_s=1.0), Piece(f"no-{uuid4().hex}", 0, 0, 1))
