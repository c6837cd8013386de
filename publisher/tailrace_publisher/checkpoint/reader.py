"""Reads the checkpoint topic to its end.

Call it after ``KafkaDelivery.start``: that has aborted a transaction which a publisher before left
open. Until then, and whenever another producer has a transaction open on the topic, read_committed
hides newer records without a word: the end that such a reader sees is the last stable offset. So
the true end (high watermark) is asked for first, and reading goes on until it is reached.
"""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import OFFSET_BEGINNING, KafkaException

from tailrace_publisher.checkpoint.partition import end_of, partition_reader
from tailrace_publisher.encode.records import RecordDecoder
from tailrace_publisher.errors import CheckpointError, CheckpointUnavailable
from tailrace_publisher.ports import KafkaAccess
from tailrace_publisher.runtime import DatabaseTopics
from tailrace_schemas.checkpoint import (
    CHECKPOINT_KEY_SCHEMA,
    CHECKPOINT_SCHEMA,
    CheckpointKey,
    CheckpointRecord,
)


def read_checkpoints(
    topics: DatabaseTopics, deadline_s: float, isolation: str = "read_committed"
) -> dict[CheckpointKey, CheckpointRecord]:
    """The newest committed checkpoint of every key of one database.

    Args:
        topics: of the database.
        deadline_s: longest time to take.
        isolation: ``read_uncommitted`` waits for nobody, and sees what may yet be aborted.

    Raises:
        CheckpointUnavailable: the end was not reached in time: no broker, no topic, or another
            producer's open transaction.
        CheckpointError: a record is not one of ours.
        RegistryError: a record's schema cannot be had.
    """
    kafka, topic = topics.kafka, topics.names.offsets
    deadline = kafka.clock.monotonic() + deadline_s
    end = end_of(kafka, topic, deadline)
    newest: dict[bytes, bytes | None] = {}
    with partition_reader(kafka, topic, isolation) as reader:
        for message in reader.read(OFFSET_BEGINNING, end, deadline):
            newest[message.key() or b""] = message.value()
    return _decode(newest, topics)


def has_checkpoint_topic(topics: DatabaseTopics, timeout_s: float) -> bool:
    """Whether anything was published under the prefix before.

    Raises:
        CheckpointUnavailable: no broker answered in time.
    """
    return topics.names.offsets in existing_topics(topics.kafka, timeout_s)


def existing_topics(kafka: KafkaAccess, timeout_s: float) -> set[str]:
    """The names of all topics.

    Raises:
        CheckpointUnavailable: no broker answered in time.
    """
    admin = kafka.admin()
    try:
        # All topics: asking for one by its name would create it where brokers allow that.
        return set(admin.list_topics(timeout=timeout_s).topics)
    except KafkaException as error:
        raise CheckpointUnavailable(f"listing topics: {error}") from error


def _decode(
    newest: Mapping[bytes, bytes | None], topics: DatabaseTopics
) -> dict[CheckpointKey, CheckpointRecord]:
    keys = RecordDecoder(CHECKPOINT_KEY_SCHEMA, topics.registry)
    values = RecordDecoder(CHECKPOINT_SCHEMA, topics.registry)
    found: dict[CheckpointKey, CheckpointRecord] = {}
    for raw_key, raw_value in newest.items():
        if raw_value is None:
            continue
        try:
            key = CheckpointKey(**keys.decode(raw_key))
            if (key.server, key.database) == (topics.server, topics.database):
                found[key] = CheckpointRecord(**values.decode(raw_value))
        except (TypeError, ValueError) as error:
            raise CheckpointError(
                f"topic {topics.names.offsets} holds a foreign record: {error}"
            ) from error
    return found
