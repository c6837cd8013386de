"""Publishers of other databases, whose names come near those of the one that is judged.

One has the prefix of ours: it must be refused. One has a prefix that begins with ours: it must take
no id of ours (ADR 0054).
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from tailrace_publisher.daemon.process.loop import run as run_publisher
from tailrace_publisher.errors import (
    ConfigError,
    ForeignRecords,
    PublisherError,
    TableFailed,
)
from tailrace_publisher.metrics.publisher_metrics import Metrics
from tailrace_publisher.options.publisher_config import PublisherConfig
from tests.simulation.judge.published import PREFIX
from tests.simulation.ports import new_stop
from tests.simulation.sqlserver import log as wal
from tests.simulation.sqlserver.clock import ServerClock
from tests.simulation.sqlserver.connection import Source
from tests.simulation.sqlserver.database import Database
from tests.simulation.sqlserver.group import Group, Replica
from tests.simulation.sqlserver.rows import Column
from tests.simulation.sqlserver.view import Features
from tests.simulation.world import Finding
from tests.simulation.writes import Writer

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation

NAMES: Final = ((PREFIX, "other"), (f"{PREFIX}-shop", "eu"))
"""Prefix and database."""
_TABLE: Final = 10
_COLUMNS: Final = (Column(1, "id", "int", nullable=False), Column(2, "v", "int"))


@dataclass(slots=True)
class Neighbour:
    """Another database, and the options of its publisher."""

    config: PublisherConfig
    source: Source
    rng: random.Random
    next_row: int = 1

    def change(self) -> None:
        """A transaction, which is captured."""
        group = self.source.group
        writer = Writer(group.database, group.log, self.rng, [], self.next_row, moves_keys=False)
        writer.statement()
        self.next_row = writer.next_row
        now, tran_id = group.server.clock.local(), self.rng.getrandbits(40).to_bytes(6, "big")
        group.write(wal.Commit(group.log.next_lsn(), now, tran_id, tuple(writer.changes)))
        group.end_scan(group.begin_scan())


@dataclass(slots=True)
class Neighbours:
    """The other databases of a run, by prefix and database; each is made when it is first run."""

    sim: Simulation
    made: dict[tuple[str, str], Neighbour] = field(default_factory=dict)

    def run(self, names: tuple[str, str], calls: int) -> None:
        """The publisher of another database runs for so many calls, and dies.

        Raises:
            Finding: it published under our prefix, took an id of ours, or ended by itself.
        """
        is_ours = names[0] == PREFIX
        if is_ours and self.sim.published.newest is None:
            return  # whoever is first has the prefix
        neighbour = self.made.get(names) or self._make(names)
        neighbour.change()
        records, taken = self.sim.published.records, self._times_taken()
        try:
            with self.sim.others.beside(calls, neighbour.source) as ports:
                run_publisher(neighbour.config, new_stop(), metrics=Metrics(), ports=ports)
        except PublisherError as error:
            cause = error.cause if isinstance(error, TableFailed) else error
            if not isinstance(cause, ConfigError if is_ours else ForeignRecords):
                raise Finding(
                    f"the publisher of {names[1]} ended by itself: {type(error).__name__}: {error}"
                ) from error
        if self.sim.published.records != records:
            raise Finding(f"database {names[1]} was published under prefix {PREFIX}")

        if self._times_taken() != taken:
            raise Finding(f"the publisher of {names[1]} took the id of database shop")

    def _times_taken(self) -> int:
        """How often our transactional id was taken."""
        known = self.sim.broker.producers.get(self.sim.transactional_id)
        return 0 if known is None else known.taken

    def _make(self, names: tuple[str, str]) -> Neighbour:
        prefix, database = names
        rng = random.Random(f"{self.sim.scenario.seed} {database}")
        clock = ServerClock(self.sim.world, self.sim.group.server.clock.zone)
        guids = [UUID(int=rng.getrandbits(128), version=4) for _ in range(3)]
        replica = Replica("SQL9", clock, guids[0], Database(True))
        group = Group([replica], wal.Log(), guids[1], guids[2], database_name=database)
        now = clock.local()
        group.write(wal.CreateTable(group.log.next_lsn(), now, _TABLE, "stock", _COLUMNS, (1,)))
        group.write(
            wal.EnableInstance(group.log.next_lsn(), now, "dbo_stock", _TABLE + 1, _TABLE, True)
        )
        options: dict[str, Any] = {**self.sim.scenario.options, "prefix": prefix}
        options["source"] = {**options["source"], "database": database}
        source = Source(group, Features(), self.sim.tick)
        found = Neighbour(PublisherConfig.load(options), source, rng)
        self.made[names] = found
        return found
