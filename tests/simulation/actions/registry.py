"""All actions by their names, and what several of them need."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Final
from uuid import UUID

from tests.simulation.sqlserver.rows import Table

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation

Action = Callable[["Simulation", random.Random], None]

ACTIONS: Final[dict[str, Action]] = {}


def action(kind: Action) -> Action:
    """Register an action under its name."""
    ACTIONS[kind.__name__] = kind
    return kind


def tables_of(sim: Simulation) -> list[Table]:
    """Tables that exist."""
    return [table for table in sim.group.database.tables.values() if not table.is_dropped]


def new_guid(rng: random.Random) -> UUID:
    """A GUID that nothing else has."""
    return UUID(int=rng.getrandbits(128), version=4)
