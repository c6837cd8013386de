"""What a step does to the world, by its kind. Each chooses out of what there is at its moment."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Final
from uuid import UUID

from tailrace_publisher.source_options import ReadMode
from tailrace_schemas.signals import PauseSignal, TableOrder
from tests.simulation.sqlserver import log as wal
from tests.simulation.sqlserver.rows import Column, Table
from tests.simulation.writes import Writer

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation

Action = Callable[["Simulation", random.Random], None]

ACTIONS: Final[dict[str, Action]] = {}

_SOURCE_ERRORS: Final = (1205, 1222, 983, 922, 40613, 10054, 596, 3961, 701, 41305, 8645)
"""A deadlock's victim, a lock time-out, a replica that changes its role, a database in recovery,
one that moves, a broken connection, an ended session, DDL under SNAPSHOT, no memory.

https://learn.microsoft.com/sql/relational-databases/errors-events/database-engine-events-and-errors
"""
_LOGIN_ERRORS: Final = (983, 4060, 18401, 40613, 18456)


def action(kind: Action) -> Action:
    """Register an action under its name."""
    ACTIONS[kind.__name__] = kind
    return kind


def _guid(rng: random.Random) -> UUID:
    return UUID(int=rng.getrandbits(128), version=4)


# -- users -----------------------------------------------------------------------------------------


def _write(sim: Simulation, rng: random.Random, statements: int, rows_max: int) -> None:
    group = sim.group
    take = rng.random() < 0.5
    reserved = sim.reserved if take else []
    moves_keys = sim.config.source.read_mode is ReadMode.DIRECT
    writer = Writer(group.database, group.log, rng, reserved, sim.next_row, moves_keys)
    for _ in range(statements):
        writer.statement(rows_max)
    sim.next_row = writer.next_row
    if take:
        sim.reserved = []
    if not writer.changes:
        return
    lsn = group.log.next_lsn(rng.choice((1, 1, 1, 2)))
    tran_id = rng.getrandbits(40).to_bytes(6, "big")
    sim.write(wal.Commit(lsn, group.server.clock.local(), tran_id, tuple(writer.changes)))


@action
def transaction(sim: Simulation, rng: random.Random) -> None:
    _write(sim, rng, rng.randrange(1, 4), 2)


@action
def large_transaction(sim: Simulation, rng: random.Random) -> None:
    _write(sim, rng, rng.randrange(3, 8), 6)


@action
def reserve(sim: Simulation, rng: random.Random) -> None:
    """A transaction begins that commits later: its changes have LSNs of before others' commits."""
    sim.reserved = [sim.group.log.next_lsn(0) for _ in range(rng.randrange(1, 6))]


# -- capture and cleanup ---------------------------------------------------------------------------


@action
def capture(sim: Simulation, rng: random.Random) -> None:
    sim.scan(marks_time=rng.random() < 0.3)


@action
def begin_capture(sim: Simulation, rng: random.Random) -> None:
    """A scan begins that ends with the next one."""
    if sim.running_scan is None and not sim.is_capture_stopped:
        sim.running_scan = sim.group.begin_scan()


@action
def fail_capture(sim: Simulation, rng: random.Random) -> None:
    """A scan ends with an error and has captured nothing."""
    if sim.running_scan is None and not sim.is_capture_stopped:
        session = sim.group.begin_scan()
        session.end_time = sim.group.server.clock.local()
        session.error_count = 1


@action
def stop_capture(sim: Simulation, rng: random.Random) -> None:
    """The job stops, or is started again."""
    sim.is_capture_stopped = not sim.is_capture_stopped


def _clean(sim: Simulation, rng: random.Random, *, beyond_us: bool) -> None:
    entries = [entry.start_lsn for entry in sim.group.database.mapping]
    if not beyond_us:
        entries = [lsn for lsn in entries if lsn <= sim.published.position]
    if not entries:
        return
    watermark = rng.choice(entries)
    group = sim.group
    if watermark > sim.published.position:
        for table in group.database.tables.values():
            sim.excuse(table.name, "cleanup has overtaken the publisher")
    clock = group.server.clock
    group.write(wal.RaiseWatermarks(group.log.next_lsn(), clock.local(), watermark))
    if rng.random() < 0.7:
        group.write(wal.DeleteChangeRows(group.log.next_lsn(), clock.local()))


@action
def cleanup(sim: Simulation, rng: random.Random) -> None:
    """Cleanup of what is published."""
    _clean(sim, rng, beyond_us=False)


