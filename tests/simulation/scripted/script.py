"""Tables, changes and lives of a publisher, as a test tells them: nothing else happens."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

from structlog.testing import capture_logs

from tailrace_publisher.daemon.offline.accept_database import (
    Compared,
    accept_database,
    compare_database,
)
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_publisher.ports import Ports
from tailrace_publisher.runtime import Step
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.records.progress import Progress
from tailrace_schemas.records.signals import AcceptedLoss, TableOrder
from tests.simulation.building import build
from tests.simulation.drawing import draw
from tests.simulation.inline import Lane
from tests.simulation.judge.published import Event, event_of
from tests.simulation.kafka.clients import Clients
from tests.simulation.ports import make_ports
from tests.simulation.scenario import Scenario, Surroundings
from tests.simulation.scripted.lives import OPTIONS, Life
from tests.simulation.sqlserver import log as wal
from tests.simulation.sqlserver.rows import Change, Column, Row, Table
from tests.simulation.world import Killed

_COLUMNS: Final = (Column(1, "id", "int", nullable=False), Column(2, "note", "int"))
_AROUND: Final = Surroundings(
    1, False, False, 500, "all", True, True, "visible", True, True, None, False, 0
)
_TICKS_MAX: Final = 8000
_SCAN_TICKS: Final = 40

Told = list[Mapping[str, Any]]
"""Events of the publisher's log."""


