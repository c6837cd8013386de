"""One run: the world of a scenario, and the real publisher in it.

Theory of operation:

1. The publisher runs in this thread (``run``). Each call of a port ticks the world (``tick``),
   which carries out the scenario's steps that are due (``on_tick``, ``actions``).
2. A publisher that is killed is started again. One that ends with an error must have an excuse
   (``excuses``); then an operator mends the cause, and starts it again.
3. After the last step everything is mended, and the publisher must catch up within a bounded
   number of calls, twice (``ending``).
4. What it published is judged by the model's own history (``judge``; called by ``checking``).

A run fails with a ``Finding`` (2 and 3) or ``Wrong`` (4).
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NoReturn

from tailrace_publisher.daemon.process.loop import run as run_publisher
from tailrace_publisher.errors import PublisherError
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_schemas.records.transactional_ids import transactional_id
from tests.simulation.actions import ACTIONS
from tests.simulation.ending import Ending
from tests.simulation.excuses import Excuses
from tests.simulation.inline import Lane
from tests.simulation.judge.logs import Told
from tests.simulation.judge.published import Published
from tests.simulation.kafka.broker import Broker
from tests.simulation.kafka.clients import Clients, KafkaFaults
from tests.simulation.kafka.registry import Schemas
from tests.simulation.lake import Lake
from tests.simulation.neighbours import Neighbours
from tests.simulation.others import Others
from tests.simulation.ports import few_rows, make_ports, new_stop, slow_pages
from tests.simulation.scenario import Scenario
from tests.simulation.signals import Signals
from tests.simulation.sqlserver import log as wal
from tests.simulation.sqlserver.connection import Source
from tests.simulation.sqlserver.group import Group
from tests.simulation.sqlserver.rows import Table
from tests.simulation.world import Finding, Killed, World

_ENDS_MAX: Final = 20
"""Some for each time that the only table is disabled, and some for each replica that lags."""
_ENDS_BEFORE_REPLICAS: Final = 6


@dataclass(slots=True)
class Simulation:
    """A run.

    Attributes:
        scenario: what happens.
        reserved: LSNs of changes of a transaction that is not committed yet.
        ends: errors with which the publisher ended, each of which was due.
        slow_calls: how many of the next calls take long.
        slow_s: how long, in seconds.
        lane: the publisher's threads, which run in turns with it.
        life_began: the tick of the last start.
    """

    scenario: Scenario
    world: World
    group: Group
    source: Source
    broker: Broker
    schemas: Schemas
    faults: KafkaFaults
    config: PublisherConfig
    published: Published
    told: Told
    excuses: Excuses = field(init=False)
    others: Others = field(init=False)
    neighbours: Neighbours = field(init=False)
    signals: Signals = field(init=False)
    lake: Lake = field(init=False)
    ending: Ending = field(init=False)
    reserved: list[bytes] = field(default_factory=list)
    ends: list[PublisherError] = field(default_factory=list)
    commit_utc: dict[tuple[int, bytes], datetime] = field(default_factory=dict)
    next_row: int = 1
    kill_in: int | None = None
    running_scan: Any = None
    is_capture_stopped: bool = False
    not_hardening: set[int] = field(default_factory=set)
    not_redoing: set[int] = field(default_factory=set)
    clock_steps: int = 0
    switches: int = 0
    first_record: int = 0
    slow_calls: int = 0
    slow_s: float = 0.0
    is_over: bool = False
    lane: Lane = field(default_factory=Lane)
    lanes: random.Random = field(default_factory=lambda: random.Random(0))
    lane_pace: float = 1.0
    life_began: int = 0
    _stop: Any = None
    _next_step: int = 0
    _since_step: int = 0
    _dead: bool = False

    def __post_init__(self) -> None:
        self.excuses = Excuses(self)
        self.others = Others(self)
        self.neighbours = Neighbours(self)
        self.signals = Signals(self)
        self.lake = Lake(self)
        self.ending = Ending(self)

    # -- lives of the publisher --------------------------------------------------------------------

    def run(self) -> None:
        """Run the scenario to its end.

        Raises:
            Finding: the publisher broke a promise while it ran.
        """
        around = self.scenario.around
        with few_rows(around.few_rows), slow_pages(around.call_s):
            while not self.is_over:
                try:
                    self._live()
                except Killed:
                    continue
                except PublisherError as error:
                    self._ended(error)
                except Exception as error:
                    raise Finding(
                        f"the publisher died of {type(error).__name__}: {error}"
                    ) from error
                else:
                    if not self.is_over:
                        raise Finding(
                            "the publisher ended without an error and without being told to"
                        )

    def _live(self) -> None:
        """A life of the publisher."""
        self._dead = False
        self.life_began = self.world.ticks
        self._stop = new_stop()
        clients = Clients(self.broker, self.world, self.tick, self.faults)
        self.lane = Lane()
        ports = make_ports(self.source, clients, self.schemas, self.world, self.tick, self.lane)
        run_publisher(self.config, self._stop, metrics=self.told.metrics, ports=ports)

    def _ended(self, error: PublisherError) -> None:
        """The publisher ended with an error: is it one that an operator must see?"""
        self.ends.append(error)
        if self.excuses.is_of_another_line(error):
            self.is_over = True
            return
        if self.excuses.is_due(error) and len(self.ends) < _ENDS_MAX:
            self._mend_for_restart()
            return
        raise Finding(
            f"the publisher ended by itself: {type(error).__name__}: {error}; tables that may be"
            f" stopped: {self.excuses.tables}"
        ) from error

    def _mend_for_restart(self) -> None:
        """What an operator does: rights are given, tables captured, and the publisher started."""
        self.source.features.filtered.clear()
        self.source.features.has_unmask = True
        self.source.features.refused.clear()
        if len(self.ends) > _ENDS_BEFORE_REPLICAS:  # until the replica has what was mended
            self.not_hardening.clear()
            self.not_redoing.clear()
        database = self.group.database
        for table in list(database.tables.values()):
            if not table.is_dropped and not database.instances_of(table.object_id):
                self.enable(f"dbo_{table.name}_0", table)
        self.world.advance(30.0)

    def die(self) -> NoReturn:
        """Kill the publisher, in the middle of a call."""
        self._dead = True
        raise Killed

    def end(self) -> None:
        """End the run: stop the publisher."""
        self.is_over = True
        self._stop.set()

    # -- time --------------------------------------------------------------------------------------

    def tick(self) -> None:
        """A call of the publisher."""
        if self.others.is_running:
            self.others.tick()
            return
        if self._dead:
            raise Killed
        self._take_time()
        if self.lanes.random() < self.lane_pace and self.lane.free_at <= self.world.monotonic():
            self.lane.run_next()
        if self.kill_in is not None:
            self.kill_in -= 1
            if self.kill_in < 0:
                self.kill_in = None
                self.die()

    def _take_time(self) -> None:
        """A call takes its time; one of a thread beside the main one takes it there."""
        call_s, slow_s = self.scenario.around.call_s, 0.0
        if self.slow_calls:
            self.slow_calls -= 1
            slow_s = self.slow_s
        if self.lane.is_running:
            self.lane.take(call_s + slow_s, self.world.monotonic())
            call_s = slow_s = 0.0
        self.world.tick(call_s)
        self.world.advance(slow_s)

    def on_tick(self) -> None:
        """Carry out what is due."""
        self._since_step += 1
        steps = self.scenario.steps
        while self._next_step < len(steps) and self._since_step > steps[self._next_step].after:
            step = steps[self._next_step]
            self._next_step += 1
            self._since_step = 0
            ACTIONS[step.kind](self, random.Random(step.seed))
        self.let_replicas_work()
        self.excuses.look()
        self.told.restarted -= self.published.named
        if self._next_step == len(steps):
            self.ending.tick()

    def let_replicas_work(self) -> None:
        """Secondaries harden and redo the log, unless they lag."""
        group = self.group
        if len(group.replicas) == 1:
            return
        for place, replica in enumerate(group.replicas):
            if replica is group.server:
                continue
            if place not in self.not_hardening:
                group.ship(replica, len(group.log.records))
            if place not in self.not_redoing:
                group.redo(replica, len(group.log.records))

    # -- what actions do ---------------------------------------------------------------------------

    @property
    def transactional_id(self) -> str:
        """Of the publisher."""
        return transactional_id(self.config.prefix, self.config.source.database)

    def write(self, record: wal.Commit) -> None:
        """Users commit."""
        self.group.write(record)
        self.commit_utc[len(self.group.lines), record.lsn] = self.group.server.clock.utc()

    def scan(self, *, marks_time: bool) -> None:
        """The capture process scans the log."""
        if self.is_capture_stopped:
            return
        if not self.group.server.is_up:
            return
        session = self.running_scan or self.group.begin_scan()
        self.running_scan = None
        self.group.end_scan(session, marks_time=marks_time)

    def enable(
        self,
        name: str,
        table: Table,
        *,
        is_ordered: bool = True,
        captured: frozenset[str] | None = None,
    ) -> None:
        """sys.sp_cdc_enable_table."""
        self.group.enable(name, table, is_ordered=is_ordered, captured=captured)
