"""A further life of a publisher in the model, whose source and topics already hold something."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tailrace_publisher.daemon.process.loop import run as run_publisher
from tailrace_publisher.metrics.publisher_metrics import Metrics
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_publisher.runtime import Step
from tests.simulation.actions import ACTIONS
from tests.simulation.building import build
from tests.simulation.drawing import draw
from tests.simulation.kafka.clients import Clients
from tests.simulation.ports import Lane, make_ports, new_stop
from tests.simulation.scenario import Scenario, Surroundings
from tests.simulation.simulation import Simulation
from tests.simulation.sqlserver.database import TIME_MARK

OPTIONS: dict[str, Any] = {
    "poll_interval_ms": 10,
    "heartbeat_s": 2,
    "page_rows": 1,
    "rows_per_transaction": 1000,
    "linger_ms": 150,
    "snapshot": {"mode": "initial"},
}


@dataclass(slots=True)
class Life:
    """A life, from a start to its stop.

    Attributes:
        sim: the world.
        ticks: calls of the publisher so far.
        metrics: its counts.
    """

    sim: Simulation
    ticks: int = 0
    metrics: Metrics = field(default_factory=Metrics)

    def live(
        self,
        options: Mapping[str, Any] = {},
        *,
        ticks_max: int = 4000,
        per_call: Callable[[], None] = lambda: None,
        on_step: Callable[[Step], None] = lambda _: None,
        is_over: Callable[[], bool] = lambda: True,
        is_whole: bool = True,
    ) -> None:
        """Publish until everything that is captured is closed, for so many calls at most.

        Args:
            options: further ones.
            ticks_max: the bound.
            per_call: happens at each call of the publisher.
            on_step: happens at each of its steps.
            is_over: what else is waited for.
            is_whole: whether everything that is captured is waited for.

        Raises:
            PublisherError: it ended.
        """
        sim, lane, stop = self.sim, Lane(), new_stop()
        self.ticks = 0

        def tick() -> None:
            self.ticks += 1
            sim.world.tick()
            if not stop.is_set():  # a scan after the end would be one that nobody publishes
                per_call()
            lane.run_next()
            if self.ticks > ticks_max or ((self.is_out or not is_whole) and is_over()):
                stop.set()

        sim.source.tick = tick
        clients = Clients(sim.broker, sim.world, tick, sim.faults)
        ports = make_ports(sim.source, clients, sim.schemas, sim.world, tick, lane)
        config = PublisherConfig.load({**sim.scenario.options, **options})
        run_publisher(config, stop, metrics=self.metrics, ports=ports, on_step=on_step)

    @property
    def captured(self) -> bytes:
        """The newest commit LSN that was captured; not a time mark that nothing follows yet."""
        entries = self.sim.group.database.mapping
        kept = entries[:-1] if entries and entries[-1].tran_id == TIME_MARK else entries
        return max((entry.start_lsn for entry in kept), default=bytes(10))

    @property
    def is_out(self) -> bool:
        """Whether everything that was captured is published and closed."""
        return self.sim.published.closed >= self.captured

    def retried(self) -> dict[str, float]:
        """How often the publisher began again, by the error's class."""
        return {
            sample.labels["error"]: sample.value
            for metric in self.metrics.retries.collect()
            for sample in metric.samples
            if sample.name.endswith("_total")
        }


def second_life(large_transactions: int, options: Mapping[str, Any] = {}) -> Life:
    """A publisher of four tables whose first life is over; large transactions came since.

    Args:
        large_transactions: how many.
        options: further ones.
    """
    around = Surroundings(
        1, False, False, 500, "all", True, True, "visible", True, True, None, False, 4
    )
    drawn = draw(1).options
    source = {**drawn["source"], "application_intent": "ReadWrite"}
    kafka = {**drawn["kafka"], "partitions": 1}
    sim = build(
        Scenario(7, around, {**drawn, **OPTIONS, "source": source, "kafka": kafka, **options}, ())
    )
    sim.told.listen()
    sim.run()
    sim.is_over = sim._dead = False
    sim.world.on_tick = lambda: None
    change_rows(sim, large_transactions)
    return Life(sim)


def change_rows(sim: Simulation, large_transactions: int) -> None:
    """Large transactions at the source, which are captured."""
    for number in range(large_transactions):
        ACTIONS["large_transaction"](sim, random.Random(500 + number))
    sim.scan(marks_time=True)
