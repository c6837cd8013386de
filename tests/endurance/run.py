"""One run: what is done to the parts, and when."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyodbc
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from tailrace_schemas.position.lsn import Lsn
from tests.endurance import switched
from tests.endurance.judge import Verdict, judge, judge_lake
from tests.endurance.source import DATABASE, Source
from tests.endurance.world import PREFIX, World
from tests.pipeline.conftest import Topics
from tests.pipeline.daemon.chaos import create_tables
from tests.pipeline.daemon.large_checkpoint import commit_often
from tests.pipeline.source_database import SourceDatabase

_CATCH_UP_S = 600.0
_HEARTBEATS = 5
"""Progress records after which the partitions were compared, whatever wrote them."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run is asked for.

    Attributes:
        minutes: how long parts are killed; starting, catching up and judging come on top.
        seed: of everything that is chosen.
        has_sink: whether a sink writes a lake.
        checkpoint_records: records that the checkpoint's topic has from the beginning to the end.
    """

    minutes: float
    seed: int
    has_sink: bool = False
    checkpoint_records: int = 0


def run(
    plan: Plan, data_dir: Path, say: Callable[[str], None], enough: threading.Event | None = None
) -> tuple[Verdict, str]:
    """One run.

    Args:
        plan: what to do.
        data_dir: for the parts, their logs included.
        say: is called with what is done.
        enough: set to begin the judging at once.

    Returns:
        What was found, and what was done, in words.

    Raises:
        EndedByItself: a daemon did.
    """
    rng = random.Random(plan.seed)
    enough = enough or threading.Event()
    began = time.monotonic()
    world = World(data_dir, has_sink=plan.has_sink)
    try:
        world.start()
        database = SourceDatabase(world.server, DATABASE)
        create_tables(database)
        switched.create(database)
        source = Source(world.server, plan.seed)
        topics = Topics(world.cluster.bootstrap_servers, world.registry.url, PREFIX)
        world.publish(rng)
        if plan.checkpoint_records:
            _fill_checkpoint(world, source, topics, plan.checkpoint_records)
            world.publish(rng)
            say(f"the checkpoint's topic has {plan.checkpoint_records:,} records")
        world.sink()
        rotations = switches = 0
        with source.working():
            deadline = time.monotonic() + plan.minutes * 60
            while time.monotonic() < deadline:
                if world.until(enough.is_set, rng.uniform(1, 12)):
                    break
                if rng.random() < 0.5:
                    world.kill_one(rng)
                if rng.random() < 0.3:
                    with suppress(pyodbc.Error):
                        say(source.switch(rng, switches + 1))
                        switches += 1
                with suppress(pyodbc.Error):
                    if rng.random() < 0.5:
                        rotations += 1
                        say(source.rotate(rng, rotations))
                    if rng.random() < 0.3:
                        source.clean_up(topics.through())
                say(f"kills {world.kills}, transactions {source.transactions}")
        lasted = (time.monotonic() - began) / 60
        _catch_up(world, source, topics, has_sink=plan.has_sink)
        verdict = judge(source, topics)
        if plan.has_sink:
            judge_lake(source, world, verdict)
        topics.close()
    finally:
        world.end()
    captured = sum(len(positions) for positions in source.captured.values())
    done = (
        f"{lasted:.1f} minutes, seed {plan.seed}: {source.transactions} transactions, {captured}"
        f" change rows, {verdict.events} events, {rotations} rotations, {switches} switches, kills"
        f" {world.kills}, not part of the cut for a while: {dict(verdict.snapshots)}"
    )
    return verdict, done


def _fill_checkpoint(world: World, source: Source, topics: Topics, records: int) -> None:
    """Stop a publisher that has a checkpoint, and let its topic be one of a long life."""
    source.scan()
    if not world.until(lambda: bool(topics.progress()), _CATCH_UP_S):
        raise AssertionError("no progress record")
    world.stop_publisher()
    _keep_all(topics)
    commit_often(topics, records)


def _keep_all(topics: Topics) -> None:
    """Let the brokers take nothing from the checkpoint's topic for a day."""
    lag = ConfigEntry(
        "min.compaction.lag.ms", "86400000", incremental_operation=AlterConfigOpType.SET
    )
    resource = ConfigResource(ResourceType.TOPIC, topics.names.offsets, incremental_configs=[lag])
    admin = AdminClient({"bootstrap.servers": topics.bootstrap})
    (changed,) = admin.incremental_alter_configs([resource]).values()
    changed.result(30)


def _catch_up(world: World, source: Source, topics: Topics, *, has_sink: bool) -> None:
    source.scan()
    newest = source.max_lsn()

    def is_out() -> bool:
        records = topics.progress()
        if not records:
            return False
        last = records[-1]
        return not last["snapshotting"] and Lsn.parse(last["through_lsn"]) >= newest

    def is_in_lake() -> bool:
        cuts = world.commits.read()
        return bool(cuts) and Lsn.parse(cuts[-1].closed_lsn) >= newest

    def has_looked() -> bool:
        return len(topics.progress()) >= looked

    looked = 0
    for _ in range(2):  # a switch of the end is noticed by a heartbeat, after all is out
        is_caught_up = world.until(has_looked, _CATCH_UP_S) and world.until(is_out, _CATCH_UP_S)
        looked = len(topics.progress()) + _HEARTBEATS
    if not is_caught_up:
        raise AssertionError(f"not caught up within {_CATCH_UP_S:g} s: {topics.progress()[-1]}")
    if has_sink and not world.until(is_in_lake, _CATCH_UP_S):
        raise AssertionError(f"the lake is not at {newest} within {_CATCH_UP_S:g} s")
