"""The publisher is killed, and asked for something."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from tailrace_schemas.records.signals import PauseSignal, TableOrder
from tests.simulation.actions.registry import action, tables_of
from tests.simulation.neighbours import NAMES
from tests.simulation.writes import KEYS

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation


@action
def kill(sim: Simulation, rng: random.Random) -> None:
    sim.kill_in = rng.randrange(3)


@action
def signal(sim: Simulation, rng: random.Random) -> None:
    """An operator asks for a new snapshot of a table."""
    sim.signals.ask_for(rng.choice(tables_of(sim)).name)


@action
def signal_part(sim: Simulation, rng: random.Random) -> None:
    """An operator asks for some rows of a table again, by a condition or by keys."""
    table = rng.choice(tables_of(sim))
    where = rng.choice(("1 = 1", "1 = 0", "[id] > 3", "[id] <= 3"))
    if rng.random() < 0.5:
        sim.signals.ask_for(table.name, where)
        return
    names = [c.name for number in table.key for c in table.columns if c.column_id == number]
    keys = {tuple(str(rng.randrange(KEYS)) for _ in names) for _ in range(6)}
    sim.signals.repair(table.name, names, sorted(keys))


@action
def pause_snapshot(sim: Simulation, rng: random.Random) -> None:
    sim.signals.order(TableOrder.PAUSE_SNAPSHOT, _one_or_all(sim, rng))


@action
def resume_snapshot(sim: Simulation, rng: random.Random) -> None:
    sim.signals.order(TableOrder.RESUME_SNAPSHOT, _one_or_all(sim, rng))


@action
def stop_snapshot(sim: Simulation, rng: random.Random) -> None:
    sim.signals.order(TableOrder.STOP_SNAPSHOT, _one_or_all(sim, rng))


@action
def stop_table(sim: Simulation, rng: random.Random) -> None:
    sim.signals.order(TableOrder.STOP_TABLE, rng.choice(tables_of(sim)).name)


@action
def neighbour(sim: Simulation, rng: random.Random) -> None:
    """The publisher of another database runs, in the middle of a call of this one's."""
    sim.neighbours.run(rng.choice(NAMES), rng.choice((40, 150, 400)))


@action
def pause(sim: Simulation, rng: random.Random) -> None:
    """An operator pauses the publisher."""
    sim.signals.send(PauseSignal(True))


@action
def resume(sim: Simulation, rng: random.Random) -> None:
    """An operator has it go on."""
    sim.signals.send(PauseSignal(False))


def _one_or_all(sim: Simulation, rng: random.Random) -> str | None:
    return rng.choice([None, *(table.name for table in tables_of(sim))])
