"""Two that would publish the same in the model: the one that must not is refused or fenced."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

import pytest

from tailrace_publisher.daemon.offline.reshard import reshard
from tailrace_publisher.daemon.shards.agreed_map import agreed_map, command_producer
from tailrace_publisher.daemon.shards.own_record import Rewrite, own_key, rewrite_own_record
from tailrace_publisher.deliver.producer import TransactionalProducer
from tailrace_publisher.encode.records import CheckpointEncoder
from tailrace_publisher.errors import ConfigError, OutcomeUnknown, PublisherReplaced, ShardsDiffer
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_publisher.runtime import database_topics, kafka_access
from tailrace_schemas.records.checkpoint import CheckpointKey
from tailrace_schemas.records.shards import Shard, older_transactional_id
from tests.simulation.ports import replaced
from tests.simulation.scripted.resting import RestingModel


@contextmanager
def before_the_first_id(happens: Callable[[], None]) -> Iterator[None]:
    """Have something happen before the first transactional id is taken, after the topics' check."""
    take, done = TransactionalProducer.init_transactions, False

    def taken(self: TransactionalProducer, timeout_s: float) -> None:
        nonlocal done
        if not done:
            done = True
            happens()
        take(self, timeout_s)

    with replaced(TransactionalProducer, "init_transactions", taken):
        yield


def test_a_reshard_between_a_start_and_its_transactional_id_ends_the_start():
    world = RestingModel()
    one = PublisherConfig.load(world.options)
    two = PublisherConfig.load({**world.options, "shards": {"count": 2}})
    with (
        before_the_first_id(lambda: reshard(two, world.ports()) and None),
        pytest.raises(ShardsDiffer, match="tailrace reshard has divided"),
    ):
        world.run(one)

    divided = agreed_map(two, world.ports())
    for number in range(2):
        world.run(two, Shard(number, divided))
    assert world.stored(two).database.map_number == divided.number == 1


@pytest.mark.parametrize("shards", [1, 2])
def test_a_reshard_aborts_what_an_unanswered_one_left_open(shards: int):
    world = RestingModel()
    kafka = {**world.options["kafka"], "transaction_timeout_s": 300, "commit_timeout_s": 1}
    options = {**world.options, "kafka": kafka}
    of = [PublisherConfig.load({**options, "shards": {"count": n}}) for n in range(1, 4)]
    for config in of[1:shards]:
        reshard(config, world.ports())
    world.sim.faults.commits += ["late"] * 2
    with pytest.raises(OutcomeUnknown):
        reshard(of[shards], world.ports())

    began = world.sim.world.monotonic()
    assert reshard(of[shards], world.ports()).after.shards == shards + 1
    assert world.sim.world.monotonic() - began < 30


def test_a_checkpoint_of_another_map_is_refused_though_the_control_topic_is_not_seen_yet():
    world = RestingModel()
    one = PublisherConfig.load(world.options)
    two = PublisherConfig.load({**world.options, "shards": {"count": 2}})

    def divide() -> None:
        reshard(two, world.ports())
        del world.sim.broker.topics[two.topics.control]

    with before_the_first_id(divide), pytest.raises(ShardsDiffer):
        world.run(one)


def test_a_publisher_of_an_earlier_release_is_fenced_under_its_own_id():
    world = RestingModel(prefix="sim-eu")
    config = PublisherConfig.load(world.options)
    older = older_transactional_id(config.prefix, config.source.database, 1, 0)
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
