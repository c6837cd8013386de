"""One run: the world of a scenario, the real publisher in it, and what its end must be.

Theory of operation. The publisher runs in this thread. Each call of a port ticks the world, which
carries out the scenario's steps that are due. Behind the last step everything is mended and the
publisher must catch up within a bounded number of calls (liveness); then it is killed and started
once more, and must catch up again. That start reads nothing of a table that was stopped for a gap;
a signal has all stopped tables read. What it published is judged by the model's own history.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from structlog.testing import capture_logs

from tailrace_publisher.daemon.offline.reshard import reshard
from tailrace_publisher.daemon.process.loop import run as run_publisher
from tailrace_publisher.daemon.shards.agreed_map import agreed_map
from tailrace_publisher.errors import (
    DatabaseReplaced,
    DeliveryRejected,
    ForeignRecords,
    LsnWentBackwards,
    PermissionMissing,
    PositionExpired,
    PreflightError,
    PublisherError,
    PublisherReplaced,
    ReplicaBehind,
    ReshardRefused,
    RowsSwitched,
    ShardsDiffer,
    TableFailed,
)
from tailrace_publisher.metrics.publisher_metrics import Metrics
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_publisher.ports import Ports
from tailrace_schemas.records.shards import Shard, ShardMap, transactional_id
from tailrace_schemas.records.signals import (
    PauseSignal,
    Signal,
    SnapshotSignal,
    TableOrder,
    TableSignal,
)
from tailrace_service.registry.access import RegistryError
from tests.simulation.actions import ACTIONS
from tests.simulation.inline import Lane
from tests.simulation.judge.lines import captured, holds
from tests.simulation.judge.logs import Told
from tests.simulation.judge.published import Published
from tests.simulation.kafka.broker import Broker, Fate, Transaction
from tests.simulation.kafka.clients import Clients, KafkaFaults
from tests.simulation.kafka.registry import Schemas
from tests.simulation.neighbours import Neighbours
from tests.simulation.ports import few_rows, make_ports, new_stop
from tests.simulation.scenario import Scenario
from tests.simulation.sqlserver import log as wal
from tests.simulation.sqlserver.clock import ServerClock, Zone
from tests.simulation.sqlserver.connection import Source
from tests.simulation.sqlserver.database import TIME_MARK, Database
from tests.simulation.sqlserver.group import Group, Replica
from tests.simulation.sqlserver.rows import Column, Instance, Table
from tests.simulation.sqlserver.view import Features
from tests.simulation.world import Finding, Killed, World

CATCH_UP_TICKS_MAX: Final = 20_000
"""Calls within which a publisher that nothing disturbs must have everything out."""
_LOOK_TICKS: Final = 200
"""Calls after a start within which a publisher has stopped tables whose rows were switched."""
_TURN_TICKS: Final = 200
"""Calls after which the next shard's publisher runs, while there are steps left."""
_SHARDS: Final = 2
_CALLS_MAX: Final = 100_000
_ENDS_MAX: Final = 12
_ASKINGS_MAX: Final = 4
_OF_TABLES: Final = (
    PositionExpired,
    RowsSwitched,
    PermissionMissing,
    PreflightError,
    ForeignRecords,
)
_STRAYS_MAX: Final = 2
"""Records of another producer in a topic that cost retries; more of them may stop its table."""
_TEMPLATES: Final = (
    ("orders", (("id", "int"), ("v", "int"), ("s", "nvarchar(20)")), 1),
    ("log", (("v", "int"), ("s", "nvarchar(20)")), 0),
    ("lines", (("id", "int"), ("line", "int"), ("v", "int")), 2),
    ("notes", (("id", "int"), ("note", "nvarchar(max)"), ("v", "int")), 1),
)
"""Name, columns, and how many of them are the primary key."""


@dataclass(frozen=True, slots=True)
class Divided:
    """How the publishers of several shards are started."""

    config: PublisherConfig
    map: ShardMap


