"""The world of a scenario, at its beginning: servers, a broker, a registry, captured tables."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final
from uuid import UUID

from tailrace_publisher.options.publisher_config import PublisherConfig
from tests.simulation.actions import ACTIONS
from tests.simulation.judge.lines import published_up_to
from tests.simulation.judge.logs import Told
from tests.simulation.judge.published import Published
from tests.simulation.kafka.broker import Broker
from tests.simulation.kafka.clients import KafkaFaults
from tests.simulation.kafka.registry import Schemas
from tests.simulation.scenario import Scenario
from tests.simulation.simulation import Simulation
from tests.simulation.sqlserver import log as wal
from tests.simulation.sqlserver.clock import ServerClock, Zone
from tests.simulation.sqlserver.connection import Source
from tests.simulation.sqlserver.database import Database
from tests.simulation.sqlserver.group import Group, Replica
from tests.simulation.sqlserver.rows import Column
from tests.simulation.sqlserver.view import Features
from tests.simulation.world import World

_TEMPLATES: Final = (
    ("orders", (("id", "int"), ("v", "int"), ("s", "nvarchar(20)")), 1),
    ("log", (("v", "int"), ("s", "nvarchar(20)")), 0),
    ("lines", (("id", "int"), ("line", "int"), ("v", "int")), 2),
    ("notes", (("id", "int"), ("note", "nvarchar(max)"), ("v", "int")), 1),
)
"""Name, columns, and how many of them are the primary key."""


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
        dates_back=around.dates_back,
    )
    config = PublisherConfig.load(scenario.options)
    broker = Broker(now_us=lambda: world.elapsed_us)
    schemas = Schemas()
    features = Features(
        around.has_log_stats,
        around.has_time_zone,
        around.identity,
        around.sees_state,
        around.sees_jobs,
        around.allows_snapshot,
        sees_server_state=around.sees_log,
        has_help_jobs=around.has_help_jobs,
        has_masks=around.has_masks,
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
    simulation.source.starts = lambda: simulation.told.sessions
    features.published_up_to = partial(published_up_to, simulation)
    if config.waits_for_lakes:
        features.kept_after = simulation.lake.closed
    simulation.lanes = random.Random(scenario.seed ^ 0x1A9E)
    simulation.lane_pace = rng.choice((0.1, 0.5, 1.0))
    world.on_tick = simulation.on_tick
    broker.on_commit = simulation.published.committed
    _create_tables(simulation, rng)
    return simulation


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
        is_ordered = not is_mixed or bool((place + rng.randrange(2)) % 2)
        is_listed = simulation.scenario.around.lists and len(table.columns) > len(table.key) + 1
        listed = frozenset(column.name for column in table.columns[:-1])
        captured = listed if is_listed and table.key else None
        simulation.enable(name, table, is_ordered=is_ordered, captured=captured)
    if rng.random() < 0.7:
        simulation.scan(marks_time=False)
    ACTIONS["transaction"](simulation, rng)
    simulation.first_record = len(group.log.records)
    for replica in group.replicas:
        replica.hardened = len(group.log.records)
        replica.database.redo(group.log.records, replica.hardened)
