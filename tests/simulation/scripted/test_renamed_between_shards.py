"""A renamed table whose new name is of another shard: both shards know what it was."""

from __future__ import annotations

from itertools import count

import pytest

from tailrace_publisher.daemon.offline.reshard import reshard
from tailrace_publisher.daemon.shards.agreed_map import agreed_map
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_schemas.records.shards import Shard
from tailrace_schemas.topics.topic_names import TableName
from tests.simulation.scripted.resting import RestingModel

SHARDS = 2


def moved(policy: str) -> tuple[RestingModel, PublisherConfig, list[Shard], TableName, TableName]:
    """A model in which a table has a name of the other shard since the publishers were ended."""
    model = RestingModel(tables={"on_rename": policy})
    config = PublisherConfig.load({**model.options, "shards": {"count": SHARDS}})
    reshard(config, model.ports())
    found = agreed_map(config, model.ports())
    shards = [Shard(number, found) for number in range(SHARDS)]
    for shard in shards:
        model.run(config, shard)
    database = model.sim.group.database
    table = next(t for t in database.tables.values() if database.instances_of(t.object_id))
    old = TableName(config.source.database, "dbo", table.name)
    owner = found.shard_of(config.topics.data(old))
    table.called = next(
        name
        for name in (f"renamed_{number}" for number in count())
        if found.shard_of(config.topics.data(TableName(old.database, "dbo", name))) != owner
    )
    new = TableName(old.database, "dbo", table.called)
    return model, config, [shards[owner], shards[1 - owner]], old, new


@pytest.mark.parametrize("first", [0, 1])
def test_it_stops_by_name_in_both_shards(first: int):
    model, config, shards, old, new = moved("stop")

    for shard in (shards[first], shards[1 - first], shards[first]):
        model.run(config, shard)

    owner, other = (model.stored(config, shard) for shard in shards)
    assert f"was published as {old}" in owner.stopped[old]
    assert f"{new} was published as {old}" in other.stopped[new]
    topic = model.sim.broker.topics[config.topics.data(new)]
    assert not any(partition.entries for partition in topic.partitions)


@pytest.mark.parametrize("first", [0, 1])
def test_it_keeps_its_topic_and_its_shard_by_option(first: int):
    model, config, shards, old, new = moved("keep_topic")

    for shard in (shards[first], shards[1 - first], shards[first]):
        model.run(config, shard)

    owner, other = (model.stored(config, shard) for shard in shards)
    assert old in owner.tables
    assert owner.stopped == other.stopped == {}
    assert other.tables.keys().isdisjoint({old, new})
    assert config.topics.data(new) not in model.sim.broker.topics
