"""One run: what is done to the parts, and when."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pyodbc

from tailrace_schemas.lsn import Lsn
from tests.endurance.judge import Verdict, judge
from tests.endurance.source import DATABASE, Source
from tests.endurance.world import PREFIX, World
from tests.pipeline.chaos import create_tables
from tests.pipeline.conftest import Topics
from tests.pipeline.source_database import SourceDatabase

_CATCH_UP_S = 600.0


def run(
    minutes: float,
    seed: int,
    data_dir: Path,
    say: Callable[[str], None],
    enough: threading.Event | None = None,
) -> tuple[Verdict, str]:
    """One run.

    Args:
        minutes: how long parts are killed; starting, catching up and judging come on top.
        seed: of everything that is chosen here.
        data_dir: for the parts, their logs included.
        say: is told what is done.
        enough: set to go on to the judging at once.

    Returns:
        What was found, and what was done, in words.

    Raises:
        EndedByItself: the publisher did.
    """
    rng = random.Random(seed)
    enough = enough or threading.Event()
    began = time.monotonic()
    world = World(data_dir)
    try:
        world.start()
        create_tables(SourceDatabase(world.server, DATABASE))
        source = Source(world.server, seed)
        topics = Topics(world.cluster.bootstrap_servers, world.registry.url, PREFIX)
        world.publish(rng)
        rotations = 0
        with source.working():
            deadline = time.monotonic() + minutes * 60
            while time.monotonic() < deadline:
                if world.until(enough.is_set, rng.uniform(1, 12)):
                    break
                if rng.random() < 0.5:
                    world.kill_one(rng)
                with suppress(pyodbc.Error):
                    if rng.random() < 0.5:
                        rotations += 1
                        say(source.rotate(rng, rotations))
                    if rng.random() < 0.3:
                        source.clean_up(topics.through())
                say(f"kills {world.kills}, transactions {source.transactions}")
        lasted = (time.monotonic() - began) / 60
        _catch_up(world, source, topics)
        verdict = judge(source, topics)
        topics.close()
    finally:
        world.end()
    captured = sum(len(positions) for positions in source.captured.values())
    done = (
        f"{lasted:.1f} minutes, seed {seed}: {source.transactions} transactions, {captured} change"
        f" rows, {verdict.events} events, {rotations} rotations, kills {world.kills}, not part of"
        f" the cut for a while: {dict(verdict.snapshots)}"
    )
    return verdict, done


def _catch_up(world: World, source: Source, topics: Topics) -> None:
    source.scan()
    newest = source.max_lsn()

    def is_out() -> bool:
        records = topics.progress()
        if not records:
            return False
        last = records[-1]
        return not last["snapshotting"] and Lsn.parse(last["through_lsn"]) >= newest

    if not world.until(is_out, _CATCH_UP_S):
        raise AssertionError(f"not caught up within {_CATCH_UP_S:g} s: {topics.progress()[-1]}")