@dataclass(slots=True)
class Simulation:
    """A run.

    Attributes:
        scenario: what happens.
        shard: which of the database's the publisher has.
        divided: how publishers are started from now on, once an operator has divided the tables.
        maps: how the tables are divided, by the number of shards.
        excuses: why a table may be stopped, by its name.
        halted: tables whose snapshots operators stopped, by name, until they ask for new ones.
        reserved: LSNs of changes of a transaction that is not committed yet.
        ends: errors with which the publisher ended, each of which was due.
        slow_calls: how many of the next calls take long.
        slow_s: how long, in seconds.
        fell_behind: whether a restore ever took away that published transactions were captured.
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
    shard: Shard = field(default_factory=Shard)
    divided: Divided | None = None
    maps: dict[int, ShardMap] = field(default_factory=lambda: {1: ShardMap()})
    is_half_divided: bool = False
    excuses: dict[str, list[str]] = field(default_factory=dict)
    halted: set[str] = field(default_factory=set)
    reserved: list[bytes] = field(default_factory=list)
    ends: list[PublisherError] = field(default_factory=list)
    commit_utc: dict[tuple[int, bytes], datetime] = field(default_factory=dict)
    next_row: int = 1
    next_object: int = 100
    kill_in: int | None = None
    running_scan: Any = None
    is_capture_stopped: bool = False
    not_hardening: set[int] = field(default_factory=set)
    not_redoing: set[int] = field(default_factory=set)
    clock_steps: int = 0
    switches: int = 0
    intrusions: int = 0
    takeovers: int = 0
    first_record: int = 0
    slow_calls: int = 0
    slow_s: float = 0.0
    is_over: bool = False
    fell_behind: bool = False
    neighbours: Neighbours = field(init=False)
    _stop: Any = None
    _next_step: int = 0
    _since_step: int = 0
    _dead: bool = False
    _phase: int = 0
    _phase_began: int = 0
    _target: bytes = b""
    _askings: int = 0
    _still_stopped: set[str] = field(default_factory=set)
    _lane: Lane = field(default_factory=Lane)
    _lanes: random.Random = field(default_factory=lambda: random.Random(0))
    _lane_pace: float = 1.0
    _calls_left: int | None = None
    _turns: int = 0
    _life_began: int = 0
    _started: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.neighbours = Neighbours(self)

    @property
    def transactional_id(self) -> str:
        """Of the publisher."""
        config, shards = self.config, self.shard.map.shards
        return transactional_id(config.prefix, config.source.database, shards, self.shard.number)

    # -- running -----------------------------------------------------------------------------------

    def run(self) -> None:
        """Run the scenario to its end.

        Raises:
            Finding: the publisher broke a promise while it ran.
        """
        with few_rows(self.scenario.around.few_rows):
            self._run()

    def _run(self) -> None:
        while not self.is_over:
            self._dead = False
            self._begin_life()
            self._stop = new_stop()
            clients = Clients(self.broker, self.world, self.tick, self.faults)
            self._lane = Lane()
            world = self.world, self.tick, self._lane
            ports = make_ports(self.source, clients, self.schemas, *world)
            try:
                metrics = self.told.metrics
                run_publisher(
                    self.config, self._stop, metrics=metrics, ports=ports, shard=self.shard
                )
            except Killed:
                continue
            except PublisherError as error:
                self._ended(error)
            except Exception as error:
                raise Finding(f"the publisher died of {type(error).__name__}: {error}") from error
            else:
                if not self.is_over:
                    raise Finding("the publisher ended without an error and without being told to")

    def tick(self) -> None:
        """A call of the publisher."""
        if self._calls_left is not None:
            self._tick_of_another()
            return
        if self._dead:
            raise Killed
        self._take_time()
        if self._is_turn_over():
            self._die()
        if self._lanes.random() < self._lane_pace and self._lane.free_at <= self.world.monotonic():
            self._lane.run_next()
        if self.kill_in is not None:
            self.kill_in -= 1
            if self.kill_in < 0:
                self.kill_in = None
                self._die()

    def _take_time(self) -> None:
        """A call takes its time; one of a thread beside the main one takes it there."""
        call_s, slow_s = self.scenario.around.call_s, 0.0
        if self.slow_calls:
            self.slow_calls -= 1
            slow_s = self.slow_s
        if self._lane.is_running:
            self._lane.take(call_s + slow_s, self.world.monotonic())
            call_s = slow_s = 0.0
        self.world.tick(call_s)
        self.world.advance(slow_s)

    def _begin_life(self) -> None:
        """Start the publisher of the shard whose turn it is."""
        if self.divided is not None:
            shards = self.divided.map.shards
            self.config = self.divided.config
            self.shard = Shard(self._turns % shards, self.divided.map)
            self._turns += 1
        self._life_began = self.world.ticks

    @property
    def _is_outdated(self) -> bool:
        """Whether the publisher was started before the tables were divided."""
        return self.divided is not None and self.shard.map != self.divided.map

    def _is_turn_over(self) -> bool:
        """Whether the shards' publishers, which run in turns here, take the next one."""
        if self.divided is None or self._is_outdated or self._phase > 0:
            return False
        return self.world.ticks - self._life_began > _TURN_TICKS

    def _tick_of_another(self) -> None:
        """A call of the other publisher: only the capture process and its threads go on."""
        assert self._calls_left is not None
        if self._calls_left <= 0:
            raise Killed
        self._calls_left -= 1
        self.world.tick()
        if self._calls_left % 8 == 0:
            self.scan(marks_time=False)
        self._lane.run_next()

    def run_another(self, calls: int) -> None:
        """Another publisher with our transactional id runs for so many calls, and dies.

        Raises:
            Finding: it ended by itself.
        """
        before = self.published.records
        self._run_beside(calls, self.shard)
        self.intrusions += 1
        self.takeovers += self.published.records > before

    def run_next_shard(self, calls: int) -> None:
        """The publisher of the next shard runs for so many calls, and dies.

        Raises:
            Finding: it ended by itself.
        """
        if self.divided is not None and not self._is_outdated:
            shards = self.divided.map.shards
            self._run_beside(calls, Shard((self.shard.number + 1) % shards, self.divided.map))

    def _run_beside(self, calls: int, shard: Shard) -> None:
        try:
            with self.beside(calls) as ports:
                run_publisher(self.config, new_stop(), metrics=Metrics(), ports=ports, shard=shard)
        except PublisherError as error:
            if self._is_of_another_line(error):
                self.is_over = True  # an operator must see to it, as where the first ends with it
                self._die()
            if not self._is_due(error, shard):
                raise Finding(
                    f"a second publisher ended by itself: {type(error).__name__}: {error}"
                ) from error

    @contextmanager
    def beside(self, calls: int, source: Source | None = None) -> Iterator[Ports]:
        """Ports of something else that runs for so many calls, and is killed then.

        The publisher that runs already stands still meanwhile, in the middle of a call.

        Args:
            calls: how many.
            source: of what it reads; default: ours.
        """
        lane, world = self._lane, self.world
        self._calls_left, self._lane = calls, Lane()
        clients = Clients(self.broker, world, self.tick, self.faults)
        try:
            with world.held():
                of = source or self.source
                yield make_ports(of, clients, self.schemas, world, self.tick, self._lane)
        except Killed:
            pass
        finally:
            self._calls_left, self._lane = None, lane

    def divide(self, shards: int, calls: int) -> None:
        """An operator runs ``tailrace reshard``, though a publisher may run; it may be killed.

        Raises:
            Finding: it failed for good.
        """
        if self.divided is not None or self.shard.map.shards > 1:
            return
        config = PublisherConfig.load({**self.scenario.options, "shards": {"count": shards}})
        self.is_half_divided = True
        try:
            with self.beside(calls) as ports:
                self._take_map(config, reshard(config, ports).after)
        except ReshardRefused as error:
            self.is_half_divided = False
            if "already" in str(error):  # by the one before, whose commit it did not hear of
                with self.beside(_CALLS_MAX) as ports:
                    self._take_map(config, agreed_map(config, ports))
        except (PublisherError, RegistryError) as error:
            if not error.retryable:
                raise Finding(f"reshard: {type(error).__name__}: {error}") from error
        self.intrusions += 1
        self.takeovers += 1  # it takes the transactional id and writes progress records

    def _is_of_another_line(self, error: PublisherError) -> bool:
        if isinstance(error, LsnWentBackwards) and self.fell_behind:
            return True
        return isinstance(error, DatabaseReplaced | LsnWentBackwards) and self.is_line_left()

    def _die(self) -> None:
        self._dead = True
        raise Killed

    def on_tick(self) -> None:
        """Carry out what is due."""
        self._since_step += 1
        steps = self.scenario.steps
        while self._next_step < len(steps) and self._since_step > steps[self._next_step].after:
            step = steps[self._next_step]
            self._next_step += 1
            self._since_step = 0
            ACTIONS[step.kind](self, random.Random(step.seed))
        self._let_replicas_work()
        self.told.restarted -= self.published.named
        if self._next_step == len(steps):
            self._quiet()

    def _let_replicas_work(self) -> None:
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

    def _take_map(self, config: PublisherConfig, found: ShardMap) -> None:
        self.divided = Divided(config, found)
        self.maps[found.shards] = found
        self.is_half_divided = False

    # -- the end -----------------------------------------------------------------------------------

    def _quiet(self) -> None:
        """Behind the last step: mend, wait, start once more, and ask for what is stopped."""
        if self._phase == 0:
            self._mend()
            self._phase, self._phase_began = 1, self.world.ticks
        if self.world.ticks % 8 == 0:
            # The mark is really made every five minutes; here often, as it is waited for.
            often = 400 if self.scenario.around.call_s else 40
            self.scan(marks_time=self.world.ticks % often == 0)
        entries = reversed(self.group.database.mapping)  # ascending
        self._target = next((e.start_lsn for e in entries if e.tran_id != TIME_MARK), b"")
        waited = self.world.ticks - self._phase_began
        if self._has_caught_up():
            stopped = self._stopped()
            if self._phase == 1:
                self._phase, self._phase_began = 2, self.world.ticks
                self.kill_in = 0
                self.told.starts.clear()
                self._started.clear()
                self._still_stopped = stopped & self._gaps()
            elif not self._still_stopped <= stopped:
                raise Finding(f"a start read again: {sorted(self._still_stopped - stopped)}")
            elif stopped and self._askings < _ASKINGS_MAX:
                self._phase, self._phase_began = 3, self.world.ticks
                self._askings += 1
                self._still_stopped = set()
                self.halted.clear()
                for topic in sorted(stopped):
                    self.ask_for(topic.rpartition(".")[2])
            else:
                self.is_over = True
                self._stop.set()
        elif waited > CATCH_UP_TICKS_MAX:
            raise Finding(f"it does not catch up: {self._what_is_missing()}")
        elif self._is_next_shards_turn():
            self.kill_in = 0

    def _mend(self) -> None:
        features = self.source.features
        features.refused.clear()
        features.sees_state = self.scenario.around.sees_state
        self.source.errors.clear()
        self.source.busy.clear()
        self.slow_calls, self._lane.free_at = 0, 0.0
        self.source.login_errors.clear()
        self.source.torn_reads = 0
        self.source.row_refusals = self.source.late_declines = 0
        self.is_capture_stopped = False
        self.not_hardening.clear()
        self.not_redoing.clear()
        for replica in self.group.replicas:
            replica.is_up = True
        self.broker.holds_markers = False
        self.broker.write_markers()
        self.send(PauseSignal(False))
        self.send(TableSignal(TableOrder.RESUME_SNAPSHOT))
        self.faults.__init__()  # type: ignore[misc]
        self.world.advance(self.told.next_look_in_s)  # more polls than a run may have
        self._finish_dividing()

    def _finish_dividing(self) -> None:
        """What an operator does whose ``tailrace reshard`` was interrupted: runs it again.

        A run that fails has met a fault: nothing that an earlier run left stops it.
        """
        for _ in range(self.faults.left + 1):
            if not self.is_half_divided:
                return
            self.broker.write_markers()  # they are late, and come while the operator waits
            self.divide(_SHARDS, _CALLS_MAX)
        if self.is_half_divided:
            raise Finding("tailrace reshard that was interrupted does not come to its end")

    def _has_caught_up(self) -> bool:
        if self.told.starts and self.told.starts[-1] >= self._life_began:
            self._started.add(self.shard.number)
        if not {t for t in self._gaps() if self._is_captured(t)} <= self.published.named:
            return False  # what this life has stopped is named by its next record
        if self.told.restarted or not self._has_looked():
            return False  # what was noticed is told by the next record
        shards = range(1) if self.divided is None else range(self.divided.map.shards)
        return all(
            self._has_shard_caught_up(self.shard.number if self.divided is None else number)
            for number in shards
        )

    def _has_looked(self) -> bool:
        """Whether this life has had the calls in which it notices switches."""
        return not self.switches or self.world.ticks - self._life_began >= _LOOK_TICKS

    def _is_next_shards_turn(self) -> bool:
        """Whether this shard's publisher has nothing left to do while others have."""
        is_through = self.divided is not None and self._has_shard_caught_up(self.shard.number)
        return is_through and self._has_looked()

    def _gaps(self) -> set[str]:
        """Topics of tables that this life has stopped for a gap; a start tells of them again."""
        return {t for t in self.told.gaps if self.told.stopped[t] >= self._life_began}

    def _has_shard_caught_up(self, number: int) -> bool:
        if self.published.newest is None:
            return False
        published = self.published.of(number)
        if published.closed < self._target or published.signals < self._signals_sent():
            return False
        if self._phase >= 2 and number not in self._started:
            return False
        return all(self._is_excused(topic) for topic in published.named)

    def _signals_sent(self) -> int:
        topic = self.broker.topics.get("sim.signals")
        return 0 if topic is None else topic.partitions[0].end

    def _is_excused(self, topic: str) -> bool:
        """Whether a table may be stopped, and was told to be; by the last start, too.

        One that is not captured any more waits until it is.
        """
        if not self._is_captured(topic):
            return True
        if topic.rpartition(".")[2] in self.halted:
            return True
        told_at = self.told.stopped.get(topic, -1)
        return topic.rpartition(".")[2] in self.excused() and (
            self._phase == 1 or (told_at > self._phase_began and self._askings < _ASKINGS_MAX)
        )

    def _stopped(self) -> set[str]:
        """The topics of tables that are captured and not part of the cut."""
        return {topic for topic in self.published.named if self._is_captured(topic)}

    def _is_captured(self, topic: str) -> bool:
        database, name = self.group.database, topic.rpartition(".")[2]
        return any(
            table.name == name and database.instances_of(table.object_id)
            for table in database.tables.values()
        )

    def _what_is_missing(self) -> str:
        return (
            f"phase {self._phase}, closed {self.published.closed.hex()} of {self._target.hex()},"
            f" not in the cut {sorted(self.published.named)}"
        )

    def _ended(self, error: PublisherError) -> None:
        """The publisher ended with an error: is it one that an operator must see?"""
        self.ends.append(error)
        if self._is_of_another_line(error):
            self.is_over = True
            return
        if self._is_due(error, self.shard) and len(self.ends) < _ENDS_MAX:
            self._mend_for_restart()
            return
        raise Finding(
            f"the publisher ended by itself: {type(error).__name__}: {error}; tables that may be"
            f" stopped: {self.excused()}"
        ) from error

    def _is_due(self, error: PublisherError, shard: Shard) -> bool:
        if isinstance(error, PublisherReplaced):
            return self.intrusions > 1 or self.takeovers > 0
        if isinstance(error, ShardsDiffer | DeliveryRejected) and (
            self._is_outdated or self.is_half_divided
        ):
            return True
        if isinstance(error, ReplicaBehind):
            return bool(self.not_redoing or self.not_hardening)
        tables = self.group.database.tables.values()
        names = {t.name for t in tables if not t.is_dropped and shard.has(f"sim.shop.dbo.{t.name}")}
        cause = error.cause if isinstance(error, TableFailed) else error
        if not isinstance(cause, _OF_TABLES):
            return False
        if self.excused() >= names:  # no table of the shard can go on
            return True
        is_first = self.published.records == 0
        return is_first and (bool(self.excuses) or isinstance(error, PreflightError))

    def _mend_for_restart(self) -> None:
        """What an operator does: rights are given, tables captured, and the publisher started."""
        self._finish_dividing()
        self.source.features.refused.clear()
        if len(self.ends) > _ENDS_MAX // 2:  # until the replica that is read has what was mended
            self.not_hardening.clear()
            self.not_redoing.clear()
        database = self.group.database
        for table in list(database.tables.values()):
            if not table.is_dropped and not database.instances_of(table.object_id):
                self.enable(f"dbo_{table.name}_0", table)
        self.world.advance(30.0)

    # -- what actions do ---------------------------------------------------------------------------

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

    def enable(self, name: str, table: Table, *, is_ordered: bool = True) -> None:
        """sys.sp_cdc_enable_table."""
        clock = self.group.server.clock
        self.next_object += 1
        record = wal.EnableInstance(
            self.group.log.next_lsn(),
            clock.local(),
            name,
            self.next_object,
            table.object_id,
            is_ordered,
        )
        self.group.write(record)

    def ask_for(self, table: str, where: str | None = None) -> None:
        """An operator asks for a new snapshot of a table, or of some of its rows, by its signal."""
        name = f"dbo.{table}"
        self.send(SnapshotSignal((name,), {} if where is None else {name: where}))

    def order(self, order: TableOrder, table: str | None) -> None:
        """An operator asks for something to become of a table, or of all in their snapshots."""
        if "sim.signals" not in self.broker.topics:
            return
        if table is not None and order is TableOrder.STOP_TABLE:
            self.excuse(table, "an operator stopped it")
        elif order is TableOrder.STOP_SNAPSHOT:
            names = [t.name for t in self.group.database.tables.values()]
            self.halted.update(names if table is None else [table])
        self.send(TableSignal(order, () if table is None else (f"dbo.{table}",)))

    def send(self, signal: Signal) -> None:
        """An operator writes a signal."""
        self.send_bytes(signal.to_bytes())

    def send_bytes(self, value: bytes | None) -> None:
        """Somebody writes into the signals topic."""
        topic = self.broker.topics.get("sim.signals")
        if topic is None:
            return
        done = Transaction(0, self.world.elapsed_us, Fate.COMMITTED)
        topic.partitions[0].append(None, value, done)
        done.unmarked.clear()

    def excuse(self, table: str, reason: str) -> None:
        """A table may be stopped from now on."""
        self.excuses.setdefault(table, []).append(reason)

    def excused(self) -> set[str]:
        """Names of tables that may be stopped."""
        strays = self.broker.strays.items()
        return {
            *self.excuses,
            *(topic.rpartition(".")[2] for topic, count in strays if count > _STRAYS_MAX),
        }

    def excuse_uncovered(self, instance: Instance) -> None:
        """An instance goes: may its table be stopped for it?"""
        database = self.group.database
        others = [i for i in database.instances_of(instance.source) if i is not instance]
        if not any(
            i.start_lsn is not None and i.enabled_lsn <= self.published.position for i in others
        ):
            name = database.tables[instance.source].name
            self.excuse(name, f"{instance.name} was disabled before its changes were out")

    def leave_line(self, happen: Callable[[], None]) -> None:
        """The database goes on from an earlier point of its log; open transactions end there."""
        self.reserved = []
        happen()
        # A restore may keep transactions and lose that they were captured. The capture job comes to
        # the same LSNs again; whoever looks before it has cannot know.
        furthest = max((s.position for s in self.published.shards.values()), default=b"")
        self.fell_behind |= self.group.captured() < furthest

    def is_line_left(self) -> bool:
        """Whether something of what was published is not in the database's log any more."""
        if not self.group.lines:
            return False
        return not holds(captured(self.group.log.records), self.published.positions)


