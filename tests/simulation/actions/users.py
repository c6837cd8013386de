"""What users do."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from tailrace_publisher.options.source import ReadMode
from tests.simulation.actions.registry import action
from tests.simulation.sqlserver import log as wal
from tests.simulation.writes import Writer

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation


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
