"""Going on with a database that is not known to continue what was published (ADR 0013)."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from tailrace_publisher.checkpoint.reader import has_checkpoint_topic, read_checkpoints
from tailrace_publisher.config import PublisherConfig
from tailrace_publisher.daemon.book import DATABASE_RECORD
from tailrace_publisher.deliver.producer import TransactionalProducer
from tailrace_publisher.encode.records import RecordEncoder
from tailrace_publisher.errors import CheckpointError
from tailrace_publisher.source.connection import Connection
from tailrace_publisher.source.identity import DatabaseIdentity, visible_identity
from tailrace_publisher.source.loss import check_not_backwards
from tailrace_publisher.source.queries import max_lsn
from tailrace_schemas.checkpoint import (
    CHECKPOINT_KEY_SCHEMA,
    CHECKPOINT_SCHEMA,
    CheckpointKey,
    CheckpointRecord,
)
from tailrace_schemas.lsn import Lsn
from tailrace_schemas.registry import SchemaRegistry
from tailrace_schemas.topics import key_subject, value_subject


@dataclass(frozen=True, slots=True)
class Accepted:
    """What was accepted.

    Attributes:
        known: the database as it was published.
        found: the database as it is now.
        position: last LSN that was published; changes behind it follow.
    """

    known: DatabaseIdentity
    found: DatabaseIdentity
    position: Lsn


def accept_database(config: PublisherConfig) -> Accepted:
    """Write into the checkpoint that the database as it is now continues what was published.

    Only what it is known by is written; the position and the tables' state stay. It is one Kafka
    transaction under the publisher's transactional id, so a publisher that runs is fenced and ends.

    Args:
        config: of the publisher.

    Raises:
        CheckpointError: nothing of the database was published under the prefix.
        LsnWentBack: its newest LSN is below the position: what comes next would be left out.
        PublisherError, RegistryError: a part does not answer, or refuses.
    """
    database = config.source.database
    options, topics = config.kafka.librdkafka_options(), config.topics
    key = CheckpointKey(config.server_name, database, DATABASE_RECORD)
    with (
        Connection(config.source) as connection,
        SchemaRegistry(config.registry.url, config.registry.timeout_s) as registry,
    ):
        found, newest = visible_identity(connection), max_lsn(connection)
        timeout_s = config.kafka.start_timeout_s
        bootstrap = config.kafka.bootstrap
        nothing = CheckpointError(
            f"nothing of {database} was published under prefix {config.prefix}: there is no"
            " checkpoint to accept it for; check publisher.prefix and publisher.source.database"
        )
        if not has_checkpoint_topic(bootstrap, topics, timeout_s, options):
            raise nothing
        producer = TransactionalProducer(
            config.kafka.connection(),
            config.transactional_id,
            config.kafka.transaction_timeout_ms,
            config.kafka.commit_timeout_s,
        )
        try:
            producer.init_transactions(timeout_s)
            records = read_checkpoints(
                bootstrap,
                topics,
                config.server_name,
                database,
                timeout_s,
                registry=registry,
                extra=options,
            )
            own = records.get(key)
            if own is None:
                raise nothing
            position = Lsn.parse(own.start_lsn)
            check_not_backwards(database, position, newest, is_secondary=False)
            message = _encoded(config, registry, key, _as_found(own, found))
            producer.begin()
            producer.produce(topics.offsets, [(*message, 0)], {})
            producer.commit()
        finally:
            producer.close()
    known = DatabaseIdentity(own.database_guid, own.recovery_fork_guid, own.family_guid)
    return Accepted(known, found, position)


def _as_found(own: CheckpointRecord, found: DatabaseIdentity) -> CheckpointRecord:
    """The record with the database as it is now, and no commit to know it by."""
    return replace(
        own,
        database_guid=found.database_guid,
        recovery_fork_guid=found.recovery_fork_guid,
        family_guid=found.family_guid,
        tran_end_time=None,
        tran_id=None,
        written_ms=time.time_ns() // 1_000_000,
    )


def _encoded(
    config: PublisherConfig, registry: SchemaRegistry, key: CheckpointKey, record: CheckpointRecord
) -> tuple[bytes, bytes]:
    topic = config.topics.offsets
    key_id = registry.register(key_subject(topic), CHECKPOINT_KEY_SCHEMA)
    record_id = registry.register(value_subject(topic), CHECKPOINT_SCHEMA)
    return (
        RecordEncoder(CHECKPOINT_KEY_SCHEMA, key_id).encode(key),
        RecordEncoder(CHECKPOINT_SCHEMA, record_id).encode(record),
    )
