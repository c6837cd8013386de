"""Division of the published tables among more shards (ADR 0023), while no publisher runs.

The command first takes every transactional id of the old map, so a publisher that still runs is
fenced. Then it writes new records in *one* Kafka transaction: the map, a database record for every
shard, and the records of the tables that move. The transaction also has a progress record for every
shard, old and new. This record closes the closed LSN once more and has the new number of shards.

So the lake may run: after these records it closes no LSN until it has records of all shards. Before
that transaction the command only adds partitions. Publishers refuse topics whose partition count
differs from their map. So the command can run again, wherever it was interrupted.
"""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from typing import Any, cast

import structlog
from confluent_kafka import KafkaException
from confluent_kafka.admin import NewPartitions  # type: ignore[attr-defined]

from tailrace_publisher.change.ranges import is_closed
from tailrace_publisher.checkpoint.published import Published, check_whole, newest_published
from tailrace_publisher.checkpoint.reader import Stored, read_checkpoints
from tailrace_publisher.checkpoint.shard_map import read_map
from tailrace_publisher.daemon.adapters.production import production_ports
from tailrace_publisher.daemon.offline.reshard_plan import OldShard, Plan
from tailrace_publisher.daemon.shards.agreed_map import command_producer, wanted_map
from tailrace_publisher.daemon.shards.own_record import is_of_older_id
from tailrace_publisher.deliver.kafka_errors import translate
from tailrace_publisher.deliver.producer import TransactionalProducer
from tailrace_publisher.deliver.topics import TopicAdmin, control_spec
from tailrace_publisher.errors import CheckpointUnavailable, KafkaUnavailable, ReshardRefused
from tailrace_publisher.options.broker_waits import MARGIN_S, POLL_S
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_publisher.ports import KafkaAccess, Ports
from tailrace_publisher.runtime import DatabaseTopics, database_topics, kafka_access
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.records.checkpoint import DatabaseCheckpoint
from tailrace_schemas.records.shards import Shard, ShardMap, transactional_id
from tailrace_schemas.topics.topic_names import TopicNames

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Resharded:
    """The result of a reshard.

    Attributes:
        closed_lsn: LSN at which the tables move.
        tables: how many each shard has now.
        moved: how many of them have another shard than before.
    """

    before: ShardMap
    after: ShardMap
    closed_lsn: Lsn
    tables: tuple[int, ...]
    moved: int


def reshard(config: PublisherConfig, ports: Ports | None = None) -> Resharded:
    """Divide the published tables among the configured shards.

    Args:
        config: of the publishers; its ``shards`` is the new division.

    Raises:
        ReshardRefused: it is impossible, or not possible now; says what to do first.
        PublisherError, RegistryError: a system does not answer, or refuses.
    """
    ports = ports or production_ports()
    names, kafka = config.topics, kafka_access(config, ports)
    admin = TopicAdmin(kafka, config.kafka.replication_factor, config.kafka.start_timeout_s)
    present = admin.partitions(names.offsets)
    if present is None:
        raise ReshardRefused(
            f"nothing is published under prefix {names.prefix}. Fix: start the publishers, which"
            " divide the tables as publisher.shards says"
        )
    has_control = admin.partitions(names.control) is not None
    before = (_map_before(config, kafka) if has_control else None) or ShardMap()
    wanted = wanted_map(config)
    after = before.resharded(wanted.shards, wanted.pinned)
    _check_counts(before, after, names)
    with ports.registry(config.registry) as registry, ExitStack() as resources:
        first = database_topics(config, ports, registry, Shard(0, before))
        producers = []
        for number in range(before.shards):
            name = transactional_id(config.prefix, config.source.database, before.shards, number)
            producer = command_producer(config, kafka, name)
            resources.callback(producer.close)
            producer.init_transactions(config.kafka.start_timeout_s)
            producers.append(producer)
        old = [
            _old_shard(replace(first, shard=Shard(number, before)))
            for number in range(before.shards)
        ]
        _check_map_is_whole(first, before, present)
        closed_lsn = _common_lsn(old)
        admin.ensure([control_spec(names.control, after.shards)])
        for topic in (names.control, names.offsets, names.progress):
            _grow(config, admin, first, topic, after.shards)
        plan = Plan(first, after, old, closed_lsn)
        _write(producers[0], names, plan)
    _log.info("resharded", shards=after.shards, map=after.number, closed_lsn=str(closed_lsn))
    return Resharded(before, after, closed_lsn, plan.tables, plan.moved)


def _map_before(config: PublisherConfig, kafka: KafkaAccess) -> ShardMap | None:
    """Read the old map; if a transaction hides it, end that of an interrupted reshard first.

    Such a transaction stays open until kafka.transaction_timeout_s, if its commit was not answered.
    Its id depends on the old map, which it hides: that of a single shard, or the first of several.
    """
    topic, timeout_s = config.topics.control, config.kafka.start_timeout_s
    try:
        return read_map(kafka, topic, timeout_s)
    except CheckpointUnavailable as error:
        _log.warning("map_hidden", topic=topic, reason=str(error))
    for shards in (1, 2):
        name = transactional_id(config.prefix, config.source.database, shards, 0)
        with closing(command_producer(config, kafka, name)) as producer:
            producer.init_transactions(timeout_s)
    return read_map(kafka, topic)


