"""Brokers, registry, other producers."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from tests.simulation.actions.registry import action

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation


@action
def commit_late(sim: Simulation, rng: random.Random) -> None:
    sim.faults.commits += ["late"] * rng.choice((1, 1, 3, 8))


@action
def commit_done(sim: Simulation, rng: random.Random) -> None:
    sim.faults.commits.append("done")


@action
def commit_never(sim: Simulation, rng: random.Random) -> None:
    """The outcome stays unknown, of a commit that was done or one that was not."""
    sim.faults.commits += [rng.choice(("done", "late"))] + ["late"] * 70


@action
def stall(sim: Simulation, rng: random.Random) -> None:
    sim.faults.stalls += rng.choice((1, 3, 70))


@action
def no_coordinator(sim: Simulation, rng: random.Random) -> None:
    sim.faults.inits += rng.choice((1, 3))


@action
def no_leader(sim: Simulation, rng: random.Random) -> None:
    sim.faults.asks += rng.choice((1, 4))


@action
def no_broker(sim: Simulation, rng: random.Random) -> None:
    sim.faults.reads += rng.choice((1, 4))


@action
def no_registry(sim: Simulation, rng: random.Random) -> None:
    sim.faults.registry += rng.choice((1, 4))


@action
def hold_markers(sim: Simulation, rng: random.Random) -> None:
    """Markers come late from now on, or in time again."""
    sim.broker.holds_markers = not sim.broker.holds_markers
    sim.broker.write_markers()


@action
def compact(sim: Simulation, rng: random.Random) -> None:
    """The log cleaner passes over the checkpoint topic."""
    if "sim.offsets" in sim.broker.topics:
        sim.broker.compact("sim.offsets")


@action
def intruder(sim: Simulation, rng: random.Random) -> None:
    """Another publisher starts with our transactional id, and dies before it commits."""
    if sim.transactional_id in sim.broker.producers:
        sim.broker.init_producer(sim.transactional_id, 10_000_000)
        sim.others.intrusions += 1


@action
def second_publisher(sim: Simulation, rng: random.Random) -> None:
    """Another publisher starts with our transactional id, publishes for a while, and dies."""
    if sim.transactional_id in sim.broker.producers:
        sim.others.run_another(rng.choice((40, 90, 150, 400)))


@action
def stray_record(sim: Simulation, rng: random.Random) -> None:
    """Somebody writes into a topic of changes, between two records of the publisher's."""
    sim.faults.strays += rng.choice((1, 1, 2))


@action
def lake_reads(sim: Simulation, rng: random.Random) -> None:
    """The lake takes some of the changes that are published."""
    sim.lake.read(rng.random())


@action
def lose_checkpoint_end(sim: Simulation, rng: random.Random) -> None:
    """A leader is elected that lacks the end of the checkpoints; the publisher starts again."""
    topic = sim.broker.topics.get("sim.offsets")
    if topic is None or not _shows_end(sim):
        return
    sim.broker.write_markers()
    (partition,) = topic.partitions
    ends = sim.published.ends_before_newest(partition)
    if ends:
        partition.lose_from(rng.choice(ends))
        sim.excuses.has_lost_end = True
        sim.kill_in = 0


def _shows_end(sim: Simulation) -> bool:
    """Whether the newest progress record is there: only it shows that the checkpoint lost its end.

    Retention takes it from a publisher that is stopped for 30 days. Both at once leave no trace.
    """
    (progress,) = sim.broker.topics["sim.progress"].partitions
    return any(of.offset >= progress.log_start for of in progress.committed())


@action
def retention(sim: Simulation, rng: random.Random) -> None:
    """Retention takes the oldest records of a topic, but of the one that is compacted."""
    # Nobody leaves a publisher in such a state for 30 days.
    kept = (".offsets", ".progress") if sim.excuses.has_lost_end else (".offsets",)
    topics = [topic for name, topic in sim.broker.topics.items() if not name.endswith(kept)]
    if topics:
        for partition in rng.choice(topics).partitions:
            end = partition.stable_end()
            partition.log_start = rng.randrange(partition.log_start, end + 1)