@action
def late_cleanup(sim: Simulation, rng: random.Random) -> None:
    """Cleanup that may overtake the publisher."""
    _clean(sim, rng, beyond_us=True)


@action
def delete_change_rows(sim: Simulation, rng: random.Random) -> None:
    """Cleanup goes on where it had only raised the watermarks."""
    group = sim.group
    group.write(wal.DeleteChangeRows(group.log.next_lsn(), group.server.clock.local()))


# -- capture instances and DDL ---------------------------------------------------------------------


def _tables(sim: Simulation) -> list[Table]:
    return [table for table in sim.group.database.tables.values() if not table.is_dropped]


@action
def enable(sim: Simulation, rng: random.Random) -> None:
    """A capture instance more, under a new name or one that was used before; two at most.

    https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sys-sp-cdc-enable-table-transact-sql
    """
    group = sim.group
    free = [t for t in _tables(sim) if len(group.database.instances_of(t.object_id)) < 2]
    if not free:
        return
    table = rng.choice(free)
    number = rng.randrange(4)
    name = f"dbo_{table.name}_{number}"
    if name not in group.database.instances:
        sim.enable(name, table)


@action
def disable(sim: Simulation, rng: random.Random) -> None:
    """A capture instance goes, the older or the newer; seldom a table's only one."""
    group = sim.group
    instances = list(group.database.instances.values())
    paired = [i for i in instances if len(group.database.instances_of(i.source)) > 1]
    chosen = paired if paired and rng.random() < 0.9 else instances
    if not chosen or (not paired and rng.random() < 0.7):
        return
    instance = rng.choice(chosen)
    sim.excuse_uncovered(instance)
    clock = group.server.clock
    group.write(wal.DisableInstance(group.log.next_lsn(), clock.local(), instance.name))


def _alter(sim: Simulation, table: Table, kind: str, column: Column) -> None:
    group = sim.group
    record = wal.AlterTable(
        group.log.next_lsn(), group.server.clock.local(), table.object_id, kind, column
    )
    group.write(record)


@action
def add_column(sim: Simulation, rng: random.Random) -> None:
    table = rng.choice(_tables(sim))
    number = table.next_column_id
    types = ("int", "nvarchar(20)", *(("varchar(20)",) * 2 if sim.source.has_blocks else ()))
    _alter(sim, table, "add", Column(number, f"c{number}", rng.choice(types)))


@action
def drop_column(sim: Simulation, rng: random.Random) -> None:
    table = rng.choice(_tables(sim))
    free = [column for column in table.columns if column.column_id not in table.key]
    if len(free) > 1 and table.key:  # the judge knows the rows of the others by all columns
        _alter(sim, table, "drop", rng.choice(free))


@action
def alter_column(sim: Simulation, rng: random.Random) -> None:
    table = rng.choice(_tables(sim))
    free = [c for c in table.columns if c.type == "int" and c.column_id not in table.key]
    if free:
        column = rng.choice(free)
        _alter(sim, table, "alter", Column(column.column_id, column.name, "bigint"))


@action
def drop_table(sim: Simulation, rng: random.Random) -> None:
    tables = _tables(sim)
    if len(tables) < 2:
        return
    table = rng.choice(tables)
    group = sim.group
    sim.excuse(table.name, "it was dropped")
    clock = group.server.clock
    group.write(wal.DropTable(group.log.next_lsn(), clock.local(), table.object_id))


@action
def update_server(sim: Simulation, rng: random.Random) -> None:
    """A cumulative update brings ``__$command_id``."""
    group = sim.group
    if sim.scenario.around.command_ids == "updated" and not group.database.has_command_id:
        clock = group.server.clock
        group.write(wal.UpdateServer(group.log.next_lsn(), clock.local(), rng.random() < 0.6))
        for replica in group.replicas:
            replica.disconnect()


# -- time ------------------------------------------------------------------------------------------


@action
def step_clock(sim: Simulation, rng: random.Random) -> None:
    replica = rng.choice(sim.group.replicas)
    replica.clock.step(rng.choice((-1, 1)) * rng.choice((50, 5_000, 600_000, 5_400_000)))
    sim.clock_steps += 1


@action
def pass_time(sim: Simulation, rng: random.Random) -> None:
    sim.world.advance(rng.choice((1, 15, 70, 400, 4000)))