def _check_counts(before: ShardMap, after: ShardMap, names: TopicNames) -> None:
    """Check that the new map differs and has enough shards.

    Raises:
        ReshardRefused: it is the same map, or has fewer shards.
    """
    if before.is_divided_as(after):
        raise ReshardRefused(
            f"the tables under prefix {names.prefix} are already divided as publisher.shards says,"
            f" into {before.shards} shards. Fix: set publisher.shards to the new division"
        )
    if after.shards < before.shards:
        raise ReshardRefused(
            f"publisher.shards.count is {after.shards}, but there are {before.shards} shards, and"
            " Kafka cannot remove partitions of topics. Fix: run fewer publishers instead; one can"
            " have all shards"
        )


def _old_shard(topics: DatabaseTopics) -> OldShard:
    """Return what a shard has published.

    Raises:
        ReshardRefused: it is not at rest.
        CheckpointLost: its checkpoint has lost its end.
    """
    stored, number = read_checkpoints(topics), topics.partition
    published = newest_published(topics)
    own = stored.database
    if own is None or published is None:
        raise ReshardRefused(
            f"shard {number} of database {topics.database} has published nothing under prefix"
            f" {topics.names.prefix}. Fix: check publisher.prefix, publisher.server_name and"
            " publisher.source.database, or let the publisher run until its first commit"
        )
    check_whole(topics, own, published)
    _check_at_rest(topics, stored, published)
    return OldShard(own, stored.tables, published)


def _check_at_rest(topics: DatabaseTopics, stored: Stored, published: Published) -> None:
    own, number = cast("DatabaseCheckpoint", stored.database), topics.partition
    if stored.older_keys or is_of_older_id(topics, own):
        raise ReshardRefused(
            "the checkpoint is in the form of an earlier release. Fix: let the publisher of this"
            " release run once, then stop it"
        )
    if not is_closed(own.position) or own.position.commit_lsn != own.closed_lsn:
        raise ReshardRefused(
            f"shard {number} stopped inside a source transaction ({own.position}). Fix: let the"
            " publisher run until the transaction is published, then stop it"
        )
    if published.snapshotting:
        raise ReshardRefused(
            f"shard {number} has tables that are not part of the cut:"
            f" {', '.join(published.snapshotting)}. Fix: let the publisher run until their"
            " snapshots are published; request new ones of stopped tables (tailrace snapshot), or"
            " exclude them"
        )


def _check_map_is_whole(topics: DatabaseTopics, before: ShardMap, present: int) -> None:
    """Check that no shard outside the map has published anything.

    Raises:
        ReshardRefused: one has, so the map is lost.
    """
    every = ShardMap(1, present)
    for number in range(before.shards, present):
        shard = replace(topics, shard=Shard(number, every))
        if read_checkpoints(shard).database is not None:
            raise ReshardRefused(
                f"topic {topics.names.control} has lost its map: {topics.names.offsets} holds the"
                f" checkpoint of shard {number}, but the map has {before.shards} shards. Fix:"
                " restore the topic; only its map shows which shard has which table"
            )


def _common_lsn(old: list[OldShard]) -> Lsn:
    """Return the closed LSN of all shards.

    Raises:
        ReshardRefused: the shards have different ones.
    """
    found = {shard.own.closed_lsn for shard in old}
    if len(found) > 1:
        lsns = ", ".join(f"{n}: {shard.own.closed_lsn}" for n, shard in enumerate(old))
        raise ReshardRefused(
            f"the shards have different closed LSNs ({lsns}). Fix: let the publishers catch up"
            " while nothing is written at the source, then stop them"
        )
    return found.pop()


def _grow(
    config: PublisherConfig, admin: TopicAdmin, topics: DatabaseTopics, topic: str, count: int
) -> None:
    """Add the partitions that a topic lacks, and wait until the brokers show them.

    Raises:
        KafkaUnavailable: the brokers did not do it in time.
        DeliveryError: the brokers refuse to add them.
    """
    present, timeout_s = admin.partitions(topic), config.kafka.start_timeout_s
    clock = topics.kafka.clock
    if present is not None and present > count:
        raise ReshardRefused(f"topic {topic} has {present} partitions, more than {count} shards")
    if present != count:
        client = cast("Any", topics.kafka.admin())  # the publisher itself never adds partitions
        results = client.create_partitions([NewPartitions(topic, count)], request_timeout=timeout_s)
        try:
            results[topic].result(timeout_s + MARGIN_S)
        except TimeoutError as error:
            raise KafkaUnavailable(f"adding partitions to topic {topic}: no answer") from error
        except KafkaException as error:
            raise translate(f"adding partitions to topic {topic}", error) from error
    deadline = clock.monotonic() + timeout_s
    while admin.ensure([control_spec(topic, count)])[topic] != count:
        if clock.monotonic() > deadline:
            raise KafkaUnavailable(f"topic {topic}: the new partitions are not there in time")
        clock.wait(POLL_S)


def _write(producer: TransactionalProducer, names: TopicNames, plan: Plan) -> None:
    checkpoints, progress = list(plan.checkpoints()), list(plan.progress())
    producer.begin()
    producer.produce(names.offsets, checkpoints, {})
    producer.produce(names.progress, progress, {})
    producer.produce(names.control, [plan.map_record()], {})
    producer.commit()
