"""What a subscriber fetches when a broker fails in the middle of what came; no real one does so."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from tailrace.subscribe import Feed, errors
from tailrace.subscribe.bookmark import Place
from tailrace.subscribe.brokers import Brokers
from tailrace.subscribe.commit_order import CommitOrder, Ready
from tailrace.subscribe.fetching import Fetcher
from tailrace.subscribe.groups import Group, Segment
from tailrace_schemas.position.change_position import ChangePosition, Operation
from tailrace_schemas.position.lsn import Lsn

ORDERS = ("p.d.dbo.orders", 0)


class Came:
    """A message of the client."""

    def __init__(self, offset: int, value: bytes, error: KafkaError | None = None) -> None:
        self._parts = (offset, value, error)

    def topic(self) -> str:
        return ORDERS[0]

    def partition(self) -> int:
        return ORDERS[1]

    def offset(self) -> int:
        return self._parts[0]

    def value(self) -> bytes:
        return self._parts[1]

    def error(self) -> KafkaError | None:
        return self._parts[2]


class Client:
    """What librdkafka would answer."""

    def __init__(self, lows: Mapping[tuple[str, int], int]) -> None:
        self.lows = dict(lows)
        self.came: deque[Came] = deque()
        self.assigned: list[tuple[str, int, int]] = []
        self.paused: set[tuple[str, int]] = set()
        self.failures: list[KafkaError] = []

    def poll(self, _: float) -> Came | None:
        return self.came.popleft() if self.came else None

    def consume(self, _: int, __: float) -> list[Came]:
        found, self.came = list(self.came), deque()
        return found

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        self.assigned += [(one.topic, one.partition, one.offset) for one in partitions]

    def get_watermark_offsets(self, partition: TopicPartition, **_: float) -> tuple[int, int]:
        if self.failures:
            raise KafkaException(self.failures.pop())
        return self.lows[partition.topic, partition.partition], 100

    def pause(self, partitions: list[TopicPartition]) -> None:
        self.paused |= {(one.topic, one.partition) for one in partitions}

    def resume(self, partitions: list[TopicPartition]) -> None:
        self.paused -= {(one.topic, one.partition) for one in partitions}


def position(number: int) -> bytes:
    return ChangePosition(Lsn(1, number, 1), 0, Lsn(1, number, 1), Operation.INSERT).to_bytes()


def reading(low: int = 0, *, verify: bool = True) -> tuple[Client, CommitOrder[Any], Fetcher]:
    """Three events of one group at offsets 4 to 6."""
    client = Client({ORDERS: low})
    order = CommitOrder[bytes](lambda where, offset, value: (value, value), Place(0), verify=verify)
    brokers = Brokers(Feed("localhost:1", "http://localhost:1", "p"))
    fetcher = Fetcher(brokers, client, order, 200, lambda *_: None)  # type: ignore[arg-type]
    lsns = (str(Lsn(1, number, 1)) for number in (0, 9))
    order.add(Group(0, 1, *lsns, None, (Segment(ORDERS, 4, 7, 3),)))
    assert order.take() is None
    return client, order, fetcher


def taken(order: CommitOrder[Any]) -> list[int]:
    found = []
    while isinstance(one := order.take(), Ready):
        found.append(one.offset)
    return found


def test_what_came_with_an_error_is_not_lost():
    client, order, fetcher = reading()
    error = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    client.came += [Came(4, position(4)), Came(-1, b"", error), Came(5, position(5))]
    client.came.append(Came(6, position(6)))
    with pytest.raises(errors.BrokersRefused, match="allow Read on the topics of prefix p"):
        fetcher.pump(0)
    assert taken(order) == [4, 5, 6]


def test_a_partition_whose_look_up_failed_is_looked_up_again():
    client, _, fetcher = reading()
    client.failures.append(KafkaError(KafkaError._TIMED_OUT))
    with pytest.raises(errors.BrokersUnavailable) as caught:
        fetcher.pump(0)
    assert caught.value.retryable
    assert client.assigned == []
    fetcher.pump(0)
    fetcher.pump(0)
    assert client.assigned == [(*ORDERS, 4)]


def test_a_partition_with_more_than_its_share_is_paused_until_half_is_taken():
    client, order, fetcher = reading()
    client.came += [Came(offset, position(offset)) for offset in (4, 5)]
    fetcher.pump(0)
    assert client.paused == {ORDERS}
    assert taken(order) == [4, 5]
    fetcher.pump(0)
    assert client.paused == set()


def test_what_retention_removed_is_refused_or_counted():
    client, order, fetcher = reading(low=6)
    with pytest.raises(errors.LsnNotRetained, match="begins at offset 6, offset 4 is the next"):
        fetcher.pump(0)
    client, order, fetcher = reading(low=6, verify=False)
    client.came.append(Came(6, position(6)))
    fetcher.pump(0)
    assert client.assigned == [(*ORDERS, 6)]
    assert taken(order) == [6]
    assert order.missing == 2
