"""What a login meets: rights, errors, reads that others come between."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final

from tests.simulation.actions.registry import action, tables_of
from tests.simulation.sqlserver import log as wal

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation

_SOURCE_ERRORS: Final = (1205, 1222, 983, 922, 40613, 10054, 596, 3961, 701, 41305, 8645)
"""A deadlock's victim, a lock time-out, a replica that changes its role, a database in recovery,
one that moves, a broken connection, an ended session, DDL under SNAPSHOT, no memory.

https://learn.microsoft.com/sql/relational-databases/errors-events/database-engine-events-and-errors
"""
_LOGIN_ERRORS: Final = (983, 4060, 18401, 40613, 18456)


@action
def refuse_table(sim: Simulation, rng: random.Random) -> None:
    """SELECT on a table and its change tables is taken away."""
    table = rng.choice(tables_of(sim))
    sim.source.features.refused.add(table.object_id)
    sim.excuses.add(table.name, "it might not be read")


@action
def refuse_state(sim: Simulation, rng: random.Random) -> None:
    """VIEW DATABASE STATE is taken away, and with it the right on the server.

    Fences are moments from then on, which no clock that went back can keep true (ADR 0015).
    """
    if sim.clock_steps:
        return
    sim.source.features.sees_state = sim.source.features.sees_server_state = False


@action
def mask_column(sim: Simulation, rng: random.Random) -> None:
    """ALTER COLUMN .. ADD MASKED; change tables get masks from their creation on, or by an update.

    See: Dynamic data masking; text of sys.sp_cdc_vupgrade (SQL Server 2022).
    """
    group, table = sim.group, rng.choice(tables_of(sim))
    column = rng.choice(table.columns)
    given = group.log.next_lsn(), group.server.clock.local()
    group.write(wal.AlterTable(*given, table.object_id, "mask", column))


@action
def mask_change_tables(sim: Simulation, rng: random.Random) -> None:
    """The server is updated, and change tables get the masks of their source tables."""
    group = sim.group
    group.write(wal.MaskChangeTables(group.log.next_lsn(), group.server.clock.local()))


@action
def take_unmask(sim: Simulation, rng: random.Random) -> None:
    """UNMASK is taken away, and given again only when everything is mended."""
    sim.source.features.has_unmask = False
    for table in tables_of(sim):
        sim.excuses.add(table.name, "its values might be masked")


@action
def filter_rows(sim: Simulation, rng: random.Random) -> None:
    """A security policy hides rows of a table from the login."""
    table = rng.choice(tables_of(sim))
    sim.source.features.filtered.add(table.object_id)
    sim.excuses.add(table.name, "its rows might be hidden")


@action
def allow(sim: Simulation, rng: random.Random) -> None:
    """What was taken away is given again."""
    sim.source.features.refused.clear()
    sim.source.features.sees_state = sim.scenario.around.sees_state
    sim.source.features.sees_server_state = sim.scenario.around.sees_log


@action
def source_error(sim: Simulation, rng: random.Random) -> None:
    sim.source.errors.extend([rng.choice(_SOURCE_ERRORS)] * rng.choice((1, 1, 3)))


@action
def busy_statement(sim: Simulation, rng: random.Random) -> None:
    """Statements over change rows are victims of deadlocks with cleanup, or wait for locks."""
    if not sim.source.busy:  # three in a row may be too much for a session
        sim.source.busy.extend([rng.choice((1205, 1222))] * rng.choice((1, 1, 2)))


@action
def slow_calls(sim: Simulation, rng: random.Random) -> None:
    """Calls of whatever server take so long that transactions may get too old."""
    sim.slow_calls += rng.choice((1, 1, 5, 30))
    sim.slow_s = rng.choice((0.4, 4.0, 12.0, 110.0, 400.0))


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
        sim.group.lose_scans()
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
