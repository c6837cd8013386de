"""Publishers that share the shards of a database through Kafka's consumer group."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

import httpx
import pytest
from confluent_kafka.admin import AdminClient

from tailrace.reading.progress import last_record
from tailrace.settings.settings import Settings
from tailrace.web.run import WebOptions, serving
from tailrace_publisher.daemon.adapters.production import kafka_at, production_ports
from tailrace_publisher.daemon.offline.accept_database import accept_database
from tailrace_publisher.daemon.offline.reshard import reshard
from tailrace_publisher.daemon.shards.agreed_map import agreed_map
from tailrace_publisher.deliver.topics import TopicAdmin
from tailrace_publisher.errors import (
    ConfigError,
    DeliveryRejected,
    PublisherError,
    ReshardRefused,
    ShardsDiffer,
)
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.records.shards import Shard, ShardMap
from tailrace_schemas.records.signals import SnapshotSignal
from tailrace_service.status import DaemonStatus
from tailrace_sink.options.batch_bound import Bound
from tailrace_sink.plan.batch_plan import plan_batch
from tailrace_sink.plan.cut_plan import plan_cut
from tailrace_sink.plan.progress_groups import Backlog
from tailrace_sink.plan.progress_record import ProgressRecord
from tailrace_sink.plan.sink_state import SinkState
from tests.pipeline.conftest import Pipe
from tests.pipeline.daemon.interrupted_reshard import kill_reshard
from tests.pipeline.daemon.test_shards import (
    TABLES,
    assert_ledger,
    assert_whole,
    is_caught_up,
    progress_of,
    shop,  # noqa: F401 - a fixture
)
from tests.pipeline.operate.test_endpoint import url_of
from tests.pipeline.operate.test_signals import write
from tests.pipeline.running import Running, live_until_killed, wait_until

pytestmark = pytest.mark.kafka

SHARDS: Final = {"count": 3, "pinned": {f"dbo.{table}": n for n, table in enumerate(TABLES)}}
_TAKEN_UP_S: Final = 15.0


@contextmanager
def load(pipe: Pipe) -> Iterator[None]:
    """Rows are written and captured while the block runs."""
    source, stop = pipe.source, threading.Event()
    connection = source.server.connect(source.name)
    scanning = source.server.connect(source.name)

    def write() -> None:
        for number in itertools.count(100):
            if stop.is_set():
                return
            for table in TABLES:
                connection.execute(f"INSERT dbo.{table} VALUES ({number}, 0)")
            source.scan(scanning)
            stop.wait(0.3)

    thread = threading.Thread(target=write, name="load")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        connection.close()
        scanning.close()


def shards_of(pipe: Pipe) -> list[Shard]:
    found = pipe.config(shards=SHARDS).shard_map
    return [Shard(number, found) for number in range(found.shards)]


def has_all(pipe: Pipe, lsn: Lsn) -> bool:
    """Whether every shard is out up to an LSN."""
    found = last_record(pipe.topics.bootstrap, pipe.topics.names)
    return found is not None and Lsn.parse(found.closed_lsn) >= lsn


def status(client: httpx.Client) -> DaemonStatus:
    return DaemonStatus.from_json(client.get("/status").json())


@pytest.mark.slow("publishers start, are killed and divide shards between them, under load")
def test_publishers_come_and_go_and_are_killed_under_load(shop: Pipe):  # noqa: F811
    config = shop.config(shards=SHARDS, metrics_port=0)
    with Running(config) as first:
        client = httpx.Client(base_url=url_of(first), trust_env=False)
        first.until(lambda: is_caught_up(shop, 3), "one has all shards")
        assert len(first.told("shard_taken")) == 3
        with load(shop):
            live_until_killed(shop.options(shards=SHARDS), "sent", 5)
            began, lsn = time.monotonic(), shop.source.max_lsn()
            assert len(first.told("shard_left")) >= 1
            first.until(lambda: has_all(shop, lsn), "its shards go on", _TAKEN_UP_S)
            assert time.monotonic() - began < _TAKEN_UP_S
            with Running(config) as second:
                second.until(lambda: bool(second.told("shard_taken")), "one goes over")
                first.until(lambda: status(client).figures["shards_here"] == 2, "it is told")
                assert_page(shop, first, second)
            lsn = shop.source.max_lsn()
            first.until(lambda: has_all(shop, lsn), "it was given back")
        first.until(lambda: is_caught_up(shop, 3), "all is out")
        found = status(client)
        assert (found.state, found.figures["shards_here"]) == ("running", 3)
        assert [table.table for table in found.tables] == [f"dbo.{table}" for table in TABLES]
        assert found.closed_lsn is not None
        metrics = client.get("/metrics").text
        assert all(f'tailrace_up{{shard="{number}"}} 1.0' in metrics for number in range(3))
        client.close()
    assert_whole(shop, shards_of(shop))
    assert_cuts(shop, 3)


def assert_page(pipe: Pipe, *publishers: Running) -> None:
    """The page that is given every publisher's address shows them as one that has all shards."""
    options = WebOptions(every_s=0.2, publisher_urls=tuple(map(url_of, publishers)))
    settings = Settings(pipe.options(shards=SHARDS), {})
    with (
        serving(settings, options) as url,
        httpx.Client(base_url=url, trust_env=False, timeout=30) as page,
    ):
        seen: dict[str, Any] = {}

        def is_whole() -> bool:
            answer = page.get("/model.json")
            if answer.status_code == httpx.codes.SERVICE_UNAVAILABLE:  # The first look is not over.
                return False
            seen.update(answer.json())
            told = seen["publisher"]
            return bool(told["figures"]["shards_here"] == 3 and told["state"] == "running")

        publishers[0].until(is_whole, "both are asked")
        names = [f"dbo.{table}" for table in TABLES]
        assert [table["table"] for table in seen["publisher"]["tables"]] == names
        assert {row["state"] for row in seen["rows"]} == {"followed"}
        assert seen["publisher"]["closed_lsn"] is not None


