"""What a publisher of several shards does when one of them meets what nobody foresaw.

The members of the group are played; the brokers are those of the model.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from structlog.testing import capture_logs

from tailrace_publisher.daemon.process.loop import run
from tailrace_publisher.daemon.process.sharing import SharingPublisher
from tailrace_publisher.errors import ShardsDiffer
from tailrace_publisher.metrics.publisher_metrics import Metrics
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_publisher.options.snapshots import SnapshotConfig, SnapshotMode
from tailrace_publisher.runtime import OnStep, Runtime, Step
from tailrace_schemas.records.shards import Shard
from tests.simulation.building import build
from tests.simulation.drawing import draw
from tests.simulation.kafka.clients import Clients
from tests.simulation.ports import InlineExecutor, Lane, make_ports
from tests.simulation.world import World

_POLLS_MAX = 10_000


@dataclass
class Member:
    """A member of the group, to which some shards are assigned at once."""

    assigned: list[int]
    pass_time: Callable[[float], None]
    on_assign: Any = None
    polls: int = 0

    def subscribe(self, _: list[str], *, on_assign: Any, **__: Any) -> None:
        self.on_assign = on_assign

    def poll(self, wait_s: float) -> None:
        self.polls += 1
        assert self.polls < _POLLS_MAX
        if self.polls == 1:
            self.on_assign(self, [SimpleNamespace(partition=n) for n in self.assigned])
        self.pass_time(wait_s)

    def incremental_assign(self, partitions: list[Any]) -> None:
        assert partitions

    def close(self) -> None:
        """There is nothing to close."""


@dataclass
class LeavingMember(Member):
    """One that the group throws out after it has given the shards, at a time that is kept."""

    thrown_out: Callable[[], None] = lambda: None

    def poll(self, wait_s: float) -> None:
        super().poll(wait_s)
        if self.polls > 1:
            self.thrown_out()
            raise KafkaException(KafkaError(KafkaError._TRANSPORT, retriable=True))


def sharing(
    assigned: list[int],
    stop: threading.Event,
    connect: Callable[[Any], Any] | None = None,
    join: Callable[[World], Member] | None = None,
    on_step: OnStep = lambda _: None,
) -> SharingPublisher:
    """A publisher of two shards, to which some are assigned; each life runs inline."""
    scenario = draw(1)
    sim = build(replace(scenario, around=replace(scenario.around, shards=1)))
    sim.source.tick = lambda: None
    clients = Clients(sim.broker, sim.world, lambda: None, sim.faults)

    def joined(_: Any) -> Any:
        return Member(assigned, sim.world.advance) if join is None else join(sim.world)

    ports = replace(
        make_ports(sim.source, clients, sim.schemas, sim.world, lambda: None, Lane()),
        executor=lambda _: InlineExecutor(),
        join=joined,
    )

    def connected(source: Any) -> Any:
        if connect is not None:
            connect(source)
        return sim.source.connect(source)

    ports = replace(ports, connect=connected)
    config = PublisherConfig.load({**scenario.options, "shards": {"count": 2}})
    return SharingPublisher(Runtime(config, ports, Metrics(), stop, on_step))


def test_what_nobody_foresaw_costs_a_retry_of_its_shard() -> None:
    stop = threading.Event()
    lives = []

    def connect(_: Any) -> Any:
        lives.append(1)
        if len(lives) == 3:
            stop.set()
        raise RuntimeError("a fault of ours")

    with capture_logs() as logs:
        sharing([1], stop, connect).run()

    assert len(lives) == 3
    failed = [entry for entry in logs if entry["event"] == "shard_failed"]
    assert {(entry["shard"], entry["error"]) for entry in failed} == {(1, "RuntimeError")}
    assert all("test_sharing" in entry["reason"] for entry in failed)


def test_a_shard_that_published_makes_the_next_pause_the_shortest() -> None:
    stop, pauses, thrown_out = threading.Event(), list[float](), list[float]()

    def join(world: World) -> Member:
        pauses.extend(world.monotonic() - left for left in thrown_out[-1:])
        if len(pauses) == 6:
            stop.set()
        return LeavingMember(
            [1], world.advance, thrown_out=lambda: thrown_out.append(world.monotonic())
        )

    def connect(_: Any) -> None:
        if len(pauses) < 5:
            raise RuntimeError("no life publishes yet")

    def on_step(step: Step) -> None:
        if step is Step.HEARTBEAT:
            raise RuntimeError("this life has published")

    with capture_logs():
        sharing([1], stop, connect, join, on_step).run()

    assert pauses[4] > 2
    assert pauses[5] < 1


def test_more_partitions_than_shards_are_refused_with_a_fix() -> None:
    stop = threading.Event()

    def connect(_: Any) -> Any:
        raise RuntimeError("a fault of ours")

    with pytest.raises(ShardsDiffer, match=r"partition 3.*2 shards.*Fix: start"):
        sharing([1, 3], stop, connect).run()


def test_a_shard_without_tables_is_over_where_only_snapshots_are_wanted() -> None:
    scenario = draw(1)
    sim = build(replace(scenario, around=replace(scenario.around, shards=2)))  # the last has all
    stop, calls = threading.Event(), 0

    def tick() -> None:
        nonlocal calls
        calls += 1
        if calls > _POLLS_MAX:
            stop.set()

    clients = Clients(sim.broker, sim.world, tick, sim.faults)
    sim.source.tick = tick
    ports = make_ports(sim.source, clients, sim.schemas, sim.world, tick, Lane())
    config = sim.config.model_copy(
        update={"snapshot": SnapshotConfig(mode=SnapshotMode.INITIAL_ONLY)}
    )

    run(config, stop, ports=ports, shard=Shard(0, sim.shard.map))

    assert not stop.is_set(), "it ended by itself"
