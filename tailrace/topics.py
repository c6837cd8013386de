"""Reading the topics as a subscriber would: read_committed, decoded by the registered schemas."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import fastavro
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition

from schemas.framing import split_frame
from schemas.lsn import Lsn
from schemas.position import ChangePosition, Operation
from schemas.registry import SchemaRegistry
from schemas.topics import TopicNames


@dataclass(frozen=True, slots=True)
class Event:
    """One record of a data topic; ``envelope`` is None for a tombstone."""

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
        source = self.envelope["source"]
        return ChangePosition(
            Lsn.parse(source["commit_lsn"]),
            source["command_id"] or 0,
            Lsn.parse(source["change_lsn"]) if source["change_lsn"] else Lsn.ZERO,
            Operation(source["operation"] or 0),
        )


class AvroDecoder:
    """Decodes Confluent-framed Avro by the writer's registered schema."""

    def __init__(self, registry: SchemaRegistry) -> None:
        self._registry = registry
        self._schemas: dict[int, Any] = {}

    def decode(self, framed: bytes) -> tuple[int, dict[str, Any]]:
        """(schema id, record) of a framed value.

        Raises:
            ValueError: not framed.
        """
        schema_id, payload = split_frame(framed)
        schema = self._schemas.get(schema_id)
        if schema is None:
            schema = fastavro.parse_schema(self._registry.schema_by_id(schema_id))
            self._schemas[schema_id] = schema
        record = fastavro.schemaless_reader(io.BytesIO(payload), schema, None)
        return schema_id, record  # type: ignore[return-value]  # our schemas are records


def consumer_of(bootstrap_servers: str) -> Consumer:
    """A consumer outside any group that sees committed records only and reports the end."""
    return Consumer(
        {
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


def existing_data_topics(bootstrap_servers: str, names: TopicNames) -> dict[str, int]:
    """The data topics under the prefix that exist, with their partition counts."""
    consumer = consumer_of(bootstrap_servers)
    try:
        metadata = consumer.list_topics(timeout=10)
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
        bootstrap_servers: of Kafka.
        registry: to decode with.
        topics: names and partition counts.
        timeout_s: the longest wait without any record.

    Raises:
        TimeoutError: the end of a partition was not reached in time.
    """
    decoder = AvroDecoder(registry)
    consumer = consumer_of(bootstrap_servers)
    partitions = [
        TopicPartition(topic, partition, OFFSET_BEGINNING)
        for topic, count in topics.items()
        for partition in range(count)
    ]
    open_partitions = {(p.topic, p.partition) for p in partitions}
    try:
        consumer.assign(partitions)
        deadline = time.monotonic() + timeout_s
        while open_partitions:
            messages = consumer.consume(1000, 0.1)
            if time.monotonic() > deadline:
                raise TimeoutError(f"no end of {sorted(open_partitions)} within {timeout_s} s")
            if messages:
                deadline = time.monotonic() + timeout_s
            for message in messages:
                error = message.error()
                if error is not None:
                    if error.name() != "_PARTITION_EOF":
                        raise KafkaException(error)
                    open_partitions.discard((message.topic(), message.partition()))
                    continue
                yield _event(decoder, message)
    finally:
        consumer.close()


def _event(decoder: AvroDecoder, message: Any) -> Event:
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
