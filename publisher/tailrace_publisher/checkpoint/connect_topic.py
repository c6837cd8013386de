"""Reads Kafka Connect's offsets topic: compacted, in any number of partitions."""

from __future__ import annotations

from confluent_kafka import KafkaException

from tailrace_publisher.checkpoint.partition import end_of, partition_reader
from tailrace_publisher.errors import CheckpointUnavailable, ConfigError
from tailrace_publisher.ports import KafkaAccess


def read_connect_topic(
    kafka: KafkaAccess, topic: str, deadline_s: float
) -> dict[bytes, bytes | None]:
    """The newest committed value of each key.

    Args:
        kafka: the brokers.
        topic: its name.
        deadline_s: longest time to take.

    Raises:
        ConfigError: there is no such topic.
        CheckpointUnavailable: it could not be read in time.
    """
    deadline = kafka.clock.monotonic() + deadline_s
    newest: dict[bytes, bytes | None] = {}
    for partition in _partitions(kafka, topic, deadline_s):
        end = end_of(kafka, topic, deadline, partition)
        if not end:
            continue
        with partition_reader(kafka, topic, partition=partition) as reader:
            begin = reader.begin(deadline)
            if begin < end:
                for message in reader.read(begin, end, deadline):
                    newest[message.key() or b""] = message.value()
    return newest


def _partitions(kafka: KafkaAccess, topic: str, deadline_s: float) -> list[int]:
    admin = kafka.admin()
    try:
        # All topics: asking for one by its name would create it where brokers allow that.
        found = admin.list_topics(timeout=deadline_s).topics.get(topic)
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