# -- replicas --------------------------------------------------------------------------------------


@action
def lag(sim: Simulation, rng: random.Random) -> None:
    """A secondary falls behind: it does not harden, or does not redo."""
    place = rng.randrange(len(sim.group.replicas))
    (sim.not_hardening if rng.random() < 0.4 else sim.not_redoing).add(place)


@action
def catch_up(sim: Simulation, rng: random.Random) -> None:
    place = rng.randrange(len(sim.group.replicas))
    sim.not_hardening.discard(place)
    sim.not_redoing.discard(place)


@action
def ship(sim: Simulation, rng: random.Random) -> None:
    replica = rng.choice(sim.group.replicas)
    if replica is not sim.group.server:
        sim.group.ship(replica, rng.randrange(1, 5))


@action
def redo(sim: Simulation, rng: random.Random) -> None:
    replica = rng.choice(sim.group.replicas)
    if replica is not sim.group.server:
        sim.group.redo(replica, rng.randrange(1, 5))


@action
def fail_over(sim: Simulation, rng: random.Random) -> None:
    """A planned failover: to a replica that has hardened everything."""
    group = sim.group
    able = [
        place
        for place, replica in enumerate(group.replicas)
        if replica is not group.server and replica.hardened == len(group.log.records)
    ]
    if able:
        sim.running_scan = None
        group.fail_over(rng.choice(able), None)


@action
def force_fail_over(sim: Simulation, rng: random.Random) -> None:
    """A forced failover: what the other had not hardened is lost."""
    group = sim.group
    sim.running_scan = None
    others = [place for place, r in enumerate(group.replicas) if r is not group.server]
    sim.leave_line(lambda: group.fail_over(rng.choice(others), _guid(rng)))


@action
def restore(sim: Simulation, rng: random.Random) -> None:
    """An older backup is restored in place: seldom what is published is in it."""
    group = sim.group
    records = len(group.log.records)
    kept = max(sim.first_record, records - rng.choice((0, 1, 2, 4, 10)))
    sim.running_scan = None
    guid = _guid(rng) if rng.random() < 0.5 else None
    sim.leave_line(lambda: group.restore(kept, guid, _guid(rng)))


# -- rights and errors of the source ---------------------------------------------------------------


@action
def refuse_table(sim: Simulation, rng: random.Random) -> None:
    """SELECT on a table and its change tables is taken away."""
    table = rng.choice(_tables(sim))
    sim.source.features.refused.add(table.object_id)
    sim.excuse(table.name, "it might not be read")


@action
def refuse_state(sim: Simulation, rng: random.Random) -> None:
    """VIEW DATABASE STATE is taken away."""
    sim.source.features.sees_state = False


@action
def allow(sim: Simulation, rng: random.Random) -> None:
    """What was taken away is given again."""
    sim.source.features.refused.clear()
    sim.source.features.sees_state = sim.scenario.around.sees_state


@action
def source_error(sim: Simulation, rng: random.Random) -> None:
    sim.source.errors.extend([rng.choice(_SOURCE_ERRORS)] * rng.choice((1, 1, 3)))


@action
def login_error(sim: Simulation, rng: random.Random) -> None:
    number = rng.choice(_LOGIN_ERRORS)
    if number == 18456 or sim.published.records == 0:
        number = 983  # a refused login is final, and any is before the first checkpoint
    sim.source.login_errors.append(number)


@action
def disconnect(sim: Simulation, rng: random.Random) -> None:
    rng.choice(sim.group.replicas).disconnect()


@action
def server_down(sim: Simulation, rng: random.Random) -> None:
    """A server stops, or starts again."""
    replica = rng.choice(sim.group.replicas)
    replica.is_up = not replica.is_up
    replica.disconnect()
    if replica is sim.group.server:
        sim.group.sessions.clear()
        sim.running_scan = None


@action
def torn_read(sim: Simulation, rng: random.Random) -> None:
    """Others commit while a chunk of a snapshot is read."""
    sim.source.torn_reads += rng.randrange(1, 4)


@action
def decline_block(sim: Simulation, rng: random.Random) -> None:
    """The reference must read a page again: the driver refuses a row, or an encoder a value."""
    if rng.random() < 0.4:
        sim.source.row_refusals += 1
    else:
        sim.source.late_declines += rng.choice((1, 2))


# -- the publisher ---------------------------------------------------------------------------------


@action
def kill(sim: Simulation, rng: random.Random) -> None:
    sim.kill_in = rng.randrange(3)


