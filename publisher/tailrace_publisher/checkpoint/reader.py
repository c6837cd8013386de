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
from typing import Any, Final

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from tailrace_publisher.checkpoint.watermarks import high_watermarks
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

_BATCH: Final = 1000
_WAIT_S: Final = 0.02  # longer waits only add latency: the brokers answer in milliseconds
# The names of librdkafka's own (not the broker's) codes begin with an underscore.
_END: Final = KafkaError._PARTITION_EOF  # noqa: SLF001
_LOST: Final = frozenset({KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN})  # noqa: SLF001


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
    partition = TopicPartition(topics.offsets, 0, OFFSET_BEGINNING)
    end = _high_watermark(connection, partition, deadline)
    newest: dict[bytes, bytes | None] = {}
    consumer = Consumer(
        {
            **connection,
            "group.id": f"{topics.offsets}-reader",  # required by the client; never joined
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 20,
            "auto.offset.reset": "error",
        },
        logger=logging.getLogger("tailrace_publisher.kafka"),
    )
    try:
        consumer.assign([partition])
        reached = 0
        while reached < end:
            for message in consumer.consume(_BATCH, _WAIT_S):
                reached = max(reached, _take(message, newest))
            if reached < end and time.monotonic() > deadline:
                raise CheckpointUnavailable(
                    f"topic {topics.offsets} ends at offset {end} but could be read only to"
                    f" {reached} within {deadline_s:g} s: another producer has a transaction open"
                    " on it, or the brokers are slow"
                )
    except KafkaException as error:
        raise CheckpointUnavailable(f"reading topic {topics.offsets}: {error}") from error
    finally:
        consumer.close()
    return _decode(newest, topics, registry, server, database)


def has_checkpoint_topic(
    bootstrap: str, topics: TopicNames, timeout_s: float, extra: Mapping[str, str] | None = None
) -> bool:
    """Whether anything was published under the prefix before.

    Raises:
        CheckpointUnavailable: no broker answered in time.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap, **(extra or {})})
    try:
        # All topics: asking for one by its name would create it where brokers allow that.
        return topics.offsets in admin.list_topics(timeout=timeout_s).topics
    except KafkaException as error:
        raise CheckpointUnavailable(f"listing topics: {error}") from error


def _high_watermark(
    connection: Mapping[str, str], partition: TopicPartition, deadline: float
) -> int:
    """The end of the partition, open transactions included."""
    try:
        (end,) = high_watermarks(connection, [partition], deadline).values()
    except (KafkaException, TimeoutError) as error:
        raise CheckpointUnavailable(f"end of topic {partition.topic}: {error}") from error
    return end


def _take(message: Any, newest: dict[bytes, bytes | None]) -> int:
    """Keep a record; returns the offset up to which the partition was read."""
    error = message.error()
    if error is None:
        newest[message.key() or b""] = message.value()
        return int(message.offset()) + 1
    if error.code() == _END:
        return int(message.offset())  # behind the markers at the end, which are no messages
    if error.retriable() or error.code() in _LOST:
        return 0
    raise KafkaException(error)


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
