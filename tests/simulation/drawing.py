"""A scenario is drawn from one seed, before it runs.

Each seed draws which kinds of steps it has and how often each comes (swarm testing: a run with few
kinds reaches deeper than one with all of them). What came to be modelled later is drawn apart, so
that the seeds before stay what they were.

https://users.cs.utah.edu/~regehr/papers/swarm12.pdf
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any, Final

from tests.simulation.lake import GROUP
from tests.simulation.scenario import Scenario, Step, Surroundings

_SEED_MAX: Final = 1 << 30
_ROW_BY_ROW: Final = 0.2
"""Share of the seeds that read row by row, as where there is no numpy."""
_CALM: Final = 0.5
"""Share of the others in which snapshots are mostly over before the first step: while a table has
one, its changes are read row by row."""

_ALWAYS: Final = {"transaction": 12.0, "capture": 8.0}
_SOMETIMES: Final = {
    "large_transaction": 2.0,
    "reserve": 1.0,
    "begin_capture": 2.0,
    "fail_capture": 0.7,
    "stop_capture": 0.7,
    "cleanup": 2.0,
    "late_cleanup": 0.5,
    "delete_change_rows": 1.0,
    "enable": 2.5,
    "disable": 2.0,
    "add_column": 1.5,
    "drop_column": 0.7,
    "alter_column": 1.0,
    "drop_table": 0.2,
    "update_server": 0.5,
    "step_clock": 1.0,
    "pass_time": 1.5,
    "torn_read": 2.0,
    "refuse_table": 0.6,
    "refuse_state": 0.4,
    "allow": 1.0,
    "source_error": 1.0,
    "login_error": 0.5,
    "disconnect": 1.0,
    "server_down": 0.5,
    "kill": 2.0,
    "commit_late": 1.0,
    "commit_done": 1.0,
    "commit_never": 0.3,
    "stall": 0.7,
    "no_coordinator": 0.5,
    "no_leader": 0.7,
    "no_broker": 0.5,
    "no_registry": 0.5,
    "hold_markers": 0.7,
    "compact": 0.7,
    "intruder": 0.3,
    "second_publisher": 0.4,
    "retention": 0.7,
    "signal": 0.6,
}
_OF_GROUPS: Final = {
    "lag": 3.0,
    "catch_up": 2.0,
    "ship": 3.0,
    "redo": 3.0,
    "fail_over": 1.0,
    "force_fail_over": 0.4,
}
_OF_SINGLE_SERVERS: Final = {"restore": 0.3}


_TROUBLE: Final = {
    "slow_calls": 0.2,
    "stray_record": 0.15,
    "busy_statement": 0.2,
}
"""Actions, and the share of the seeds that have them."""
_LOSSES: Final = 0.04
"""Share of the seeds in which brokers lose the end of the checkpoints."""
_RENAMED: Final = 0.15
"""Share of the seeds in which tables are renamed, and keep their topics."""
_NEIGHBOURS: Final = 0.1
"""Share of the seeds in which other databases are published on the same brokers."""
_FILLED: Final = 0.4
"""Share of the seeds in which columns are added whose values no change table has."""
_ROTATES: Final = 0.3
"""Share of the seeds in which the publisher creates and drops capture instances itself."""
_CLEANS: Final = 0.25
"""Share of the seeds in which the publisher removes change rows itself."""
_LAKES: Final = 0.5
"""Share of those in which it waits for a lake."""
_DATES_BACK: Final = 0.4
"""Share of the seeds in which creation dates of capture instances go backwards."""
_LISTS: Final = 0.2
"""Share of the seeds in which capture instances were created with column lists."""
_REPLACED: Final = 0.15
"""Share of the seeds in which the database is replaced while the publisher waits for Kafka, or in
which secondaries are suspended."""
_LOCKED: Final = 0.3
"""Share of the seeds with changes by the publisher in which those get no lock."""
_REPEATED: Final = 0.3
"""Share of the seeds with such changes and clocks that may be set, in which times come again."""
_UNTIMELY: Final = 0.25
"""Share of the seeds in which a session is done before its rows are committed, or users commit
before an empty scan's time mark."""
_HAS_HELP_JOBS: Final = 0.9
_SEES_SERVER_STATE: Final = 0.6
_MASKED: Final = 0.5
"""Share of the seeds whose servers have masks and security policies (SQL Server 2016)."""
_HIDING: Final = (
    ("mask_column", "take_unmask"),
    ("mask_column", "take_unmask"),
    ("take_unmask", "mask_column", "mask_change_tables"),
    ("mask_column", "mask_change_tables", "take_unmask"),
    ("take_unmask", "mask_column", "mask_column", "enable", "mask_change_tables"),
    ("filter_rows",),
)
"""What hides values and rows, in an order; in a part of those seeds only."""
_HIDES: Final = 0.3
_SLOW: Final = 0.05
"""Share of the seeds in which every call takes long."""


