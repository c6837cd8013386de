"""A change of the database's own record in the publisher's place, under its transactional id."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import structlog

from tailrace_publisher.checkpoint.reader import Stored, read_checkpoints
from tailrace_publisher.deliver.fixed_records import Checkpoints, FixedRecords
from tailrace_publisher.deliver.producer import TransactionalProducer
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_publisher.ports import KafkaAccess
from tailrace_publisher.runtime import DatabaseTopics
from tailrace_schemas.records.checkpoint import CheckpointKey, DatabaseCheckpoint
from tailrace_schemas.records.progress import Progress
from tailrace_schemas.records.transactional_ids import older_transactional_id, transactional_id

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Rewrite:
    """What a command writes in the publisher's place, in one Kafka transaction.

    Attributes:
        progress: a progress record, if it concerns readers.
        headers: of the progress record.
    """

    checkpoints: Checkpoints
    progress: Progress | None = None
    headers: tuple[tuple[str, bytes], ...] = ()


def rewrite_own_record(
    config: PublisherConfig,
    topics: DatabaseTopics,
    name: str,
    change: Callable[[Stored, DatabaseCheckpoint], Rewrite],
) -> Stored:
    """Take a transactional id, then change the database's records if it has any.

    A publisher with that id can commit no more, and learns from the record that it was replaced.

    Args:
        name: the transactional id to take.
        change: gets what is stored, and the database's own record of it; returns what to write.

    Returns:
        What was stored before.

    Raises:
        PublisherError, RegistryError: a system does not answer, or refuses.
    """
    producer = command_producer(config, topics.kafka, name)
    try:
        producer.init_transactions(config.kafka.start_timeout_s)
        stored = read_checkpoints(topics, config.kafka.start_timeout_s)
        if stored.database is not None:
            wanted = change(stored, stored.database)
            records, names = FixedRecords(topics), topics.names
            producer.begin()
            producer.produce(names.offsets, records.checkpoints(wanted.checkpoints), {})
            if wanted.progress is not None:
                message = (None, records.progress(wanted.progress.to_record()), 0)
                producer.produce(names.progress, [message], {}, wanted.headers)
            producer.commit()
    finally:
        producer.close()
    return stored


def command_producer(
    config: PublisherConfig, kafka: KafkaAccess, transactional_id: str
) -> TransactionalProducer:
    """Create a producer for a command's transaction; it does not take its transactional id yet.

    Args:
        transactional_id: init_transactions fences the publisher that uses it.
    """
    options = config.kafka
    return TransactionalProducer(
        kafka, transactional_id, options.transaction_timeout_ms, options.commit_timeout_s
    )


def own_key(topics: DatabaseTopics) -> CheckpointKey:
    """Return the key of the database's own record."""
    return CheckpointKey(topics.server, topics.database)


def is_of_older_id(topics: DatabaseTopics, own: DatabaseCheckpoint) -> bool:
    """Return whether an earlier release wrote a record, under an id of another form."""
    older, present = _ids(topics)
    return own.map_number is None and older != present


def end_older_publisher(config: PublisherConfig, topics: DatabaseTopics, stored: Stored) -> Stored:
    """Fence a publisher of an earlier release, which has another transactional id.

    Args:
        stored: what was read after the present id was taken.

    Returns:
        What is stored now.

    Raises:
        PublisherError, RegistryError: a system does not answer, or refuses.
    """
    if stored.database is None or not is_of_older_id(topics, stored.database):
        return stored
    older, present = _ids(topics)

    def of_this_release(_: Stored, own: DatabaseCheckpoint) -> Rewrite:
        now_ms = topics.kafka.clock.now_ms()
        written = replace(own, map_number=0, written_ms=now_ms)
        return Rewrite({own_key(topics): written})

    rewrite_own_record(config, topics, older, of_this_release)
    _log.info("older_transactional_id_fenced", older=older, present=present)
    return read_checkpoints(topics)


def _ids(topics: DatabaseTopics) -> tuple[str, str]:
    """Return the transactional ids, of earlier releases and of this one."""
    of = (topics.names.prefix, topics.database)
    return older_transactional_id(*of), transactional_id(*of)
