"""Reading the topics as a subscriber would: read_committed, decoded by the registered schemas."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, Message

from tailrace.reading.record_decoder import RecordDecoder
from tailrace_schemas.events.envelope import position_of
from tailrace_schemas.events.flat import as_envelope
from tailrace_schemas.position.change_position import ChangePosition
from tailrace_schemas.topics.topic_names import TopicNames


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