def map_in_time(config: PublisherConfig) -> ShardMap:
    """The map, as publishers that start together come to agree on it."""
    for _ in range(20):
        try:
            return agreed_map(config, production_ports())
        except PublisherError as error:
            if not error.retryable:
                raise
    raise AssertionError("no map")


def test_a_map_that_differs_is_refused_with_the_fix(pipe: Pipe):
    pipe.source.execute("CREATE TABLE dbo.t (id int PRIMARY KEY)")
    pipe.source.enable("t")
    config = pipe.config(shards={"count": 2})
    with ThreadPoolExecutor(4) as threads:
        agreed = list(threads.map(lambda _: map_in_time(config), range(4)))
    assert agreed == [ShardMap(1, 2)] * 4
    with Running(config) as publisher:
        publisher.until(lambda: is_caught_up(pipe), "it is published in two shards")
    refused: dict[str, dict[str, Any]] = {
        "has 2 shards, none pinned, the configuration 4 shards": {"count": 4},
        "t to 1 pinned": {"count": 2, "pinned": {"dbo.t": 1}},
        "set publisher.shards.count to 2": {"count": 1},
    }
    for said, shards in refused.items():
        with Running(pipe.config(shards=shards)) as publisher:
            error = publisher.ended()
        assert isinstance(error, DeliveryRejected if shards["count"] == 1 else ShardsDiffer)
        assert said in str(error)
        assert "tailrace reshard" in str(error)


@pytest.mark.slow("ten publishers start and end around a reshard")
def test_what_one_has_published_goes_to_shards_by_reshard(shop: Pipe):  # noqa: F811
    source, sharing = shop.source, shop.config(shards={**SHARDS, "count": 3})
    with pytest.raises(ReshardRefused, match="nothing is published"):
        reshard(sharing)
    with Running(shop.config()) as publisher:
        publisher.until(shop.is_caught_up, "it is published by one")
        write(shop, SnapshotSignal(("dbo.nowhere",)).to_bytes())
        publisher.until(lambda: bool(publisher.told("signal_refused")), "a signal is taken")
        source.execute(*(f"INSERT dbo.{table} VALUES (4, 4)" for table in TABLES))
        publisher.until(shop.is_caught_up, "the changes are out")
    with Running(sharing) as publisher:
        error = publisher.ended()
    assert isinstance(error, ShardsDiffer)
    assert "stop the publisher and run tailrace reshard" in str(error)
    with pytest.raises(ReshardRefused, match="already divided"):
        reshard(shop.config())
    before = progress_of(shop, 0)[-1]
    assert before.shards == 1
    source.execute(*(f"UPDATE dbo.{table} SET v = 5 WHERE id = 4" for table in TABLES))
    # Killed when one topic has its partitions and the other not, and when all is written and
    # nothing committed: nobody publishes until it is run again.
    kill_reshard(shop.options(shards=SHARDS), "create_partitions", 2)
    with Running(shop.config()) as publisher:
        assert "run tailrace reshard" in str(publisher.ended())
    kill_reshard(shop.options(shards=SHARDS), "commit_transaction")
    with Running(sharing) as publisher:
        assert "run tailrace reshard" in str(publisher.ended())
    assert progress_of(shop, 0)[-1] == before
    done = reshard(sharing)
    assert (done.tables, done.moved, str(done.closed_lsn)) == ((1, 1, 1), 2, before.closed_lsn)
    closing = [progress_of(shop, number)[-1] for number in range(3)]
    assert {(record.closed_lsn, record.shards) for record in closing} == {(before.closed_lsn, 3)}
    assert {record.closed_commit_ms for record in closing} == {before.closed_commit_ms}
    with Running(shop.config()) as publisher:
        assert "set publisher.shards.count to 3" in str(publisher.ended())
    with Running(sharing) as publisher:
        publisher.until(lambda: is_caught_up(shop, 3), "they go on")
        assert len(publisher.told("checkpoint_found")) == 3
        assert not publisher.told("signal_refused")  # it was taken before
    (shard, *_) = accept_database(sharing).shards
    assert shard.lost.through == shop.source.max_lsn()
    with Running(sharing) as publisher:
        publisher.until(lambda: len(publisher.told("checkpoint_found")) == 3, "all go on with it")
    for number in range(3):
        records = [record for record in progress_of(shop, number) if record.shards == 3]
        topics = {part.topic for record in records for part in record.partitions}
        assert topics == {shop.topic(TABLES[number])}
    assert_ledger(shop, 3)
    assert_cuts(shop, 3)
    admin = TopicAdmin(kafka_at(shop.topics.bootstrap), None, 10)
    delete_topic(shop, shop.topics.names.control)
    wait_until(lambda: admin.partitions(shop.topics.names.control) is None, "it is gone")
    with pytest.raises(ReshardRefused, match="has lost its map"):
        reshard(shop.config(shards={"count": 4}))


