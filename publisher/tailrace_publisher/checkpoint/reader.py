"""Reads the checkpoint topic to its end.

Call it after ``KafkaDelivery.start``: that has aborted a transaction which a publisher before left
open. Until then, and whenever another producer has a transaction open on the topic, read_committed
hides newer records without a word: the end that such a reader sees is the last stable offset. So
the true end (high watermark) is asked for first, and reading goes on until it is reached.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping

from confluent_kafka import OFFSET_BEGINNING, KafkaException
from confluent_kafka.admin import AdminClient

from tailrace_publisher.checkpoint.partition import end_of, partition_reader
from tailrace_publisher.encode.records import RecordDecoder
from tailrace_publisher.errors import CheckpointError, CheckpointUnavailable
from tailrace_schemas.checkpoint import (
    CHECKPOINT_KEY_SCHEMA,
    CHECKPOINT_SCHEMA,
    CheckpointKey,
    CheckpointRecord,
)
from tailrace_schemas.registry import SchemaRegistry
from tailrace_schemas.topics import TopicNames


def read_checkpoints(
    bootstrap: str,
    topics: TopicNames,
    server: str,
    database: str,
    deadline_s: float,
    *,
    registry: SchemaRegistry,
    extra: Mapping[str, str] | None = None,
    isolation: str = "read_committed",
) -> dict[CheckpointKey, CheckpointRecord]:
    """The newest committed checkpoint of every key of one database.

    Args:
        bootstrap: comma-separated host:port of some brokers.
        topics: names under the prefix.
        server: logical name of the source server.
        database: the source database.
        deadline_s: longest time to take.
        registry: knows the schemas of the records.
        extra: further librdkafka options of the connection.
        isolation: ``read_uncommitted`` waits for nobody, and sees what may yet be aborted.

    Raises:
        CheckpointUnavailable: the end was not reached in time: no broker, no topic, or another
            producer's open transaction.
        CheckpointError: a record is not one of ours.
        RegistryError: a record's schema cannot be had.
    """
    deadline = time.monotonic() + deadline_s
    connection = {"bootstrap.servers": bootstrap, **(extra or {})}
    end = end_of(connection, topics.offsets, deadline)
    newest: dict[bytes, bytes | None] = {}
    with partition_reader(connection, topics.offsets, isolation) as reader:
        for message in reader.read(OFFSET_BEGINNING, end, deadline):
            newest[message.key() or b""] = message.value()
    return _decode(newest, topics, registry, server, database)


def has_checkpoint_topic(
    bootstrap: str, topics: TopicNames, timeout_s: float, extra: Mapping[str, str] | None = None
) -> bool:
    """Whether anything was published under the prefix before.

    Raises:
        CheckpointUnavailable: no broker answered in time.
    """
    return topics.offsets in existing_topics(bootstrap, timeout_s, extra)


def existing_topics(
    bootstrap: str, timeout_s: float, extra: Mapping[str, str] | None = None
) -> set[str]:
    """The names of all topics.

    Raises:
        CheckpointUnavailable: no broker answered in time.
    """
    admin = AdminClient(
        {"bootstrap.servers": bootstrap, **(extra or {})},
        logger=logging.getLogger("tailrace_publisher.kafka"),
    )
    try:
        # All topics: asking for one by its name would create it where brokers allow that.
        return set(admin.list_topics(timeout=timeout_s).topics)
    except KafkaException as error:
        raise CheckpointUnavailable(f"listing topics: {error}") from error


def _decode(
    newest: Mapping[bytes, bytes | None],
    topics: TopicNames,
    registry: SchemaRegistry,
    server: str,
    database: str,
) -> dict[CheckpointKey, CheckpointRecord]:
    keys = RecordDecoder(CHECKPOINT_KEY_SCHEMA, registry)
    values = RecordDecoder(CHECKPOINT_SCHEMA, registry)
    found: dict[CheckpointKey, CheckpointRecord] = {}
    for raw_key, raw_value in newest.items():
        if raw_value is None:
            continue
        try:
            key = CheckpointKey(**keys.decode(raw_key))
            if (key.server, key.database) == (server, database):
                found[key] = CheckpointRecord(**values.decode(raw_value))
        except (TypeError, ValueError) as error:
            raise CheckpointError(
                f"topic {topics.offsets} holds a foreign record: {error}"
            ) from error
    return found