@action
def signal(sim: Simulation, rng: random.Random) -> None:
    """An operator asks for a new snapshot of a table."""
    sim.ask_for(rng.choice(_tables(sim)).name)


@action
def signal_part(sim: Simulation, rng: random.Random) -> None:
    """An operator asks for some rows of a table again."""
    table = rng.choice(_tables(sim)).name
    sim.ask_for(table, rng.choice(("1 = 1", "1 = 0", "[id] > 3", "[id] <= 3")))


@action
def pause_snapshot(sim: Simulation, rng: random.Random) -> None:
    sim.order(TableOrder.PAUSE_SNAPSHOT, _one_or_all(sim, rng))


@action
def resume_snapshot(sim: Simulation, rng: random.Random) -> None:
    sim.order(TableOrder.RESUME_SNAPSHOT, _one_or_all(sim, rng))


@action
def stop_snapshot(sim: Simulation, rng: random.Random) -> None:
    sim.order(TableOrder.STOP_SNAPSHOT, _one_or_all(sim, rng))


@action
def stop_table(sim: Simulation, rng: random.Random) -> None:
    sim.order(TableOrder.STOP_TABLE, rng.choice(_tables(sim)).name)


@action
def pause(sim: Simulation, rng: random.Random) -> None:
    """An operator pauses the publisher."""
    sim.send(PauseSignal(True))


@action
def resume(sim: Simulation, rng: random.Random) -> None:
    """An operator has it go on."""
    sim.send(PauseSignal(False))


def _one_or_all(sim: Simulation, rng: random.Random) -> str | None:
    return rng.choice([None, *(table.name for table in _tables(sim))])


# -- Kafka -----------------------------------------------------------------------------------------


@action
def commit_late(sim: Simulation, rng: random.Random) -> None:
    sim.faults.commits += ["late"] * rng.choice((1, 1, 3, 8))


@action
def commit_done(sim: Simulation, rng: random.Random) -> None:
    sim.faults.commits.append("done")


@action
def commit_never(sim: Simulation, rng: random.Random) -> None:
    """The outcome stays unknown, of a commit that was done or one that was not."""
    sim.faults.commits += [rng.choice(("done", "late"))] + ["late"] * 70


@action
def stall(sim: Simulation, rng: random.Random) -> None:
    sim.faults.stalls += rng.choice((1, 3, 70))


@action
def no_coordinator(sim: Simulation, rng: random.Random) -> None:
    sim.faults.inits += rng.choice((1, 3))


@action
def no_leader(sim: Simulation, rng: random.Random) -> None:
    sim.faults.asks += rng.choice((1, 4))


@action
def no_broker(sim: Simulation, rng: random.Random) -> None:
    sim.faults.reads += rng.choice((1, 4))


@action
def no_registry(sim: Simulation, rng: random.Random) -> None:
    sim.faults.registry += rng.choice((1, 4))


@action
def hold_markers(sim: Simulation, rng: random.Random) -> None:
    """Markers come late from now on, or in time again."""
    sim.broker.holds_markers = not sim.broker.holds_markers
    sim.broker.write_markers()


@action
def compact(sim: Simulation, rng: random.Random) -> None:
    """The log cleaner passes over the checkpoint topic."""
    if "sim.offsets" in sim.broker.topics:
        sim.broker.compact("sim.offsets")


@action
def intruder(sim: Simulation, rng: random.Random) -> None:
    """Another publisher starts with our transactional id, and dies before it commits."""
    if sim.transactional_id in sim.broker.producers:
        sim.broker.init_producer(sim.transactional_id, 10_000_000)
        sim.intrusions += 1


@action
def second_publisher(sim: Simulation, rng: random.Random) -> None:
    """Another publisher starts with our transactional id, publishes for a while, and dies."""
    if sim.transactional_id in sim.broker.producers:
        sim.run_another(rng.choice((40, 90, 150, 400)))


_COMPACTED = frozenset({"sim.offsets", "sim.control"})


@action
def retention(sim: Simulation, rng: random.Random) -> None:
    """Retention takes the oldest records of a topic, but of the one that is compacted."""
    topics = [topic for name, topic in sim.broker.topics.items() if name not in _COMPACTED]
    if topics:
        for partition in rng.choice(topics).partitions:
            end = partition.stable_end()
            partition.log_start = rng.randrange(partition.log_start, end + 1)
