"""Reads the checkpoint topic to its end.

Call it after ``KafkaDelivery.start``, which aborts a transaction that a previous publisher left
open. While any producer has a transaction open on the topic, read_committed silently hides newer
records. The end that such a reader sees is the last stable offset. So the true end (high watermark)
is queried first, and reading continues until it is reached.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaException

from tailrace_publisher.checkpoint.partition import newest_by_key
from tailrace_publisher.encode.records import RecordDecoder
from tailrace_publisher.errors import CheckpointError, CheckpointUnavailable
from tailrace_publisher.options.broker_waits import PATIENCE_S
from tailrace_publisher.ports import KafkaAccess
from tailrace_publisher.runtime import DatabaseTopics
from tailrace_schemas.records.checkpoint import (
    CHECKPOINT_SCHEMA,
    CheckpointKey,
    DatabaseCheckpoint,
    TableCheckpoint,
    older_instance,
)
from tailrace_schemas.topics.topic_names import TableName


@dataclass(slots=True)
class Stored:
    """The newest committed checkpoint of one database.

    Attributes:
        older_instances: records by capture instance, of releases that wrote such.
        others: when other databases were written, milliseconds UTC. They are under the same prefix.
        older_keys: keys of records in forms of earlier releases, as in the topic. The records are
            deleted once they are written in the present form.
    """

    database: DatabaseCheckpoint | None = None
    tables: dict[TableName, TableCheckpoint] = field(default_factory=dict)
    older_instances: dict[str, TableCheckpoint] = field(default_factory=dict)
    others: dict[str, int] = field(default_factory=dict)
    older_keys: list[bytes] = field(default_factory=list)

    @property
    def stopped(self) -> dict[TableName, str]:
        """The stopped tables, and why."""
        return {
            name: record.stopped_reason
            for name, record in self.tables.items()
            if record.stopped_reason is not None
        }

    @property
    def is_empty(self) -> bool:
        """Whether nothing is stored."""
        return self.database is None and not self.tables and not self.older_instances


def read_checkpoints(
    topics: DatabaseTopics, patience_s: float = PATIENCE_S, isolation: str = "read_committed"
) -> Stored:
    """Read the newest committed checkpoint of one database.

    Args:
        patience_s: seconds without a further record until it gives up.
        isolation: ``read_uncommitted`` waits for nobody, and also returns what may still be
            aborted.

    Raises:
        CheckpointUnavailable: the end was not reached: no broker, no topic, or another producer's
            open transaction.
        CheckpointError: a record is not one of ours.
        RegistryError: a record's schema is not available.
    """
    offsets = topics.names.offsets
    return _decode(newest_by_key(topics.kafka, offsets, patience_s, isolation=isolation), topics)


def has_checkpoint_topic(topics: DatabaseTopics, timeout_s: float = PATIENCE_S) -> bool:
    """Return whether anything was published under the prefix before.

    Raises:
        CheckpointUnavailable: no broker answered in time.
    """
    return topics.names.offsets in existing_topics(topics.kafka, timeout_s)


def existing_topics(kafka: KafkaAccess, timeout_s: float = PATIENCE_S) -> dict[str, int]:
    """List all topics with their number of partitions.

    Raises:
        CheckpointUnavailable: no broker answered in time.
    """
    admin = kafka.admin()
    try:
        # All topics, because a query by name would create the topic if the brokers allow that.
        found = admin.list_topics(timeout=timeout_s).topics
    except KafkaException as error:
        raise CheckpointUnavailable(f"listing topics: {error}") from error
    return {name: len(topic.partitions) for name, topic in found.items()}


def _decode(newest: Mapping[bytes, bytes | None], topics: DatabaseTopics) -> Stored:
    keys = RecordDecoder(None, topics.registry)  # with the writer's schema: older keys differ
    values = RecordDecoder(CHECKPOINT_SCHEMA, topics.registry)
    found = Stored()
    for raw_key, raw_value in newest.items():
        if raw_value is None:
            continue
        try:
            key = keys.decode(raw_key)
            if key["server"] != topics.server:
                continue
            if key["database"] == topics.database:
                _take(found, raw_key, key, values.decode(raw_value))
            elif not key.get("table") and not key.get("capture_instance"):
                found.others[key["database"]] = values.decode(raw_value)["written_ms"]
        except (TypeError, ValueError, KeyError) as error:
            raise _foreign(topics, error) from error
    return found


def _foreign(topics: DatabaseTopics, error: Exception) -> CheckpointError:
    return CheckpointError(f"topic {topics.names.offsets} holds a foreign record: {error!r}")


def _take(found: Stored, raw_key: bytes, key: Mapping[str, Any], record: Mapping[str, Any]) -> None:
    """Add a record; one of the present form replaces one of an earlier form."""
    if "capture_instance" not in key:
        table = CheckpointKey.from_record(key).table
        if table is None:
            found.database = DatabaseCheckpoint.from_record(record)
        else:
            found.tables[table] = TableCheckpoint.from_record(record)
        return
    found.older_keys.append(raw_key)
    name = key["capture_instance"]
    if name:
        found.older_instances[name] = older_instance(name, record)
    elif found.database is None:
        found.database = DatabaseCheckpoint.from_record(record)
