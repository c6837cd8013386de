"""The map of shards that all publishers of a database agree on, stored in the control topic.

The first publisher writes the map of its configuration. After that, a configuration with another
map is refused. Only ``tailrace reshard`` changes a map. Each session reads the map once more after
init_transactions of its shard. A reshard first takes every shard's transactional id. So it is
either finished, and the session sees the new map, or it fences the session before that can write.
"""

from __future__ import annotations

import structlog

from tailrace_publisher.checkpoint.reader import existing_topics
from tailrace_publisher.checkpoint.shard_map import read_map
from tailrace_publisher.deliver.producer import TransactionalProducer
from tailrace_publisher.deliver.topics import TopicAdmin, control_spec
from tailrace_publisher.errors import (
    CheckpointUnavailable,
    ConfigError,
    PublisherReplaced,
    ShardsDiffer,
)
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_publisher.ports import KafkaAccess, Ports
from tailrace_publisher.runtime import DatabaseTopics, kafka_access
from tailrace_schemas.records.checkpoint import DatabaseCheckpoint
from tailrace_schemas.records.shards import MAP_KEY, Shard, ShardMap, map_transactional_id

_log = structlog.get_logger(__name__)


def agreed_map(config: PublisherConfig, ports: Ports) -> ShardMap:
    """Return the map in the topics; write the configured one if there is none.

    Raises:
        ConfigError: a pinned table can have no topic.
        ShardsDiffer: the published tables are divided differently.
        CheckpointError: the control topic holds no map, but something else.
        CheckpointUnavailable, DeliveryError: Kafka does not answer, or refuses.
    """
    wanted = wanted_map(config)
    names, kafka = config.topics, kafka_access(config, ports)
    admin = TopicAdmin(kafka, config.kafka.replication_factor, config.kafka.start_timeout_s)
    found = None
    # Queried first: a publisher writes the map before it creates this topic.
    is_published = admin.partitions(names.offsets) is not None
    if admin.partitions(names.control) is not None:
        found = read_map(kafka, names.control)
    if found is None:
        if is_published:
            raise ShardsDiffer(
                f"publisher.shards.count is {wanted.shards}, and topic {names.control} has no map,"
                f" though prefix {names.prefix} is published. Fix: set it to 1, or stop the"
                " publisher and run tailrace reshard"
            )
        admin.ensure([control_spec(names.control, wanted.shards)])
        found = _written(config, kafka, wanted)
    _check_same(names.control, found, wanted)
    return found


def all_shards(config: PublisherConfig, ports: Ports) -> list[Shard]:
    """Return every shard that is published, for commands that read all of them.

    Raises:
        ConfigError, ShardsDiffer, CheckpointError, DeliveryError: as :func:`agreed_map`.
    """
    wanted, topic = wanted_map(config), config.topics.control
    kafka = kafka_access(config, ports)
    admin = TopicAdmin(kafka, config.kafka.replication_factor, config.kafka.start_timeout_s)
    if admin.partitions(topic) is None:
        return [Shard()]
    found = read_map(kafka, topic)
    if found is None:
        return [Shard()]
    _check_same(topic, found, wanted)
    return [Shard(number, found) for number in range(found.shards)]


def wanted_map(config: PublisherConfig) -> ShardMap:
    """Return the first map that a configuration describes.

    Raises:
        ConfigError: a pinned table can have no topic.
    """
    try:
        return config.shard_map
    except ValueError as error:
        raise ConfigError([f"publisher.shards.pinned: {error}"]) from error


def check_map(topics: DatabaseTopics, own: DatabaseCheckpoint | None) -> None:
    """Check, after init_transactions, that the map is still the one that the session started with.

    Args:
        topics: with the session's shard.
        own: the database's record, read after init_transactions.

    Raises:
        ShardsDiffer: the tables were resharded.
        CheckpointError, CheckpointUnavailable: the map cannot be read.
    """
    control, known = topics.names.control, topics.shard.map
    if own is not None and own.map_number is not None:
        if own.map_number == known.number:
            return  # a reshard writes its number there, in one transaction with the map
        difference = f"map {own.map_number}, not {known.number}"
    else:
        is_there = control in existing_topics(topics.kafka)
        found = (read_map(topics.kafka, control) if is_there else None) or ShardMap()
        if found.is_divided_as(known):
            return
        difference = f"{_describe(found)}, not {_describe(known)}"
    raise ShardsDiffer(
        f"the map of shards in topic {control} differs from the one that this publisher started"
        f" with ({difference}): tailrace reshard has divided the tables of database"
        f" {topics.database}."
        " Fix: start it again with the new configuration"
    )


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


def _written(config: PublisherConfig, kafka: KafkaAccess, wanted: ShardMap) -> ShardMap:
    """Write the first map, unless another publisher did; return the written one.

    The transactional id lets only one publisher write.
    """
    name = map_transactional_id(config.prefix, config.source.database)
    producer = command_producer(config, kafka, name)
    topic = config.topics.control
    try:
        producer.init_transactions(config.kafka.start_timeout_s)
        found = read_map(kafka, topic)
        if found is not None:
            return found
        producer.begin()
        producer.produce(topic, [(MAP_KEY, wanted.to_bytes(), 0)], {})
        producer.commit()
    except PublisherReplaced as error:
        raise CheckpointUnavailable(
            f"another publisher writes the first map into topic {topic}: it is read again"
        ) from error
    finally:
        producer.close()
    _log.info("shards_mapped", topic=topic, shards=wanted.shards, pinned=dict(wanted.pinned))
    return wanted


def _check_same(topic: str, found: ShardMap, wanted: ShardMap) -> None:
    if found.is_divided_as(wanted):
        return
    raise ShardsDiffer(
        f"the tables are divided differently than publisher.shards says: topic {topic} has"
        f" {_describe(found)}, the configuration {_describe(wanted)}. Fix: give all publishers"
        " the same configuration: that of the topic, or the new one after tailrace reshard"
    )


def _describe(found: ShardMap) -> str:
    pinned = ", ".join(f"{topic} to {shard}" for topic, shard in sorted(found.pinned.items()))
    return f"{found.shards} shards, {f'{pinned} pinned' if pinned else 'none pinned'}"
