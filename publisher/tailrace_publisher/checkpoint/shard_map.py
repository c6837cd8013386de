"""Reads the map of shards from the control topic."""

from __future__ import annotations

from confluent_kafka import OFFSET_BEGINNING

from tailrace_publisher.checkpoint.partition import end_of, partition_reader
from tailrace_publisher.errors import CheckpointError
from tailrace_publisher.ports import KafkaAccess
from tailrace_schemas.shards import MAP_KEY, ShardMap


def read_map(kafka: KafkaAccess, topic: str, deadline_s: float) -> ShardMap | None:
    """The newest committed map; None while there is none.

    Args:
        kafka: the brokers.
        topic: the control topic, which must exist.
        deadline_s: longest time to take.

    Raises:
        CheckpointUnavailable: the end of the topic was not reached in time.
        CheckpointError: the record is no map, or one of a later release.
    """
    deadline = kafka.clock.monotonic() + deadline_s
    end = end_of(kafka, topic, deadline)
    newest: bytes | None = None
    with partition_reader(kafka, topic) as reader:
        for message in reader.read(OFFSET_BEGINNING, end, deadline):
            if message.key() == MAP_KEY:
                newest = message.value()
    if newest is None:
        return None
    try:
        return ShardMap.from_bytes(newest)
    except ValueError as error:
        raise CheckpointError(f"topic {topic}: {error}") from error
