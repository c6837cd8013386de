"""A model at rest, with everything published, beside which a test runs publishers of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tailrace_publisher.checkpoint.reader import Stored, read_checkpoints
from tailrace_publisher.daemon.process.loop import run as run_publisher
from tailrace_publisher.metrics.publisher_metrics import Metrics
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_publisher.ports import Ports
from tailrace_publisher.runtime import database_topics
from tests.simulation.building import build
from tests.simulation.drawing import draw
from tests.simulation.inline import Lane
from tests.simulation.kafka.clients import Clients
from tests.simulation.ports import make_ports, new_stop
from tests.simulation.scenario import Scenario
from tests.simulation.simulation import Simulation

SEED = 1
TURNS = 1000


class RestingModel:
    """A simulation whose publisher is at rest, with everything published, and ports to it."""

    def __init__(self, **options: Any) -> None:
        drawn = draw(SEED)
        around = replace(drawn.around, replicas=1, read_only=False)
        source = {**drawn.options["source"], "application_intent": "ReadWrite"}
        given = {**drawn.options, "source": source, "snapshot": {"mode": "initial"}, **options}
        self.sim: Simulation = build(Scenario(SEED, around, given, ()))
        self.sim.world.on_tick = lambda: None
        self.sim.broker.on_commit = lambda _: None
        self.options = given
        self.run(PublisherConfig.load(given))

    def ports(self, tick: Callable[[], None] = lambda: None) -> Ports:
        """Ports to the model, whose clock stands still for them."""
        sim = self.sim
        clients = Clients(sim.broker, sim.world, tick, sim.faults)
        return make_ports(sim.source, clients, sim.schemas, sim.world, tick, Lane())

    def run(self, config: PublisherConfig, most: int = TURNS) -> None:
        """Run a publisher for some turns, then stop it."""
        stop, turns, lane = new_stop(), 0, Lane()

        def tick() -> None:
            nonlocal turns
            turns += 1
            self.sim.world.tick()
            if turns % 8 == 0:
                self.sim.scan(marks_time=False)
            lane.run_next()
            if turns > most:
                stop.set()

        clients = Clients(self.sim.broker, self.sim.world, tick, self.sim.faults)
        sim = self.sim
        ports = make_ports(sim.source, clients, sim.schemas, sim.world, tick, lane)
        run_publisher(config, stop, metrics=Metrics(), ports=ports)

    def stored(self, config: PublisherConfig) -> Stored:
        """The checkpoint of all tables."""
        with self.ports().registry(config.registry) as registry:
            return read_checkpoints(database_topics(config, self.ports(), registry))