def delete_topic(pipe: Pipe, topic: str) -> None:
    client = AdminClient({"bootstrap.servers": pipe.topics.bootstrap})
    client.delete_topics([topic])[topic].result(10)


@pytest.mark.slow("four publishers start and end around a reshard")
def test_reshard_is_refused_while_shards_are_not_at_rest(shop: Pipe):  # noqa: F811
    with Running(shop.config(shards={"count": 2})) as publisher:
        publisher.until(lambda: is_caught_up(shop), "it is published in two shards")
    with pytest.raises(ReshardRefused, match="Kafka cannot remove partitions"):
        reshard(shop.config())
    two = ShardMap(1, 2)
    shop.source.execute("INSERT dbo.t0 VALUES (4, 4)")
    shop.source.scan()
    with Running(shop.config(), Shard(0, two)) as publisher:
        publisher.until(
            lambda: Lsn.parse(progress_of(shop, 0)[-1].closed_lsn) >= shop.source.max_lsn(),
            "one goes ahead",
        )
    with pytest.raises(ReshardRefused, match="different closed LSNs"):
        reshard(shop.config(shards=SHARDS))
    with Running(shop.config(shards={"count": 2})) as publisher:
        publisher.until(lambda: is_caught_up(shop), "the other follows")
    assert reshard(shop.config(shards=SHARDS)).after == replace(
        shop.config(shards=SHARDS).shard_map, number=2
    )
    with Running(shop.config(shards=SHARDS)) as publisher:
        publisher.until(lambda: is_caught_up(shop, 3), "three go on")
    assert_ledger(shop, 3)


def assert_cuts(pipe: Pipe, shards: int) -> None:
    """Whatever part of the records is there: the sink's cut is at what all shards have closed."""
    records = [
        ProgressRecord(number, offset, progress, b"")
        for number in range(shards)
        for offset, progress in enumerate(progress_of(pipe, number))
    ]
    chance = random.Random(7)
    for _ in range(8):
        ends = [chance.randint(0, len(records)) for _ in range(shards)]
        part = [record for record in records if record.offset < ends[record.partition]]
        state, names = SinkState(), pipe.topics.names
        cut = plan_cut(state, {}, Backlog.of(state, part), names, Bound(1 << 60))
        if cut is None:
            continue
        newest = {record.partition: record.progress for record in part}
        told = max(progress.shards for progress in newest.values())
        if len(newest) < told:
            assert cut.following.closed_lsn == ""
        else:
            assert cut.following.closed_lsn == min(of.closed_lsn for of in newest.values())
        plan = plan_batch(state, Backlog.of(state, part), names, Bound(1 << 60))
        assert ("" if plan is None else plan.following.closed_lsn) == cut.following.closed_lsn


@pytest.mark.parametrize(
    ("shards", "said"),
    [
        ({"count": 0}, "greater than or equal to 1"),
        ({"count": 2, "pinned": {"dbo.t": 2}}, "the numbers are 0 to 1"),
        ({"count": 2, "pinned": {"t": 1}}, "name tables as schema.table"),
    ],
)
def test_options_that_fit_nothing_are_refused(pipe: Pipe, shards: dict[str, Any], said: str):
    with pytest.raises(ConfigError, match=said):
        PublisherConfig.load(pipe.options(shards=shards))
