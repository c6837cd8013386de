"""Random work, random deaths, cuts, cleanups and hand-overs; at the end everything is out once.

The seed is in the failure's text. More of it, by hand:

    TAILRACE_CHAOS_ROUNDS=200 TAILRACE_CHAOS_SEED=$RANDOM pytest tests/pipeline/daemon/test_chaos.py
"""

from __future__ import annotations

import itertools
import os
import random
from typing import Any

import pytest

from tailrace_schemas.position.lsn import Lsn
from tests.pipeline.conftest import Pipe
from tests.pipeline.daemon.chaos import (
    TABLES,
    Captured,
    Writers,
    create_tables,
    is_in_order,
    names_of,
    rows_of,
)
from tests.pipeline.daemon.test_kill import scanning
from tests.pipeline.proxy import Proxy
from tests.pipeline.running import Running, live_until_killed
from tests.pipeline.subscribe.subscribers import subscribed

pytestmark = pytest.mark.kafka

ROUNDS = int(os.environ.get("TAILRACE_CHAOS_ROUNDS", "4"))
SEED = int(os.environ.get("TAILRACE_CHAOS_SEED", "20261121"))
STEPS = ("window", "page", "sent", "committed")


@pytest.mark.slow("publishers are killed and parts fail, round after round")
@pytest.mark.timeout(300 + 30 * ROUNDS)
def test_everything_is_out_once_whatever_happens(pipe: Pipe):
    rng = random.Random(SEED)
    source = pipe.source
    create_tables(source)
    captured = Captured(source)
    with Writers(source, SEED).writing(), scanning(source):
        for number in range(ROUNDS):
            options = pipe.options(**_sizes(rng))
            what = rng.choice((_killed, _cut, _stopped))
            what(pipe, options, rng)
            if rng.random() < 0.5:
                captured.clean_up(pipe.topics.through())
            _hand_over(pipe, captured, rng, number)
    source.scan()
    with Running(pipe.config()) as publisher:
        publisher.until(pipe.is_caught_up, f"everything is out (seed {SEED})")
    captured.look()
    begin = Lsn.parse(pipe.topics.progress()[0]["after_lsn"])  # the snapshot has what was before
    for table in TABLES:
        published = pipe.topics.positions(source.name, table)
        assert published == captured.positions(table, begin), f"{table} (seed {SEED})"
        assert_in_order(pipe, table)
        assert_state(pipe, table)
    assert_no_gap_between_records(pipe)
    events = (event for table in TABLES for event in pipe.topics.events(source.name, table))
    subscribed(pipe, (event for event in events if event.envelope is not None))


def _sizes(rng: random.Random) -> dict[str, Any]:
    return {
        "page_rows": rng.choice((1, 2, 7, 1000)),
        "rows_per_transaction": rng.choice((1, 5, 1000)),
        "linger_ms": rng.choice((0, 50)),
        "window_transactions": rng.choice((1, 3, 1000)),
        "snapshot": {"chunk_rows": rng.choice((1, 3, 1000))},
    }


def _killed(pipe: Pipe, options: dict[str, Any], rng: random.Random) -> None:
    live_until_killed(options, rng.choice(STEPS), rng.randrange(1, 8))


def _stopped(pipe: Pipe, options: dict[str, Any], rng: random.Random) -> None:
    steps = rng.randrange(1, 40)
    with Running(pipe.config(**options)) as publisher:
        publisher.until(lambda: len(publisher.steps) >= steps, "some steps")


def _cut(pipe: Pipe, options: dict[str, Any], rng: random.Random) -> None:
    """The connection to the server breaks in mid-stream, twice."""
    host, port = options["source"]["host"], options["source"]["port"]
    proxy = Proxy(host, port)
    behind = options["source"] | {"host": "127.0.0.1", "port": proxy.port}
    proxy.open()
    try:
        with Running(pipe.config(**options | {"source": behind})) as publisher:
            for _ in range(2):
                goal = len(publisher.steps) + rng.randrange(1, 30)
                publisher.until(lambda goal=goal: len(publisher.steps) >= goal, "some steps")
                told = len(publisher.told("retrying"))
                proxy.close()
                publisher.until(
                    lambda told=told: len(publisher.told("retrying")) > told, "it notices"
                )
                proxy.open()
    finally:
        proxy.close()


def _hand_over(pipe: Pipe, captured: Captured, rng: random.Random, number: int) -> None:
    """Begin a hand-over to a new capture instance, or end one."""
    table = rng.choice(TABLES)
    if not captured.has_two(table):
        captured.add_column(table, number)
        return
    with Running(pipe.config()) as publisher:
        through = pipe.source.max_lsn()
        publisher.until(lambda: pipe.topics.through() >= through, "the hand-over is behind it")
    captured.drop_oldest(table)


def assert_in_order(pipe: Pipe, table: str) -> None:
    """In every partition the changes have rising positions."""
    assert is_in_order(pipe.topics.changes(pipe.source.name, table)), f"{table} (seed {SEED})"


def assert_state(pipe: Pipe, table: str) -> None:
    """Whoever applies the events has the source's keys and values."""
    events = [event for event in pipe.topics.events(pipe.source.name, table) if event.envelope]
    found = pipe.source.query(f"SELECT {', '.join(names_of(table))} FROM dbo.{table}")
    assert rows_of(events, table) == {row[:-1]: row for row in found}, f"{table} (seed {SEED})"


def assert_no_gap_between_records(pipe: Pipe) -> None:
    """Each progress record begins where the one before ended."""
    for before, after in itertools.pairwise(pipe.topics.progress()):
        assert after["after_lsn"] == before["through_lsn"], f"seed {SEED}"