class Script:
    """A database without tables at first, and the lives of its publisher.

    Args:
        replicas: servers of the availability group, which harden and redo at once.
        passes_async: whether the capture process waits for none of them (trace flag 1448).
        options: of the publisher, further ones.
    """

    def __init__(self, *, replicas: int = 1, passes_async: bool = False, **options: Any) -> None:
        drawn = draw(1).options
        given = {**drawn, **OPTIONS, "kafka": {**drawn["kafka"], "partitions": 1}, **options}
        own = options.get("source", {})
        given["source"] = {**drawn["source"], "application_intent": "ReadWrite", **own}
        around = replace(_AROUND, replicas=replicas, passes_async=passes_async)
        self._sim = build(Scenario(7, around, given, ()))
        self._sim.world.on_tick = lambda: None
        self._life = Life(self._sim)
        self._tables = 0
        self._mark_ticks = _SCAN_TICKS

    # -- the source --------------------------------------------------------------------------------

    def create(self, name: str, *ids: int, is_captured: bool = True, has_key: bool = True) -> None:
        """A table with rows, and by default a capture instance."""
        self._tables += 1
        object_id = 10 + self._tables
        self._write(wal.CreateTable, object_id, name, _COLUMNS, (1,) * has_key)
        self.insert(name, *ids)
        if is_captured:
            self.enable(name)

    def insert(self, table: str, *ids: int) -> None:
        """A transaction of new rows."""
        if ids:
            self._commit(table, [(number, None, {1: number, 2: number}) for number in ids])

    def insert_at_once(self, table: str, *ids: int) -> None:
        """A transaction of each row; all have one commit time."""
        for number in ids:
            after_s = 0.05 if number == ids[0] else 0
            self._commit(table, [(number, None, {1: number, 2: number})], after_s)

    def update(self, table: str, number: int, note: int) -> None:
        """A transaction that updates a row."""
        before = self._table(table).rows[number]
        self._commit(table, [(number, before, {**before, 2: note})])

    def set(self, table: str, number: int, column: str, value: int | None) -> None:
        """A transaction that gives a column of a row a value."""
        found = self._table(table)
        column_id = next(c.column_id for c in found.columns if c.name == column)
        before = found.rows[number]
        self._commit(table, [(number, before, {**before, column_id: value})])

    def delete(self, table: str, number: int) -> None:
        """A transaction that deletes a row."""
        self._commit(table, [(number, self._table(table).rows[number], None)])

    def enable(self, table: str, instance: str = "", *columns: str) -> None:
        """A capture instance more, of all columns or of some."""
        captured = frozenset(columns) or None
        self._sim.enable(instance or f"dbo_{table}", self._table(table), captured=captured)

    def set_clock_back(self) -> None:
        """Later capture instances have earlier creation dates than those before them."""
        self._sim.group.dates_back = True

    def disable(self, instance: str) -> None:
        """A capture instance goes."""
        self._write(wal.DisableInstance, instance)

    def alter(
        self, table: str, kind: str, name: str, type_: str = "int", fill: int | None = None
    ) -> None:
        """ALTER TABLE: add, drop or alter a column; a column that is added may fill all rows."""
        found = self._table(table)
        number = next((c.column_id for c in found.columns if c.name == name), found.next_column_id)
        self._write(wal.AlterTable, found.object_id, kind, Column(number, name, type_), fill)

    def instances(self, table: str) -> dict[str, list[str]]:
        """The captured columns of each capture instance of a table."""
        found = self._sim.group.database.instances_of(self._table(table).object_id)
        return {i.name: [column.name for column in i.columns] for i in found}

    def leave_out(self, instance: str, column: str) -> None:
        """An instance was created without a column (@captured_column_list)."""
        found = self._sim.group.database.instances[instance]
        found.columns = [c for c in found.columns if c.name != column]
        found.listed = frozenset(c.name for c in found.columns)

    def may_change(self, *, is_owner: bool) -> None:
        """Whether the login is in db_owner."""
        self._sim.source.features.is_owner = is_owner

    def hides_nothing(self) -> Script:
        """The server knows masks and security policies, and hides nothing yet."""
        self._sim.source.features.has_masks = True
        return self

    def mask(self, table: str, column: str = "note", *, in_change_tables: bool = False) -> None:
        """ALTER COLUMN .. ADD MASKED, and perhaps an update of the server that masks changes."""
        found = self._table(table)
        masked = next(c for c in found.columns if c.name == column)
        self._write(wal.AlterTable, found.object_id, "mask", masked)
        if in_change_tables:
            self._write(wal.MaskChangeTables)

    def grant_unmask(self, *, is_granted: bool) -> None:
        """Whether the login has UNMASK in the database."""
        self._sim.source.features.has_unmask = is_granted

    def hide_rows(self, table: str) -> None:
        """A security policy hides the rows with even ids."""
        self._sim.source.features.filtered.add(self._table(table).object_id)

    def before_change(self, happens: Callable[[], None]) -> None:
        """Something happens just before a publisher changes a capture instance."""
        self._sim.source.before_change = happens

    def lose_answer(self) -> None:
        """A publisher's next change of a capture instance is carried out without an answer."""
        self._sim.source.lost_answers += 1

    def rename(self, table: str, to: str) -> None:
        """sp_rename."""
        self._write(wal.RenameTable, self._table(table).object_id, to)

    def drop(self, table: str) -> None:
        """DROP TABLE."""
        self._write(wal.DropTable, self._table(table).object_id)

    def scan(self, *, marks_time: bool = True) -> None:
        """The capture process reads the log; replicas follow."""
        self._sim.let_replicas_work()
        self._sim.scan(marks_time=marks_time)
        self._sim.let_replicas_work()

    def mark_seldom(self) -> Script:
        """Scans write a time mark now and then, so that slow turns reach the newest one."""
        self._mark_ticks = 20 * _SCAN_TICKS
        return self

    def clean(self, instance: str, low: Lsn | None = None) -> None:
        """Cleanup of one instance, below an LSN; default: the newest commit."""
        found = self._sim.group.database.instances[instance]
        kept = (low or self.newest).to_bytes()
        found.start_lsn = kept
        found.rows = [row for row in found.rows if row.start_lsn >= kept]

    def clean_commits(self) -> None:
        """Cleanup of ``cdc.lsn_time_mapping``, below the newest commit."""
        database = self._sim.group.database
        database.mapping = database.mapping[-1:]

    @property
    def newest(self) -> Lsn:
        """The newest LSN that was captured."""
        return Lsn.from_bytes(self._life.captured)

    def commits(self, instance: str) -> list[Lsn]:
        """The commits that a capture instance has rows of."""
        rows = self._sim.group.database.instances[instance].rows
        return [Lsn.from_bytes(lsn) for lsn in sorted({row.start_lsn for row in rows})]

    def refuse(self, *numbers: int) -> None:
        """The next statements meet errors of the server."""
        self._sim.source.errors.extend(numbers)

    @property
    def refusals_left(self) -> int:
        """Statements that the source will refuse."""
        return len(self._sim.source.errors)

    def pass_time(self, seconds: float) -> None:
        """Time passes in which nothing happens."""
        self._sim.world.advance(seconds)

    @property
    def seconds(self) -> float:
        """The time that has passed."""
        return self._sim.world.monotonic()

    def fail_over(self) -> Callable[[], None]:
        """Show another replica, of a line of recovery that forks here; gives the way back."""
        group, rng = self._sim.group, random.Random(1)
        before = group.server.database_guid, group.fork_guid, group.fork_point
        group.server.database_guid, group.fork_guid = (
            UUID(int=rng.getrandbits(128), version=4) for _ in range(2)
        )
        group.fork_point = group.log.end

        def go_back() -> None:
            group.server.database_guid, group.fork_guid, group.fork_point = before

        return go_back

    def take_down(self, replica: int) -> None:
        """A replica takes no connections until it is the primary."""
        self._sim.group.replicas[replica].is_up = False

    def plan_failover(self) -> None:
        """A planned failover to the second replica: nothing is lost."""
        self._sim.let_replicas_work()
        self._sim.group.fail_over(1, None)

    def suspend(self, *, loses: int) -> None:
        """A forced failover to the second replica, which lacks some records.

        The third is suspended: connections to it stay usable.
        """
        group = self._sim.group
        target = group.replicas[1]
        target.hardened = len(group.log.records) - loses
        group.fail_over(1, UUID(int=2), suspends=True)

    def copy(self, host: str, *, after: Callable[[], None], before: Callable[[], None]) -> None:
        """Another host has a copy of the database, which goes on in its own way.

        Args:
            after: what then happens at the copy.
            before: what then happens at the database.
        """
        sim = self._sim
        own, kept = sim.group, len(sim.group.log.records)
        before()
        copied = deepcopy(own, {id(sim.world): sim.world})
        copied.restore(kept, None, own.fork_guid)
        sim.group = copied
        after()
        sim.group, sim.source.hosts[host] = own, copied

    def rows_at(self, host: str, instance: str) -> int:
        """Change rows of an instance at another host."""
        return len(self._sim.source.hosts[host].database.instances[instance].rows)

    def instances_at(self, host: str) -> list[str]:
        """Names of the capture instances at another host."""
        return sorted(self._sim.source.hosts[host].database.instances)

    def lock_changes(self, count: int) -> None:
        """The next changes of the source by a publisher get no lock."""
        self._sim.source.locked = count

    def repeat_time_since(self, seconds: float) -> None:
        """The server's clock is set back to what the world's was then: commit times come again."""
        clock = self._sim.group.server.clock
        clock.error_ms -= round((self.seconds - seconds) * 1000)

    def miss_procedure(self, name: str) -> None:
        """The server does not have a procedure (error 2812)."""
        self._sim.source.features.missing.add(name)

    def lose_signals(self, left: int) -> None:
        """A leader is elected that has only the first records of the signals topic."""
        self._sim.broker.topics["sim.signals"].partitions[0].lose_from(left)

    def forget_signals(self, first: int) -> None:
        """Retention takes the records of the signals topic before this one."""
        self._sim.broker.topics["sim.signals"].partitions[0].log_start = first

    def backup(self) -> Callable[[], None]:
        """A backup of what the log has now; gives the restore in place, which shows no fork."""
        self.scan()
        kept = len(self._sim.group.log.records)
        return lambda: self._sim.group.restore(kept, None, UUID(int=1))

    # -- the publisher -----------------------------------------------------------------------------

    def compare(self, *, repair: bool = False) -> Compared:
        """What ``tailrace accept-database`` shows."""
        return compare_database(*self._of_command(), repair=repair)

    def accept(self, *, snapshots: bool = True, repair: bool = False) -> Compared:
        """``tailrace accept-database --run``."""
        return accept_database(*self._of_command(), snapshots=snapshots, repair=repair)

    def die_accepting(self, calls: int) -> bool:
        """``accept-database --run --repair`` that is killed at a call; whether it was."""
        left = calls

        def tick() -> None:
            nonlocal left
            left -= 1
            if left <= 0:
                raise Killed

        try:
            accept_database(*self._of_command(tick), repair=True)
        except Killed:
            return True
        return False

    def _of_command(self, tick: Callable[[], None] = lambda: None) -> tuple[PublisherConfig, Ports]:
        sim, world = self._sim, self._sim.world
        sim.source.tick = tick
        clients = Clients(sim.broker, world, tick, sim.faults)
        ports = make_ports(sim.source, clients, sim.schemas, world, tick, Lane())
        return PublisherConfig.load(sim.scenario.options), ports

    def publish(
        self,
        until: Callable[[], bool] = lambda: True,
        *,
        during: Callable[[], None] = lambda: None,
        at: Step = Step.HEARTBEAT,
        scans: bool = True,
        is_whole: bool = True,
        **options: Any,
    ) -> Told:
        """A life, until everything captured is out and something else is so; gives its log.

        Args:
            until: what else is waited for.
            during: happens once, at the first step ``at``.
            scans: whether the capture process runs.
            is_whole: whether everything that is captured must be published at the end.
            options: further ones of the publisher.
        """
        happens = [during]

        def on_step(step: Step) -> None:
            if step is at and happens:
                happens.pop()()

        def is_over() -> bool:
            return not happens and until()

        with capture_logs() as told:
            self._life.live(
                options,
                ticks_max=_TICKS_MAX,
                per_call=self._scanning if scans else lambda: None,
                on_step=on_step,
                is_over=is_over,
                is_whole=is_whole,
            )
        assert self._life.is_out or not is_whole, "it does not catch up"
        assert is_over(), "what is waited for does not happen"
        return list(told)

    def die_at(self, step: Step, number: int = 1, **options: Any) -> None:
        """A life that is killed at a step."""
        left = number
        is_dead = False

        def on_step(taken: Step) -> None:
            nonlocal left, is_dead
            left -= taken is step
            if not left:
                is_dead = True
                raise Killed

        def per_call() -> None:
            if is_dead:  # its ``finally`` blocks meet ports of a dead process
                raise Killed
            self._scanning()

        with capture_logs(), suppress(Killed):
            self._life.live(
                options,
                ticks_max=_TICKS_MAX,
                per_call=per_call,
                on_step=on_step,
                is_over=lambda: False,
            )
        assert is_dead, f"step {step} was not taken {number} times"

    @property
    def calls(self) -> int:
        """Calls of the publisher in its present life."""
        return self._life.ticks

    def die_after(self, calls: int) -> None:
        """A life that is killed at a call."""

        def per_call() -> None:
            if self.calls >= calls:
                raise Killed
            self._scanning()

        with capture_logs(), suppress(Killed):
            self._life.live(ticks_max=_TICKS_MAX, per_call=per_call, is_over=lambda: False)
        assert self.calls >= calls

    def ask_for(self, table: str, where: str | None = None) -> None:
        """An operator asks for a new snapshot, of the whole table or of some rows."""
        self._sim.signals.ask_for(table, where)

    def repair(self, table: str, *ids: int) -> None:
        """An operator asks for some rows again, as they are."""
        self._sim.signals.repair(table, ["id"], [(str(number),) for number in ids])

    def order(self, order: TableOrder, table: str | None = None) -> None:
        """An operator gives an order for a table, or for all whose snapshot is not over."""
        self._sim.signals.order(order, table)

    def retain_nothing(self, table: str) -> None:
        """Retention removes everything that a table's topic has."""
        for partition in self._sim.broker.topics[f"sim.shop.dbo.{table}"].partitions:
            partition.log_start = partition.end

    @property
    def checkpoints(self) -> int:
        """The end of the checkpoint topic."""
        return self._sim.broker.topics["sim.offsets"].partitions[0].end

    def lose_checkpoints(self, end: int) -> None:
        """The brokers lose the end of the checkpoint topic."""
        self._sim.broker.topics["sim.offsets"].partitions[0].lose_from(end)

    def accept_loss(self) -> None:
        """``tailrace accept-checkpoint-loss``."""
        newest = self._sim.published.newest
        assert newest is not None
        partition = self._sim.broker.topics["sim.progress"].partitions[0]
        offset = [entry.offset for entry in partition.committed()][-1]
        loss = AcceptedLoss(newest.server, newest.database, offset, newest.closed_lsn)
        self._sim.signals.send(loss)

    def lake_reads(self) -> None:
        """The lake takes what is published."""
        self._sim.lake.read()

    @property
    def lake_closed(self) -> Lsn:
        """LSN up to which the lake has everything."""
        return Lsn.from_bytes(self._sim.lake.closed())

    def send(self, value: bytes | None) -> None:
        """A record into the signals topic, as it is."""
        self._sim.signals.send_bytes(value)

    # -- what is published -------------------------------------------------------------------------

    def snapshot(self, table: str) -> list[int]:
        """Ids of all rows of snapshots of a table, sorted."""
        return sorted(e.after["id"] for e in self._events(table) if e.op == "r" and e.after)

    def changes(self, table: str) -> list[tuple[str, int]]:
        """Operation and id of the changes of a table, in order."""
        changes = (e for e in self._events(table) if not e.is_read)
        return [(e.op, (e.after or e.before or {})["id"]) for e in changes]

    def patched(self, table: str) -> list[int]:
        """Ids of all rows that patches brought, in order."""
        return [e.after["id"] for e in self._events(table) if e.is_patch and e.after]

    def notes(self, table: str, after: Lsn = Lsn.ZERO) -> dict[int, int]:
        """Rows of a table as a reader has them, who begins with the events after an LSN."""
        rows: dict[int, int] = {}
        for event in self._events(table):
            if event.lsn <= after.to_bytes():
                continue
            if event.after is not None:
                rows[event.after["id"]] = event.after["note"]
            elif event.before is not None:
                rows.pop(event.before["id"], None)
        return rows

    def lake(self, table: str, up_to: Lsn = Lsn.MAX, after: Lsn = Lsn.ZERO) -> dict[int, int]:
        """Rows of a table as a lake has them at an LSN: the last change of each by position.

        Args:
            after: of a table that started again there: rows before it are gone.
        """
        last: dict[int, Event] = {}
        for event in self._events(table):
            number = (event.after or event.before or {})["id"]
            known = last.get(number)
            is_read = after.to_bytes() < event.lsn <= up_to.to_bytes()
            if is_read and not (known and known.position > event.position):
                last[number] = event
        return {number: e.after["note"] for number, e in last.items() if e.after is not None}

    def images(self, table: str) -> list[tuple[int, bytes, Mapping[str, Any] | None]]:
        """Id, position and image after it of each event, in order; None for a deleted row."""
        return [
            ((e.after or e.before or {})["id"], e.position, e.after) for e in self._events(table)
        ]

    def read_at(self, table: str) -> Lsn:
        """The LSN of the last row that a snapshot or a repair published."""
        found = [e.lsn for e in self._events(table) if e.is_read]
        return Lsn.from_bytes(max(found, default=bytes(10)))

    def repaired(self, table: str) -> list[tuple[str, int]]:
        """Operation and id of the rows that repairs published, in order."""
        found = (e for e in self._events(table) if e.is_repair)
        return [(e.op, (e.after or e.before or {})["id"]) for e in found]

    def values(self, table: str, column: str) -> dict[int, int | None]:
        """Values of a column in the last event of each row that has it."""
        images = (event.after for event in self._events(table))
        return {after["id"]: after[column] for after in images if after and column in after}

    def source_notes(self, table: str) -> dict[int, int]:
        """Rows of a table at the source."""
        return {row[1]: row[2] for row in self._table(table).rows.values()}

    def out_of_cut(self) -> set[str]:
        """Names of the tables that the newest progress record leaves out of the cut."""
        newest = self._sim.published.newest
        return {topic.rpartition(".")[2] for topic in newest.snapshotting} if newest else set()

    def progress(self) -> list[Progress]:
        """All progress records."""
        return [one for delivered in self._sim.published.delivered for one in delivered.progress]

    def has_rows_of(self, table: str) -> list[bool]:
        """Whether each progress record counts events of a table."""
        topic = f"sim.shop.dbo.{table}"
        return [any(part.topic == topic for part in one.partitions) for one in self.progress()]

    def has_been_out_of_cut(self, table: str) -> list[bool]:
        """Whether each progress record leaves a table out of the cut."""
        return [f"sim.shop.dbo.{table}" in one.snapshotting for one in self.progress()]

    # -- inside ------------------------------------------------------------------------------------

    def _events(self, table: str) -> Iterator[Event]:
        topic = self._sim.broker.topics.get(f"sim.shop.dbo.{table}")
        for partition in topic.partitions if topic else ():
            for entry in partition.committed():
                event = event_of(self._sim.schemas, entry)
                if event is not None:
                    yield event

    def _scanning(self) -> None:
        if self._life.ticks % _SCAN_TICKS == 0:
            self.scan(marks_time=self._life.ticks % self._mark_ticks == 0)

    def _table(self, name: str) -> Table:
        tables = self._sim.group.database.tables.values()
        return next(t for t in tables if t.called == name and not t.is_dropped)

    def _write(self, record: Callable[..., wal.Record], *facts: Any) -> None:
        group = self._sim.group
        group.write(record(group.log.next_lsn(), group.server.clock.local(), *facts))

    def _commit(
        self, table: str, changes: list[tuple[int, Row | None, Row | None]], after_s: float = 0.05
    ) -> None:
        log, found = self._sim.group.log, self._table(table)
        made = tuple(
            Change(found.object_id, number, place, log.next_lsn(0), before, after)
            for place, (number, before, after) in enumerate(changes, 1)
        )
        tran_id = random.Random(len(log.records)).getrandbits(40).to_bytes(6, "big")
        self._sim.world.advance(after_s)  # cleanup keeps the commits of the low watermark's time
        lsn = log.next_lsn()
        self._sim.write(wal.Commit(lsn, self._sim.group.server.clock.local(), tran_id, made))


def events(told: Told, name: str) -> Told:
    """Those of a name."""
    return [event for event in told if event["event"] == name]