_ORDERS: Final = (
    ("signal", "pause_snapshot", "resume_snapshot"),
    ("signal", "stop_snapshot", "signal"),
    ("signal", "pause_snapshot", "stop_snapshot"),
    ("pause_snapshot", "resume_snapshot"),
    ("stop_snapshot", "signal"),
    ("stop_table", "signal"),
    ("signal_part",),
    ("signal_part", "kill", "pause_snapshot", "resume_snapshot"),
    ("signal_part", "stop_snapshot"),
    ("signal_part", "signal"),
    ("pause", "resume"),
    ("pause",),
)
"""What operators ask for by signals; in some seeds only, whose other steps are as without."""


def draw(seed: int) -> Scenario:
    """The scenario of a seed."""
    rng = random.Random(seed)
    around = _surroundings(rng)
    weights = dict(_ALWAYS)
    possible = {**_SOMETIMES, **(_OF_GROUPS if around.replicas > 1 else _OF_SINGLE_SERVERS)}
    share = rng.choice((0.15, 0.35, 0.6, 1.0))
    for kind, weight in possible.items():
        if rng.random() < share:
            weights[kind] = weight * rng.choice((0.3, 1.0, 3.0))
    if around.command_ids == "updated":
        weights.update(update_server=1.0, enable=2.5)
    if around.command_ids == "mixed":
        weights.update(large_transaction=4.0, kill=2.0, reserve=1.0)
    if around.read_only:
        weights.update(lag=3.0, redo=3.0)
    if around.goes_by_time or around.zone_back or around.replicas > 1:
        weights.pop("refuse_state", None)
    if around.goes_by_time or "refuse_state" in weights:
        weights.pop("step_clock", None)  # fences may be moments
    kinds = list(weights)
    count = rng.choice((20, 40, 60, 90))
    drawn = rng.choices(kinds, [weights[kind] for kind in kinds], k=count)
    spread = rng.choice((2, 6, 15, 40))
    steps = tuple(Step(kind, rng.randrange(spread), rng.randrange(_SEED_MAX)) for kind in drawn)
    steps = _with_orders(random.Random(seed ^ 0x0DE5), steps, spread)
    options = _options(rng, around)
    if seed % 4 == 3:
        options["source"]["read_mode"] = "function"
    around, steps = _with_blocks(random.Random(seed ^ 0xB10C), around, steps, spread)
    around, steps = _with_trouble(random.Random(seed ^ 0x7206), around, steps, spread)
    steps = _with_neighbours(random.Random(seed ^ 0x0E16), steps, spread)
    rng = random.Random(seed ^ 0xF111)
    if rng.random() < _FILLED:
        steps = _mixed(rng, steps, spread, "add_filled_column", rng.choice((1, 2, 4)))
    options["tables"] = _tables(random.Random(seed ^ 0x2074), steps)
    if random.Random(seed ^ 0xC1EA).random() < _CLEANS:
        options["cleanup"] = {"wait_for": "topics", "every_s": 1}
    steps = _with_lake(random.Random(seed ^ 0x1A4E), options, steps, spread)
    around = replace(around, lists=random.Random(seed ^ 0x1157).random() < _LISTS)
    around, steps = _with_dates(random.Random(seed ^ 0xDA7E), around, steps, spread)
    steps = _with_losses(random.Random(seed ^ 0x105E), steps, spread)
    steps = _with_changes(random.Random(seed ^ 0xC4A6), around, options, steps, spread)
    around, steps = _with_rights(random.Random(seed ^ 0x5EE5), around, steps, spread)
    around, steps = _with_masks(random.Random(seed ^ 0x3A5C), around, steps, spread)
    return Scenario(seed, around, options, steps)


def _with_dates(
    rng: random.Random, around: Surroundings, steps: tuple[Step, ...], spread: int
) -> tuple[Surroundings, tuple[Step, ...]]:
    """Instances whose dates say the opposite of their order, some of tables that are published."""
    if rng.random() > _DATES_BACK:
        return around, steps
    half = len(steps) // 2
    grown = _mixed(rng, steps[half:], spread, "grow", rng.choice((1, 3)))
    return replace(around, dates_back=True), steps[:half] + grown


