"""Two that would publish the same in the model: the one that must not is refused or fenced."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest

from tailrace_publisher.daemon.offline.own_record import (
    Rewrite,
    command_producer,
    own_key,
    rewrite_own_record,
)
from tailrace_publisher.encode.records import CheckpointEncoder
from tailrace_publisher.errors import ConfigError, DividedIntoShards, PublisherReplaced
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_publisher.runtime import database_topics, kafka_access
from tailrace_schemas.records.checkpoint import CheckpointKey
from tailrace_schemas.records.transactional_ids import older_transactional_id
from tests.simulation.scripted.resting import RestingModel


def test_a_publisher_of_an_earlier_release_is_fenced_under_its_own_id():
    world = RestingModel(prefix="sim-eu")
    config = PublisherConfig.load(world.options)
    older = older_transactional_id(config.prefix, config.source.database)
    with world.ports().registry(config.registry) as registry:
        topics = database_topics(config, world.ports(), registry)
        rewrite_own_record(
            config,
            topics,
            older,
            lambda _, own: Rewrite({own_key(topics): replace(own, map_number=None)}),
        )
    known = world.stored(config).database
    running = command_producer(config, kafka_access(config, world.ports()), older)
    running.init_transactions(10)
    running.begin()

    world.run(config, most=300)  # shorter than a transaction may be open

    with suppress(PublisherReplaced):  # told here, or with the commit
        running.produce(config.topics.offsets, [(b"k", b"v", 0)], {})
    with pytest.raises(PublisherReplaced):
        running.commit()
    found = world.stored(config).database
    assert found is not None
    assert found.map_number == 0
    assert found != known, "it sees that another publisher has taken over"


def test_a_second_database_under_a_prefix_is_refused_by_name():
    world = RestingModel()
    config = PublisherConfig.load(world.options)
    server, database = config.server_name, config.source.database
    own = world.stored(config).database
    assert own is not None
    producer = command_producer(config, kafka_access(config, world.ports()), "another")
    with world.ports().registry(config.registry) as registry:
        encoder = CheckpointEncoder(registry, config.topics.offsets)
        producer.init_transactions(10)
        producer.begin()
        others = encoder.key(CheckpointKey(server, "another")), encoder.value(own), 0
        gone = encoder.key(CheckpointKey(server, database)), None, 0
        producer.produce(config.topics.offsets, [others, gone], {})
        producer.commit()

    with pytest.raises(ConfigError, match="database another is published under prefix sim"):
        world.run(config)


def test_a_prefix_that_was_divided_into_shards_is_refused_by_name():
    world = RestingModel()
    config = PublisherConfig.load(world.options)
    known = world.stored(config).database
    world.sim.broker.grow(config.topics.offsets, 2)
    with pytest.raises(DividedIntoShards, match=r"sim\.offsets has 2 partitions.*another"):
        world.run(config)
    assert world.stored(config).database == known
