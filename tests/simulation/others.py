"""Other publishers beside the one of the run: they run for some calls, and are killed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tailrace_publisher.daemon.process.loop import run as run_publisher
from tailrace_publisher.errors import PublisherError
from tailrace_publisher.metrics.publisher_metrics import Metrics
from tailrace_publisher.ports import Ports
from tests.simulation.inline import Lane
from tests.simulation.kafka.clients import Clients
from tests.simulation.ports import make_ports, new_stop
from tests.simulation.sqlserver.connection import Source
from tests.simulation.world import Finding, Killed

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation


@dataclass(slots=True)
class Others:
    """Who else runs, in the middle of a call of the publisher.

    Attributes:
        intrusions: how often something ran that takes our transactional id.
        takeovers: how often it published.
    """

    sim: Simulation
    intrusions: int = 0
    takeovers: int = 0
    _calls_left: int | None = None

    @property
    def is_running(self) -> bool:
        """Whether one of them runs now."""
        return self._calls_left is not None

    def run_another(self, calls: int) -> None:
        """Another publisher with our transactional id runs for so many calls, and dies.

        Raises:
            Finding: it ended by itself.
        """
        sim, before = self.sim, self.sim.published.records
        try:
            with self.beside(calls) as ports:
                run_publisher(sim.config, new_stop(), metrics=Metrics(), ports=ports)
        except PublisherError as error:
            if sim.excuses.is_of_another_line(error):
                sim.is_over = True  # an operator must see to it, as where the first ends with it
                sim.ends.append(error)
                sim.die()
            if not sim.excuses.is_due(error):
                raise Finding(
                    f"a second publisher ended by itself: {type(error).__name__}: {error}"
                ) from error
        finally:
            sim.told.sessions += 1  # the first one knows nothing of what the other has tried
        self.intrusions += 1
        self.takeovers += sim.published.records > before

    @contextmanager
    def beside(self, calls: int, source: Source | None = None) -> Iterator[Ports]:
        """Ports of something else that runs for so many calls, and is killed then.

        The publisher that runs already stands still meanwhile, in the middle of a call.

        Args:
            calls: how many.
            source: of what it reads; default: ours.
        """
        sim = self.sim
        lane, world = sim.lane, sim.world
        self._calls_left, sim.lane = calls, Lane()
        clients = Clients(sim.broker, world, sim.tick, sim.faults)
        try:
            with world.held():
                of = source or sim.source
                yield make_ports(of, clients, sim.schemas, world, sim.tick, sim.lane)
        except Killed:
            pass
        finally:
            self._calls_left, sim.lane = None, lane

    def tick(self) -> None:
        """A call of one of them: only the capture process and its threads go on."""
        assert self._calls_left is not None
        if self._calls_left <= 0:
            raise Killed
        self._calls_left -= 1
        self.sim.world.tick()
        if self._calls_left % 8 == 0:
            self.sim.scan(marks_time=False)
        self.sim.lane.run_next()