def build(scenario: Scenario, *, is_verbose: bool = False) -> Simulation:
    """The world of a scenario, at its beginning."""
    around = scenario.around
    rng = random.Random(scenario.seed ^ 0x5EED)
    world = World(datetime(2026, 10, 24, 23, 30, tzinfo=UTC))
    change = None
    if around.zone_change_h is not None:
        change = world.began.replace(tzinfo=None) + timedelta(hours=around.zone_change_h)
    before, after = (120, 60) if around.zone_back else (60, 120)
    zone = Zone("W. Europe Standard Time", before, after, change)
    has_ids = around.command_ids in {"all", "mixed"}
    replicas = [
        Replica(
            f"SQL{number}",
            ServerClock(world, zone, error_ms=rng.choice((0, 0, 250, -250)) if number else 0),
            UUID(int=rng.getrandbits(128), version=4),
            Database(has_ids),
        )
        for number in range(around.replicas)
    ]
    group = Group(
        replicas,
        wal.Log(),
        UUID(int=rng.getrandbits(128), version=4),
        UUID(int=rng.getrandbits(128), version=4),
        passes_async=around.passes_async,
        maxtrans=around.maxtrans,
        has_command_id=has_ids,
    )
    config = PublisherConfig.load({**scenario.options, **_shards(around.shards)})
    broker = Broker(now_us=lambda: world.elapsed_us)
    schemas = Schemas()
    features = Features(
        around.has_log_stats,
        around.has_time_zone,
        around.identity,
        around.sees_state,
        around.sees_jobs,
        around.allows_snapshot,
    )
    simulation = Simulation(
        scenario,
        world,
        group,
        Source(group, features, lambda: simulation.tick(), has_blocks=around.blocks),
        broker,
        schemas,
        KafkaFaults(),
        config,
        Published(broker, schemas),
        Told(is_verbose, lambda: world.ticks),
    )
    simulation._lanes = random.Random(scenario.seed ^ 0x1A9E)
    simulation._lane_pace = rng.choice((0.1, 0.5, 1.0))
    world.on_tick = simulation.on_tick
    broker.on_commit = simulation.published.committed
    if around.shards > 1:
        simulation.shard = _last_shard(simulation)
        simulation.maps[around.shards] = simulation.shard.map
    _create_tables(simulation, rng)
    return simulation


