"""Reads Kafka Connect's offsets topic: compacted, in any number of partitions."""

from __future__ import annotations

from confluent_kafka import KafkaException

from tailrace_publisher.checkpoint.partition import PATIENCE_S, newest_by_key
from tailrace_publisher.errors import CheckpointUnavailable, ConfigError
from tailrace_publisher.ports import KafkaAccess


def read_connect_topic(kafka: KafkaAccess, topic: str) -> dict[bytes, bytes | None]:
    """Read the newest committed value of each key.

    Args:
        kafka: the brokers.
        topic: its name.

    Raises:
        ConfigError: there is no such topic.
        CheckpointUnavailable: it could not be read.
    """
    newest: dict[bytes, bytes | None] = {}
    for partition in _partitions(kafka, topic):
        newest |= newest_by_key(kafka, topic, PATIENCE_S, partition)
    return newest


def _partitions(kafka: KafkaAccess, topic: str) -> list[int]:
    admin = kafka.admin()
    try:
        # All topics: asking for one by its name would create it where brokers allow that.
        found = admin.list_topics(timeout=PATIENCE_S).topics.get(topic)
    except KafkaException as error:
        raise CheckpointUnavailable(f"listing topics: {error}") from error
    if found is None:
        raise ConfigError(
            [
                f"publisher.start.debezium_topic = {topic!r}: there is no such topic on these"
                " brokers; give the worker's offset.storage.topic"
            ]
        )
    return sorted(found.partitions)
