"""Publishers of two shards of one database: each its tables, once, and one ledger of both."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import Final

import pytest
from confluent_kafka import OFFSET_BEGINNING, KafkaException, TopicPartition

from tailrace.audit.audit import audit
from tailrace.reading.moments import Moment
from tailrace.reading.progress import decode, last_record
from tailrace.reading.tail import EventTail
from tailrace.reading.topics import Event, arrived, consumer_of
from tailrace_publisher.daemon.adapters.production import production_ports
from tailrace_publisher.daemon.shards.agreed_map import agreed_map
from tailrace_publisher.errors import DeliveryRejected, ShardsDiffer
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.records.progress import Progress
from tailrace_schemas.records.shards import Shard, ShardMap
from tailrace_schemas.records.signals import SnapshotSignal
from tailrace_service.registry.client import SchemaRegistry
from tests.pipeline.conftest import Pipe
from tests.pipeline.deliver.test_kafka_settings import make
from tests.pipeline.operate.test_signals import write
from tests.pipeline.running import Running, live_until_killed
from tests.pipeline.subscribe.subscribers import subscribed

pytestmark = pytest.mark.kafka

TABLES: Final = ["t0", "t1", "t2"]


@pytest.fixture
def shop(pipe: Pipe) -> Pipe:
    """Three tables of three rows, of which each shard has some."""
    for table in TABLES:
        pipe.source.execute(
            f"CREATE TABLE dbo.{table} (id int PRIMARY KEY, v int)",
            f"INSERT dbo.{table} VALUES (1, 0), (2, 0), (3, 0)",
        )
        pipe.source.enable(table)
    return pipe


@pytest.fixture
def shards(pipe: Pipe) -> tuple[Shard, Shard]:
    """The first table is of the first, the second of the second, the others by their names."""
    options = {"count": 2, "pinned": {"dbo.t0": 0, "dbo.t1": 1}}
    found = agreed_map(pipe.config(shards=options), production_ports())
    assert found == ShardMap(1, 2, {pipe.topic("t0"): 0, pipe.topic("t1"): 1})
    return Shard(0, found), Shard(1, found)


def is_caught_up(pipe: Pipe, shards: int = 2) -> bool:
    pipe.source.scan()
    try:
        if not has_begun(pipe, shards):  # before the look: it is of the shards that have a record
            return False
        found = last_record(pipe.topics.bootstrap, pipe.topics.names)
    except KafkaException:  # the topic is being made
        return False
    return (
        found is not None
        and not found.snapshotting
        and found.closed
        and Lsn.parse(found.closed_lsn) >= pipe.source.max_lsn()
    )


def has_begun(pipe: Pipe, shards: int) -> bool:
    """Whether every shard has sent a record."""
    where = [TopicPartition(pipe.topics.names.progress, number) for number in range(shards)]
    consumer = consumer_of(pipe.topics.bootstrap)
    try:
        return all(consumer.get_watermark_offsets(part, timeout=10)[1] for part in where)
    finally:
        consumer.close()


def progress_of(pipe: Pipe, partition: int) -> list[Progress]:
    """The records in a partition of the progress topic."""
    topic = pipe.topics.names.progress
    consumer = consumer_of(pipe.topics.bootstrap)
    try:
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=10)
        records, reached = [], 0
        while reached < end:
            for message in arrived(consumer, 0.2):
                reached = int(message.offset() or 0) + (message.error() is None)
                if message.error() is None:
                    records.append(decode(message.value() or b""))
        return records
    finally:
        consumer.close()


def assert_whole(pipe: Pipe, shards: Sequence[Shard]) -> None:
    """Every change once, each topic from its shard, and the ledger says so."""
    for table in TABLES:
        pipe.assert_exactly_once(table)
        reads = pipe.topics.snapshot(pipe.source.name, table)
        keys = Counter(event.envelope["after"]["id"] for event in reads if event.envelope)
        assert keys == Counter([1, 2, 3])
    for shard in shards:
        records = progress_of(pipe, shard.number)
        assert {record.shard for record in records} == {shard.number}
        topics = {part.topic for record in records for part in record.partitions}
        assert topics == {t for t in map(pipe.topic, TABLES) if shard.has(t)}
    shown = assert_ledger(pipe, len(shards))
    for shard in shards:
        commits = [event.position.commit_lsn for event in shown if shard.has(event.topic)]
        assert commits == sorted(commits)


def assert_ledger(pipe: Pipe, shards: int) -> list[Event]:
    """The ledger of all shards says that the topics are whole; their events, as they are shown."""
    with SchemaRegistry(pipe.topics.registry_url) as registry:
        found = audit(pipe.topics.bootstrap, pipe.topics.names, registry)
        tail = EventTail(pipe.topics.bootstrap, pipe.topics.names, registry)
        shown = list(tail.events([pipe.topic(table) for table in TABLES], Moment()))
    assert found.problems.texts == []
    assert set(found.topics) == set(map(pipe.topic, TABLES))
    assert len(shown) == sum(of.events for of in found.topics.values())
    closed = [progress_of(pipe, number)[-1].closed_lsn for number in range(shards)]
    assert found.closed_lsn == min(closed)
    subscribed(pipe, shown)
    return shown


@pytest.mark.slow("four publishers start and end")
def test_each_shard_publishes_its_tables(shop: Pipe, shards: tuple[Shard, Shard]):
    source = shop.source
    with Running(shop.config(), shards[0]) as first, Running(shop.config(), shards[1]) as second:
        first.until(lambda: is_caught_up(shop), "the snapshots are out")
        for table in TABLES:
            source.execute(f"UPDATE dbo.{table} SET v = 1", f"INSERT dbo.{table} VALUES (4, 4)")
        first.until(lambda: is_caught_up(shop), "the changes are out")
        assert not second.told("retrying")  # the log of both
        found = [entry["table"] for entry in second.told("capture_instance_found")]
        assert sorted(found) == [f"{source.name}.dbo.{table}" for table in TABLES]
    for table in TABLES:
        source.execute(f"DELETE dbo.{table} WHERE id = 4")
    with Running(shop.config(), shards[0]) as first, Running(shop.config(), shards[1]) as second:
        first.until(lambda: is_caught_up(shop), "they go on")
        assert len(second.told("checkpoint_found")) == 2
    assert_whole(shop, shards)


def test_a_table_that_is_captured_later_is_taken_in_by_its_shard(
    shop: Pipe, shards: tuple[Shard, Shard]
):
    with Running(shop.config(), shards[0]) as first, Running(shop.config(), shards[1]) as second:
        first.until(lambda: is_caught_up(shop), "the snapshots are out")
        shop.source.execute(
            "CREATE TABLE dbo.late (id int PRIMARY KEY)", "INSERT dbo.late VALUES (1)"
        )
        shop.source.enable("late")
        shop.source.execute("INSERT dbo.late VALUES (2)")
        owner = shards[0].map.shard_of(shop.topic("late"))
        first.until(
            lambda: (
                is_caught_up(shop) and len(shop.topics.state(shop.source.name, "late", "id")) == 2
            ),
            "it is out",
        )
        told = second.told("capture_instance_found")
        assert sum(entry["table"].endswith("dbo.late") for entry in told) == 1
    for shard in (0, 1):
        of_late = [
            part
            for record in progress_of(shop, shard)
            for part in record.partitions
            if part.topic == shop.topic("late")
        ]
        assert bool(of_late) is (shard == owner)
    shop.assert_exactly_once("late")


@pytest.mark.slow("publishers of a shard are killed three times, beside one of another")
def test_one_that_is_killed_holds_up_no_other_and_goes_on_where_it_was(
    shop: Pipe, shards: tuple[Shard, Shard]
):
    source = shop.source
    with Running(shop.config(), shards[0]) as first:
        with Running(shop.config(), shards[1]) as second:
            second.until(lambda: is_caught_up(shop), "the snapshots are out")
        for number in range(10, 13):
            for table in TABLES:
                source.execute(f"INSERT dbo.{table} VALUES ({number}, 0)")
            source.scan()
            live_until_killed(shop.options(), "sent", 1, shards[1])
            first.until(
                lambda: Lsn.parse(progress_of(shop, 0)[-1].closed_lsn) >= source.max_lsn(),
                "the other goes on",
            )
        with Running(shop.config(), shards[1]) as second:
            second.until(lambda: is_caught_up(shop), "it has caught up")
    assert_whole(shop, shards)


def test_signals_are_taken_by_the_shard_of_the_table(shop: Pipe, shards: tuple[Shard, Shard]):
    with Running(shop.config(), shards[0]) as first, Running(shop.config(), shards[1]) as second:
        first.until(lambda: is_caught_up(shop), "the snapshots are out")
        write(shop, SnapshotSignal((f"dbo.{TABLES[0]}", "dbo.nowhere")).to_bytes())
        first.until(lambda: len(second.told("signal_refused")) == 2, "the other is told by both")
        assert {entry["table"] for entry in second.told("signal_refused")} == {"dbo.nowhere"}
        first.until(
            lambda: (
                shop.source.scan() or len(shop.topics.snapshot(shop.source.name, TABLES[0])) == 6
            ),
            "it has a new snapshot",
        )
        assert len(second.told("snapshot_requested")) == 1


def test_the_newest_record_is_told_at_once(shop: Pipe, shards: tuple[Shard, Shard]):
    with Running(shop.config(), shards[0]) as first, Running(shop.config(), shards[1]):
        first.until(lambda: is_caught_up(shop), "the snapshots are out")
    begin = time.monotonic()
    assert last_record(shop.topics.bootstrap, shop.topics.names, timeout_s=60) is not None
    assert time.monotonic() - begin < 30  # not the time that an answer may take, twice


def test_topics_of_another_number_of_shards_are_refused(shop: Pipe, shards: tuple[Shard, Shard]):
    make(shop, shop.topics.names.offsets, cleanup_policy="compact")  # one partition
    with Running(shop.config(), shards[0]) as publisher:
        error = publisher.ended()
    assert isinstance(error, DeliveryRejected)
    assert "1 partitions, it must have 2, one for each shard" in str(error)


@pytest.mark.usefixtures("shards")
def test_a_publisher_of_all_tables_is_refused_where_there_is_a_map(shop: Pipe):
    with Running(shop.config()) as publisher:
        error = publisher.ended()
    assert isinstance(error, ShardsDiffer)
    assert "tailrace reshard has divided the tables" in str(error)
