"""What a member of a fleet does when its group or one of its databases meets trouble.

The members of the group are played; the brokers are those of the model.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from confluent_kafka import KafkaError, KafkaException
from prometheus_client import generate_latest
from structlog.testing import capture_logs

from tailrace.settings.load import load
from tailrace_publisher.daemon.adapters.production import production_ports
from tailrace_publisher.daemon.process.databases_endpoint import routes_of_all
from tailrace_publisher.daemon.process.loop import run
from tailrace_publisher.daemon.process.one_database import OneDatabase
from tailrace_publisher.daemon.process.separate_databases import problems_of
from tailrace_publisher.errors import ConfigError, DeliveryRejected, KafkaUnavailable
from tailrace_publisher.metrics.publisher_metrics import Metrics
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_publisher.runtime import OnStep, Runtime, Step
from tests.least_options import LEAST
from tests.simulation.building import build
from tests.simulation.drawing import draw
from tests.simulation.inline import InlineExecutor, Lane
from tests.simulation.kafka.clients import Clients
from tests.simulation.ports import make_ports
from tests.simulation.world import World

_POLLS_MAX = 10_000
TOPIC = "sim.offsets"
JOIN = {"join": True}


@dataclass
class Member:
    """A member of the group, to which some partitions are assigned at once."""

    pass_time: Callable[[float], None]
    assigned: list[tuple[str, int]] = field(default_factory=lambda: [(TOPIC, 0)])
    on_assign: Any = None
    polls: int = 0
    paused: int = 0

    def subscribe(self, topics: list[str], *, on_assign: Any, **__: Any) -> None:
        assert topics == [TOPIC]
        self.on_assign = on_assign

    def poll(self, wait_s: float) -> Any:
        self.polls += 1
        assert self.polls < _POLLS_MAX
        if self.polls == 1:
            found = [SimpleNamespace(topic=t, partition=n) for t, n in self.assigned]
            self.on_assign(self, found)
        self.pass_time(wait_s)
        return None

    def incremental_assign(self, partitions: list[Any]) -> None:
        assert len(partitions) == len(self.assigned)

    def pause(self, partitions: list[Any]) -> None:
        self.paused += len(partitions)

    def close(self) -> None:
        """There is nothing to close."""


@dataclass
class LeavingMember(Member):
    """One that the group throws out after it has given the database, at a time that is kept."""

    thrown_out: Callable[[], None] = lambda: None

    def poll(self, wait_s: float) -> Any:
        super().poll(wait_s)
        if self.polls > 1:
            self.thrown_out()
            raise KafkaException(KafkaError(KafkaError._TRANSPORT, retriable=True))


def run_member(
    stop: threading.Event,
    join: Callable[[World], Member],
    connect: Callable[[Any], Any] = lambda _: None,
    on_step: OnStep = lambda _: None,
) -> None:
    """Run a member of a fleet with one database; each life of its publisher runs inline."""
    scenario = draw(1)
    sim = build(scenario)
    sim.source.tick = lambda: None
    clients = Clients(sim.broker, sim.world, lambda: None, sim.faults)

    def connected(source: Any) -> Any:
        connect(source)
        return sim.source.connect(source)

    ports = replace(
        make_ports(sim.source, clients, sim.schemas, sim.world, lambda: None, Lane()),
        executor=lambda _: InlineExecutor(),
        join=lambda _: join(sim.world),  # type: ignore[arg-type,return-value]
        connect=connected,
    )
    config = PublisherConfig.load({**scenario.options, "fleet": JOIN})
    run(config, stop, ports=ports, on_step=on_step)
    assert TOPIC in sim.broker.topics


def test_what_nobody_foresaw_costs_a_retry_of_its_database() -> None:
    stop, lives = threading.Event(), []

    def connect(_: Any) -> None:
        lives.append(1)
        if len(lives) == 3:
            stop.set()
        raise RuntimeError("a fault of ours")

    with capture_logs() as logs:
        run_member(stop, lambda world: Member(world.advance), connect)

    assert len(lives) == 3
    failed = [entry for entry in logs if entry["event"] == "database_failed"]
    assert {entry["error"] for entry in failed} == {"RuntimeError"}
    assert all("test_fleet" in entry["reason"] for entry in failed)


def test_a_database_that_published_makes_the_next_pause_the_shortest() -> None:
    stop, pauses, thrown_out = threading.Event(), list[float](), list[float]()

    def join(world: World) -> Member:
        pauses.extend(world.monotonic() - left for left in thrown_out[-1:])
        if len(pauses) == 6:
            stop.set()
        return LeavingMember(world.advance, thrown_out=lambda: thrown_out.append(world.monotonic()))

    def connect(_: Any) -> None:
        if len(pauses) < 5:
            raise RuntimeError("no life publishes yet")

    def on_step(step: Step) -> None:
        if step is Step.HEARTBEAT:
            raise RuntimeError("this life has published")

    with capture_logs():
        run_member(stop, join, connect, on_step)

    assert pauses[4] > 2
    assert pauses[5] < 1


def test_a_member_that_is_assigned_nothing_stands_by() -> None:
    stop = threading.Event()
    member: list[Member] = []

    def join(world: World) -> Member:
        def advance(seconds: float) -> None:
            world.advance(seconds)
            if member[0].polls == 50:
                stop.set()

        # A further partition is of a database that no member may publish.
        member.append(Member(advance, assigned=[(TOPIC, 1)]))
        return member[0]

    with capture_logs() as logs:
        run_member(stop, join, connect=lambda _: pytest.fail("it is published"))

    assert member[0].paused == 1
    assert not [entry for entry in logs if entry["event"] == "database_taken"]


def test_a_group_that_refuses_ends_the_member_with_the_fix() -> None:
    class RefusedMember(Member):
        def poll(self, wait_s: float) -> Any:  # noqa: ARG002 - it answers at once
            failure = KafkaError(KafkaError.INVALID_SESSION_TIMEOUT)
            return SimpleNamespace(error=lambda: failure)

    with (
        capture_logs(),
        pytest.raises(DeliveryRejected, match=r"Fix: set publisher\.fleet\.session_timeout_s"),
    ):
        run_member(threading.Event(), lambda world: RefusedMember(world.advance))


def databases_of(*names: str) -> list[OneDatabase]:
    found = []
    for name in names:
        config = PublisherConfig.load({**LEAST, "prefix": f"air.{name}", "fleet": JOIN})
        ports = replace(production_ports(), executor=lambda _: InlineExecutor())
        runtime = Runtime(config, ports, Metrics(), threading.Event(), lambda _: None)
        found.append(OneDatabase(name, runtime))
    return found


def test_databases_elsewhere_are_no_fault() -> None:
    databases = databases_of("a", "b")
    ready = routes_of_all(databases)["GET", "/ready"]
    health = routes_of_all(databases)["GET", "/health"]
    asked: Any = None
    assert ready.answer(asked).status == 503, "it has not joined yet"
    for one in databases:
        one.joined()
    answer = ready.answer(asked)
    assert (answer.status, answer.body) == (200, b"publishing none; elsewhere: a, b\n")
    assert health.answer(asked).body == b"ok\n"
    assert [one.status().state for one in databases] == ["elsewhere"] * 2
    assert b"tailrace_up" not in generate_latest(databases[0])
    assert not databases[0].request_start()

    databases[0].group_failed(KafkaUnavailable("no broker"))
    answer = ready.answer(asked)
    assert (answer.status, answer.body) == (503, b"not publishing, a is starting\n")
    assert databases[0].status().errors[0].error == "KafkaUnavailable"


CONFIGS: list[tuple[Mapping[str, Any], Mapping[str, Any], str]] = [
    ({"fleet": JOIN}, {"fleet": JOIN}, "tailrace-a, tailrace-b"),
    ({"fleet": JOIN}, {}, "the same fleet.join"),
    (
        {"fleet": {**JOIN, "group": "g"}},
        {"fleet": {**JOIN, "group": "g"}, "kafka": {"bootstrap": "other:9092"}},
        "differ in kafka.bootstrap",
    ),
]


@pytest.mark.parametrize(("one", "two", "said"), CONFIGS)
def test_databases_of_two_groups_are_refused(
    one: Mapping[str, Any], two: Mapping[str, Any], said: str
) -> None:
    configs = {
        name: PublisherConfig.load({**LEAST, "prefix": name, **options})
        for name, options in (("a", one), ("b", two))
    }
    (problem,) = problems_of(configs)
    assert said in problem


def test_a_member_with_one_of_several_databases_is_in_the_same_group(tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "prefix": "shop",
        **{name: LEAST[name] for name in ("kafka", "registry")},
        "publisher": {"source": {**LEAST["source"]}, "fleet": JOIN},
        "databases": {"Orders": None, "Crm": {"prefix": "crm"}},
    }
    file = tmp_path / "tailrace.yaml"
    file.write_text(yaml.safe_dump(options))
    settings = load(file, {})
    groups = {one.publisher().fleet_group for one in settings.databases.values()}
    assert groups == {"tailrace-shop"}
    assert settings.publishers()


def test_shards_are_refused_with_what_to_use() -> None:
    with pytest.raises(ConfigError, match=r"shards is not an option any more.*fleet\.join"):
        PublisherConfig.load({**LEAST, "shards": {"count": 2}})
