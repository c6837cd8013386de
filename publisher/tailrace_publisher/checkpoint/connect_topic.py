"""Reads Kafka Connect's offsets topic: compacted, with any number of partitions."""

from __future__ import annotations

from tailrace_publisher.checkpoint.partition import newest_by_key
from tailrace_publisher.checkpoint.reader import existing_topics
from tailrace_publisher.errors import ConfigError
from tailrace_publisher.options.broker_waits import PATIENCE_S
from tailrace_publisher.ports import KafkaAccess


def read_connect_topic(kafka: KafkaAccess, topic: str) -> dict[bytes, bytes | None]:
    """Read the newest committed value of each key.

    Raises:
        ConfigError: the topic does not exist.
        CheckpointUnavailable: the topic could not be read.
    """
    partitions = existing_topics(kafka).get(topic)
    if partitions is None:
        raise ConfigError(
            [
                f"publisher.start.debezium_topic = {topic!r}: there is no such topic on these"
                " brokers. Fix: name the worker's offset.storage.topic"
            ]
        )
    newest: dict[bytes, bytes | None] = {}
    for partition in range(partitions):
        newest |= newest_by_key(kafka, topic, PATIENCE_S, partition)
    return newest