def _with_losses(rng: random.Random, steps: tuple[Step, ...], spread: int) -> tuple[Step, ...]:
    """Brokers lose the end of the checkpoints."""
    if rng.random() < _LOSSES:
        return _mixed(rng, steps, spread, "lose_checkpoint_end", rng.choice((1, 2)))
    return steps


def _with_rights(
    rng: random.Random, around: Surroundings, steps: tuple[Step, ...], spread: int
) -> tuple[Surroundings, tuple[Step, ...]]:
    """Less may be seen of the server; sessions are done early, and marks come late."""
    for kind in ("capture_early", "mark_late"):
        if rng.random() < _UNTIMELY:
            steps = _mixed(rng, steps, spread, kind, rng.choice((2, 5, 15)))
    around = replace(around, has_help_jobs=rng.random() < _HAS_HELP_JOBS)
    # What moments cannot keep is left out: see goes_by_time.
    is_even = not (around.zone_back or around.read_only)
    if is_even and not any(step.kind in {"step_clock", "refuse_state"} for step in steps):
        around = replace(around, sees_server_state=rng.random() < _SEES_SERVER_STATE)
    return around, steps


def _with_masks(
    rng: random.Random, around: Surroundings, steps: tuple[Step, ...], spread: int
) -> tuple[Surroundings, tuple[Step, ...]]:
    """Servers that can hide values and rows, and what hides them."""
    if rng.random() > _MASKED:
        return around, steps
    around = replace(around, has_masks=True)
    if rng.random() > _HIDES:
        return around, steps
    mixed = list(steps)
    place = rng.choice((rng.randrange(len(mixed) // 2 + 1), rng.randrange(6)))
    apart = rng.choice((2, 6, len(mixed) // 3))  # a right that is revoked alone is in no catalog
    for kind in rng.choice(_HIDING):
        mixed.insert(place, Step(kind, rng.randrange(spread), rng.randrange(_SEED_MAX)))
        place += rng.randrange(1, apart)
    return around, tuple(mixed)


def _with_lake(
    rng: random.Random, options: dict[str, Any], steps: tuple[Step, ...], spread: int
) -> tuple[Step, ...]:
    """Have cleanup and rotation wait for a lake."""
    if not options.get("cleanup") or rng.random() > _LAKES:
        return steps
    options["cleanup"]["wait_for"] = "lake"
    options["lakes"] = [GROUP]
    options["tables"]["drop_after"] = "lake"
    return _mixed(rng, steps, spread, "lake_reads", rng.choice((1, 5, 20)))


def _with_changes(
    rng: random.Random,
    around: Surroundings,
    options: dict[str, Any],
    steps: tuple[Step, ...],
    spread: int,
) -> tuple[Step, ...]:
    """What matters to a publisher that changes the source; drawn apart."""
    if rng.random() < _REPLACED:
        if around.replicas == 1:
            steps = _mixed(rng, steps, spread, "replaced_amid", 1)
        elif around.replicas > 2:
            steps = _mixed(rng, steps, spread, "suspend", 1)
            steps = _mixed(rng, steps, spread, "resume_replicas", rng.choice((0, 1)))
    if not options.get("cleanup") and "schema_change" not in options["tables"]:
        return steps
    if rng.random() < _LOCKED:
        steps = _mixed(rng, steps, spread, "lock_changes", rng.choice((1, 3)))
    if rng.random() < _REPEATED and not around.goes_by_time:
        steps = _mixed(rng, steps, spread, "repeat_times", rng.choice((1, 3)))
    return steps


def _tables(rng: random.Random, steps: tuple[Step, ...]) -> dict[str, Any]:
    """What happens to tables that are renamed, or get other columns."""
    tables = {}
    if any(step.kind == "rename_table" for step in steps):
        tables["on_rename"] = "keep_topic"
    if rng.random() < _ROTATES:
        tables["schema_change"] = "rotate"
    return tables


def _with_orders(rng: random.Random, steps: tuple[Step, ...], spread: int) -> tuple[Step, ...]:
    if rng.random() < 0.6:
        return steps
    mixed = list(steps)
    for _ in range(rng.choice((1, 3, 6))):
        place = rng.choice((rng.randrange(len(mixed) + 1), rng.randrange(6)))
        for kind in rng.choice(_ORDERS):
            step = Step(kind, rng.randrange(spread), rng.randrange(_SEED_MAX))
            mixed.insert(place, step)
            place += rng.choice((1, 1, 2))
    return tuple(mixed)


def _with_blocks(
    rng: random.Random, around: Surroundings, steps: tuple[Step, ...], spread: int
) -> tuple[Surroundings, tuple[Step, ...]]:
    """Rows are read in blocks in most seeds, and in some of those pages are declined."""
    if rng.random() < _ROW_BY_ROW:
        return around, steps
    around = replace(around, blocks=True, few_rows=rng.choice((0, 1, 3)))
    steps = _mixed(rng, steps, spread, "decline_block", rng.choice((0, 1, 3, 10)))
    if rng.random() < _CALM:
        steps = tuple(Step("capture", 30, rng.randrange(_SEED_MAX)) for _ in range(8)) + steps
    return around, steps


def _with_trouble(
    rng: random.Random, around: Surroundings, steps: tuple[Step, ...], spread: int
) -> tuple[Surroundings, tuple[Step, ...]]:
    """What came to be modelled later; drawn apart, so that the seeds before stay what they were."""
    for kind, share in _TROUBLE.items():
        if rng.random() < share:
            steps = _mixed(rng, steps, spread, kind, rng.choice((1, 2, 5)))
    rng.random()  # chose what is not modelled any more; what follows stays what it was
    if rng.random() < _RENAMED:
        steps = _mixed(rng, steps, spread, "rename_table", rng.choice((2, 5)))
    if rng.random() < _SLOW:
        around = replace(around, call_s=rng.choice((0.05, 0.2, 0.5)))
    return around, steps


def _with_neighbours(rng: random.Random, steps: tuple[Step, ...], spread: int) -> tuple[Step, ...]:
    """Publishers of other databases, of which two in a row take an id for good."""
    if rng.random() < _NEIGHBOURS:
        return _mixed(rng, steps, spread, "neighbour", rng.choice((1, 3, 6)))
    return steps


def _mixed(
    rng: random.Random, steps: tuple[Step, ...], spread: int, kind: str, count: int
) -> tuple[Step, ...]:
    """Steps, with some of a further kind among them."""
    mixed = list(steps)
    for _ in range(count):
        step = Step(kind, rng.randrange(spread), rng.randrange(_SEED_MAX))
        mixed.insert(rng.randrange(len(mixed) + 1), step)
    return tuple(mixed)


def _surroundings(rng: random.Random) -> Surroundings:
    replicas = rng.choice((1, 1, 1, 2, 3, 3))
    around = Surroundings(
        replicas=replicas,
        read_only=replicas > 1 and rng.random() < 0.6,
        passes_async=rng.random() < 0.3,
        maxtrans=rng.choice((1, 2, 5, 500)),
        command_ids=rng.choice(("all", "all", "none", "updated", "updated", "mixed", "mixed")),
        has_log_stats=rng.random() < 0.7,
        has_time_zone=rng.random() < 0.5,
        identity=rng.choice(("visible", "visible", "visible", "hidden", "missing")),
        sees_state=rng.random() < 0.85,
        sees_jobs=rng.random() < 0.4,
        zone_change_h=rng.choice((None, None, None, 0.02, 0.5)),
        zone_back=rng.random() < 0.6,
        tables=rng.choice((1, 2, 2, 3, 4)),
        allows_snapshot=rng.random() < 0.3,
    )
    if around.goes_by_time:
        return replace(around, replicas=1, read_only=False, zone_back=False)
    return around


def _options(rng: random.Random, around: Surroundings) -> dict[str, Any]:
    return {
        "source": {
            "host": "listener",
            "database": "shop",
            "user": "tailrace",
            "password": "secret",
            "application_intent": "ReadOnly" if around.read_only else "ReadWrite",
        },
        "kafka": {
            "bootstrap": "broker:9092",
            "partitions": rng.choice((1, 2, 3)),
            "commit_timeout_s": rng.choice((1.0, 5.0, 60.0)),
            "transaction_timeout_s": rng.choice((10.0, 300.0)),
        },
        "registry": {"url": "http://registry"},
        "prefix": "sim",
        "page_rows": rng.choice((1, 1, 2, 3, 7, 100)),
        "window_transactions": rng.choice((1, 2, 5, 1000)),
        "rows_per_transaction": rng.choice((1, 2, 5, 20, 1000)),
        "linger_ms": rng.choice((0, 1, 150)),
        "poll_interval_ms": rng.choice((10, 500)),
        "heartbeat_s": rng.choice((0.5, 2.0, 10.0)),
        "retry_backoff_max_s": rng.choice((0.5, 30.0)),
        "tombstones": rng.random() < 0.5,
        "snapshot": {
            "mode": "no_data" if rng.random() < 0.1 else "initial",
            "on_gap": rng.choice(("stop", "snapshot")),
            "chunk_rows": rng.choice((1, 2, 5, 100)),
        },
    }
