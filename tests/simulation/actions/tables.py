"""Capture instances and DDL."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from tests.simulation.actions.registry import action, tables_of
from tests.simulation.sqlserver import log as wal
from tests.simulation.sqlserver.rows import Column, Table

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation


@action
def enable(sim: Simulation, rng: random.Random) -> None:
    """A capture instance more, under a new name or one that was used before; two at most.

    https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sys-sp-cdc-enable-table-transact-sql
    """
    group = sim.group
    free = [t for t in tables_of(sim) if len(group.database.instances_of(t.object_id)) < 2]
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
    source = group.database.tables[instance.source]
    if source.called != source.name and not paired:
        return  # captured again, it is another table's beginning, and the old topic never goes on
    sim.excuses.add_uncovered(instance)
    clock = group.server.clock
    group.write(wal.DisableInstance(group.log.next_lsn(), clock.local(), instance.name))


def _alter(
    sim: Simulation, table: Table, kind: str, column: Column, fill: int | None = None
) -> None:
    group = sim.group
    record = wal.AlterTable(
        group.log.next_lsn(), group.server.clock.local(), table.object_id, kind, column, fill
    )
    group.write(record)


@action
def add_column(sim: Simulation, rng: random.Random) -> None:
    table = rng.choice(tables_of(sim))
    number = table.next_column_id
    types = ("int", "nvarchar(20)", *(("varchar(20)",) * 2 if sim.source.has_blocks else ()))
    _alter(sim, table, "add", Column(number, f"c{number}", rng.choice(types)))


@action
def add_filled_column(sim: Simulation, rng: random.Random) -> None:
    """ADD with a DEFAULT and WITH VALUES, and now and then the instance that captures it."""
    table = rng.choice(tables_of(sim))
    number = table.next_column_id
    _alter(sim, table, "add", Column(number, f"c{number}", "int"), fill=rng.randrange(1000))
    instances = sim.group.database.instances_of(table.object_id)
    name = f"dbo_{table.name}_{number}"
    if len(instances) == 1 and rng.random() < 0.5 and name not in sim.group.database.instances:
        sim.enable(name, table)


def _whole_tables(sim: Simulation) -> list[Table]:
    """Captured tables of which readers have all rows."""
    records = [record for delivered in sim.published.delivered for record in delivered.progress]
    begun = {topic for record in records for topic in record.snapshotting} - sim.published.named
    known = [table for table in tables_of(sim) if f"sim.shop.dbo.{table.name}" in begun]
    return [table for table in known if sim.group.database.instances_of(table.object_id)]


@action
def grow(sim: Simulation, rng: random.Random) -> None:
    """A column with a value in all rows, and an instance that captures it, of a whole table."""
    database = sim.group.database
    known = [t for t in _whole_tables(sim) if len(database.instances_of(t.object_id)) == 1]
    if known:
        table = rng.choice(known)
        number = table.next_column_id
        name = f"dbo_{table.name}_{number}"
        if name in database.instances:
            return  # See: sys.sp_cdc_enable_table, @capture_instance: it cannot already exist
        _alter(sim, table, "add", Column(number, f"c{number}", "int"), fill=rng.randrange(1000))
        sim.enable(name, table)


@action
def drop_column(sim: Simulation, rng: random.Random) -> None:
    table = rng.choice(tables_of(sim))
    free = [column for column in table.columns if column.column_id not in table.key]
    if len(free) > 1 and table.key:  # the judge knows the rows of the others by all columns
        _alter(sim, table, "drop", rng.choice(free))


@action
def alter_column(sim: Simulation, rng: random.Random) -> None:
    table = rng.choice(tables_of(sim))
    free = [c for c in table.columns if c.type == "int" and c.column_id not in table.key]
    if free:
        column = rng.choice(free)
        _alter(sim, table, "alter", Column(column.column_id, column.name, "bigint"))


@action
def switch_out(sim: Simulation, rng: random.Random) -> None:
    """All rows of a table go to another one, which change data capture does not log."""
    group = sim.group
    records = [record for delivered in sim.published.delivered for record in delivered.progress]
    begun = {topic for record in records for topic in record.snapshotting}
    # Of a table that begins, the partitions may not be known yet.
    whole = begun - sim.published.named
    known = [table for table in tables_of(sim) if f"sim.shop.dbo.{table.name}" in whole]
    if not known:
        return
    table = rng.choice(known)
    sim.reserved = []
    sim.excuses.add(table.name, "its rows were switched out")
    group.next_object += 1
    sim.switches += 1
    time = group.server.clock.local()
    lsn = group.log.next_lsn()
    group.write(wal.SwitchOut(lsn, time, table.object_id, group.next_object))


@action
def rename_table(sim: Simulation, rng: random.Random) -> None:
    """A table that is published gets another name, or its first one back."""
    known = _whole_tables(sim)
    if not known:
        return
    table, group = rng.choice(known), sim.group
    called = table.name if table.called != table.name else f"{table.name}_{rng.randrange(100)}"
    sim.excuses.add(table.name, "it was renamed while it was read")
    sim.told.renamed.add(f"shop.dbo.{table.name}")
    clock = group.server.clock
    group.write(wal.RenameTable(group.log.next_lsn(), clock.local(), table.object_id, called))


@action
def drop_table(sim: Simulation, rng: random.Random) -> None:
    tables = tables_of(sim)
    if len(tables) < 2:
        return
    table = rng.choice(tables)
    group = sim.group
    sim.excuses.add(table.name, "it was dropped")
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
