"""Publishers of other databases, whose names come near those of the one that is judged.

One has the prefix of ours: it must be refused. One has a prefix and a database that, joined by a
hyphen, are the name of our second shard: it must take no id of ours (ADR 0054).
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from tailrace_publisher.daemon.process.loop import run as run_publisher
from tailrace_publisher.errors import (
    ConfigError,
    DeliveryRejected,
    ForeignRecords,
    PublisherError,
    TableFailed,
)
from tailrace_publisher.metrics.publisher_metrics import Metrics
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_schemas.records.shards import map_transactional_id, transactional_id
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

NAMES: Final = ((PREFIX, "other"), (f"{PREFIX}-shop", "shard-1"))
"""Prefix and database."""
_REFUSED: Final = (ConfigError, DeliveryRejected)  # the latter where ours has several shards
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
        records, ids = self.sim.published.records, self._ids_taken()
        try:
            with self.sim.others.beside(calls, neighbour.source) as ports:
                run_publisher(neighbour.config, new_stop(), metrics=Metrics(), ports=ports)
        except PublisherError as error:
            cause = error.cause if isinstance(error, TableFailed) else error
            if not isinstance(cause, _REFUSED if is_ours else ForeignRecords):
                raise Finding(
                    f"the publisher of {names[1]} ended by itself: {type(error).__name__}: {error}"
                ) from error
        if self.sim.published.records != records:
            raise Finding(f"database {names[1]} was published under prefix {PREFIX}")

        if self._ids_taken() != ids:
            raise Finding(f"the publisher of {names[1]} took an id of database shop")

    def _ids_taken(self) -> list[int]:
        """How often each transactional id of ours was taken."""
        names = PREFIX, self.sim.config.source.database
        ours = [
            transactional_id(*names, shards, number)
            for shards in self.sim.division.maps
            for number in range(shards)
        ]
        known = self.sim.broker.producers
        found = (known.get(name) for name in (*ours, map_transactional_id(*names)))
        return [0 if one is None else one.taken for one in found]

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
