"""Reading the topics as a subscriber would: read_committed, decoded by the registered schemas."""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaException,
    Message,
    TopicPartition,
)

from tailrace.reading.record_decoder import RecordDecoder
from tailrace_publisher.checkpoint import high_watermarks
from tailrace_publisher.daemon.adapters.production import kafka_at
from tailrace_schemas.events.envelope import position_of
from tailrace_schemas.events.flat import as_envelope
from tailrace_schemas.position.change_position import ChangePosition
from tailrace_schemas.topics.topic_names import TopicNames
from tailrace_service.registry.client import SchemaRegistry


@dataclass(frozen=True, slots=True)
class Event:
    """One record of a data topic; ``envelope`` is its value as it is, None for a tombstone."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: dict[str, Any] | None
    envelope: dict[str, Any] | None
    schema_id: int

    @property
    def position(self) -> ChangePosition:
        """The position of the change; of events that are not tombstones only."""
        if self.envelope is None:
            raise ValueError(f"{self.topic}[{self.partition}]@{self.offset} is a tombstone")
        return position_of(self.envelope)

    @property
    def as_envelope(self) -> Mapping[str, Any]:
        """The value in the shape of an envelope, whichever form it has; empty for a tombstone."""
        return {} if self.envelope is None else as_envelope(self.envelope)


def consumer_of(bootstrap_servers: str, extra: Mapping[str, str] | None = None) -> Consumer:
    """A consumer outside any group that sees committed records only and reports the end.

    Args:
        bootstrap_servers: comma-separated host:port of some brokers.
        extra: further librdkafka options of the connection.
    """
    return Consumer(
        {
            **(extra or {}),
            "log_level": 2,  # what fails is raised; librdkafka would log it twenty times a second
            "bootstrap.servers": bootstrap_servers,
            "group.id": "tailrace-reader",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 20,
        }
    )


def arrived(consumer: Consumer, timeout_s: float, at_once: int = 1000) -> list[Message]:
    """The next message and what came with it; empty when none came within a time.

    ``Consumer.consume`` alone waits for as many as it was asked for, or for the whole time.
    """
    first = consumer.poll(timeout_s)
    return [] if first is None else [first, *consumer.consume(at_once, 0)]


def existing_data_topics(
    bootstrap_servers: str,
    names: TopicNames,
    extra: Mapping[str, str] | None = None,
    *,
    timeout_s: float = 10,
) -> dict[str, int]:
    """The data topics under the prefix that exist, with their partition counts.

    Raises:
        KafkaException: no broker answers within ``timeout_s``, or it refuses.
    """
    consumer = consumer_of(bootstrap_servers, extra)
    try:
        metadata = consumer.list_topics(timeout=timeout_s)
        return {
            name: len(topic.partitions)
            for name, topic in sorted(metadata.topics.items())
            if names.table_of(name) is not None
        }
    finally:
        consumer.close()


def read_all(
    bootstrap_servers: str,
    registry: SchemaRegistry,
    topics: dict[str, int],
    *,
    timeout_s: float = 60,
) -> Iterator[Event]:
    """Every committed record of the topics from the beginning to their ends at call time.

    Args:
        topics: names and partition counts.
        timeout_s: the longest wait without any record.

    Raises:
        TimeoutError: the end of a partition was not reached in time.
    """
    decoder = RecordDecoder(registry)
    for message in committed_messages(bootstrap_servers, topics, timeout_s=timeout_s):
        yield event_of(decoder, message)


def committed_messages(
    bootstrap_servers: str,
    topics: dict[str, int],
    *,
    timeout_s: float = 60,
    marker_wait_s: float = 10,
) -> Iterator[Message]:
    """The messages of the topics, committed ones only, to their ends at call time.

    The end is the high watermark. A commit returns once it is in the coordinator's log. The
    markers reach the partitions a moment later; until then a read_committed consumer sees the
    partition end before the transaction. So this reader waits for the markers. It leaves out only
    what is still undecided after ``marker_wait_s``: an open transaction.

    Args:
        topics: names and partition counts.
        timeout_s: the longest wait without any message.
        marker_wait_s: the longest wait at a transaction without end.

    Raises:
        TimeoutError: the end of a partition was not reached in time.
        KafkaException: what the brokers answered.
    """
    partitions = [
        TopicPartition(topic, partition, OFFSET_BEGINNING)
        for topic, count in topics.items()
        for partition in range(count)
    ]
    deadline = time.monotonic() + timeout_s
    ends = high_watermarks(kafka_at(bootstrap_servers), partitions, deadline)
    unread = {where: end for where, end in ends.items() if end > 0}
    undecided: set[tuple[str, int]] = set()
    consumer = consumer_of(bootstrap_servers)
    try:
        consumer.assign(partitions)
        last = time.monotonic()
        while unread:
            messages = arrived(consumer, 0.1)
            waited = time.monotonic() - last
            if waited > marker_wait_s and undecided >= set(unread):
                return
            if waited > timeout_s:
                raise TimeoutError(f"no end of {sorted(unread)} within {timeout_s} s")
            for message in messages:
                where = (str(message.topic()), int(message.partition() or 0))
                error = message.error()
                if error is None:
                    last = time.monotonic()
                    undecided.discard(where)
                    yield message
                elif error.name() != "_PARTITION_EOF":
                    raise KafkaException(error)
                elif int(message.offset() or 0) >= unread.get(where, 0):
                    unread.pop(where, None)
                else:
                    undecided.add(where)
    finally:
        consumer.close()


def in_commit_order(events: Iterable[Event]) -> list[Event]:
    """Events of one topic, its partitions merged by position.

    Within a partition the order stays; a tombstone stays after its delete.
    """
    by_partition: dict[int, list[tuple[ChangePosition, Event]]] = {}
    for event in events:
        read = by_partition.setdefault(event.partition, [])
        tombstone = event.envelope is None and read
        read.append((read[-1][0] if tombstone else event.position, event))
    merged = heapq.merge(*by_partition.values(), key=lambda placed: placed[0])
    return [event for _, event in merged]


def event_of(decoder: RecordDecoder, message: Any) -> Event:
    """The event of a message of a data topic."""
    key = message.key()
    value = message.value()
    schema_id, envelope = decoder.decode(value) if value is not None else (0, None)
    return Event(
        topic=message.topic(),
        partition=message.partition(),
        offset=message.offset(),
        timestamp_ms=message.timestamp()[1],
        key=decoder.decode(key)[1] if key is not None else None,
        envelope=envelope,
        schema_id=schema_id,
    )