def _shards(count: int) -> dict[str, Any]:
    """The options of shards of which the last has all tables."""
    if count == 1:
        return {}
    pinned = {f"dbo.{name}": count - 1 for name, _, _ in _TEMPLATES}
    return {"shards": {"count": count, "pinned": pinned}}


def _last_shard(simulation: Simulation) -> Shard:
    """The last shard of the map, which the publisher of the others has written."""
    sim = simulation
    clients = Clients(sim.broker, sim.world, lambda: None, sim.faults)
    world = sim.world, lambda: None, Lane()
    with capture_logs():
        found = agreed_map(sim.config, make_ports(sim.source, clients, sim.schemas, *world))
    return Shard(found.shards - 1, found)


def _create_tables(simulation: Simulation, rng: random.Random) -> None:
    group = simulation.group
    for number, (name, columns, keys) in enumerate(_TEMPLATES[: simulation.scenario.around.tables]):
        made = tuple(
            Column(place, column, kind, nullable=place > keys)
            for place, (column, kind) in enumerate(columns, 1)
        )
        group.write(
            wal.CreateTable(
                group.log.next_lsn(),
                group.server.clock.local(),
                10 + number,
                name,
                made,
                tuple(range(1, keys + 1)),
            )
        )
    for _ in range(3):
        ACTIONS["transaction"](simulation, rng)
    is_mixed = simulation.scenario.around.command_ids == "mixed"
    for place, table in enumerate(list(group.database.tables.values())):
        # Mixed: some instances were there before an update that left the indexes as they were.
        name = f"dbo_{table.name}_0"
        simulation.enable(
            name, table, is_ordered=not is_mixed or bool((place + rng.randrange(2)) % 2)
        )
    if rng.random() < 0.7:
        simulation.scan(marks_time=False)
    ACTIONS["transaction"](simulation, rng)
    simulation.first_record = len(group.log.records)
    for replica in group.replicas:
        replica.hardened = len(group.log.records)
        replica.database.redo(group.log.records, replica.hardened)
