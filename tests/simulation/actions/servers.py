"""Time, replicas, restores."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from tests.simulation.actions.registry import ACTIONS, action, new_guid

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation


@action
def step_clock(sim: Simulation, rng: random.Random) -> None:
    if not sim.source.features.sees_server_state:
        return  # without the end of the log, fences are moments (``goes_by_time``)
    replica = rng.choice(sim.group.replicas)
    replica.clock.step(rng.choice((-1, 1)) * rng.choice((50, 5_000, 600_000, 5_400_000)))
    sim.clock_steps += 1


@action
def repeat_times(sim: Simulation, rng: random.Random) -> None:
    """The primary's clock is set back to the time of a commit, so commit times come again."""
    entries = sim.group.database.mapping[-20:]
    if entries and sim.source.features.sees_server_state:
        clock = sim.group.server.clock
        since = clock.local() - rng.choice(entries).tran_end_time
        clock.step(-round(max(since.total_seconds(), 0) * 1000))
        sim.clock_steps += 1


@action
def pass_time(sim: Simulation, rng: random.Random) -> None:
    sim.world.advance(rng.choice((1, 15, 70, 400, 4000)))


@action
def lag(sim: Simulation, rng: random.Random) -> None:
    """A secondary falls behind: it does not harden, or does not redo."""
    place = rng.randrange(len(sim.group.replicas))
    (sim.not_hardening if rng.random() < 0.4 else sim.not_redoing).add(place)


@action
def catch_up(sim: Simulation, rng: random.Random) -> None:
    place = rng.randrange(len(sim.group.replicas))
    sim.not_hardening.discard(place)
    sim.not_redoing.discard(place)


@action
def ship(sim: Simulation, rng: random.Random) -> None:
    replica = rng.choice(sim.group.replicas)
    if replica is not sim.group.server:
        sim.group.ship(replica, rng.randrange(1, 5))


@action
def redo(sim: Simulation, rng: random.Random) -> None:
    replica = rng.choice(sim.group.replicas)
    if replica is not sim.group.server:
        sim.group.redo(replica, rng.randrange(1, 5))


@action
def fail_over(sim: Simulation, rng: random.Random) -> None:
    """A planned failover: to a replica that has hardened everything."""
    group = sim.group
    able = [
        place
        for place, replica in enumerate(group.replicas)
        if replica is not group.server
        and replica.suspension is None
        and replica.hardened == len(group.log.records)
    ]
    if able:
        sim.running_scan = None
        group.fail_over(rng.choice(able), None)


@action
def force_fail_over(sim: Simulation, rng: random.Random) -> None:
    """A forced failover: what the other had not hardened is lost."""
    group = sim.group
    sim.running_scan = None
    others = [place for place, r in enumerate(group.replicas) if r is not group.server]
    sim.excuses.leave_line(lambda: group.fail_over(rng.choice(others), new_guid(rng)))


@action
def suspend(sim: Simulation, rng: random.Random) -> None:
    """A forced failover; the remaining secondaries are readable for those who are connected."""
    group = sim.group
    sim.running_scan = None
    others = [place for place, r in enumerate(group.replicas) if r is not group.server]
    to = rng.choice([p for p in others if group.replicas[p].suspension is None] or others)
    sim.excuses.leave_line(lambda: group.fail_over(to, new_guid(rng), suspends=True))
    _capture_at_once(sim, rng)


@action
def resume_replicas(sim: Simulation, rng: random.Random) -> None:
    """Data movement of suspended secondaries is resumed."""
    for replica in sim.group.replicas:
        sim.group.resume(replica)


@action
def replaced_amid(sim: Simulation, rng: random.Random) -> None:
    """While the publisher waits for Kafka, the database is replaced and captures something."""
    group = sim.group
    records = len(group.log.records)
    kept = max(sim.first_record, records - rng.choice((2, 10, 30, 80)))

    def happens() -> None:
        sim.world.advance(3)
        sim.running_scan = None
        sim.excuses.leave_line(lambda: group.restore(kept, None, group.fork_guid))
        for _ in range(rng.choice((1, 3, 8))):
            _capture_at_once(sim, rng)

    sim.faults.amid_commit.append(happens)


@action
def lock_changes(sim: Simulation, rng: random.Random) -> None:
    """Transactions hold source tables: the publisher's next changes of the source get no lock."""
    sim.source.locked += rng.choice((1, 2, 5))


def _capture_at_once(sim: Simulation, rng: random.Random) -> None:
    """Users commit, and the capture process is as fast."""
    for _ in range(rng.choice((1, 2, 4))):
        ACTIONS["transaction"](sim, rng)
    sim.scan(marks_time=False)


@action
def restore(sim: Simulation, rng: random.Random) -> None:
    """An older backup is restored in place: seldom what is published is in it."""
    group = sim.group
    records = len(group.log.records)
    kept = max(sim.first_record, records - rng.choice((0, 1, 2, 4, 10)))
    sim.running_scan = None
    guid = new_guid(rng) if rng.random() < 0.5 else None
    sim.excuses.leave_line(lambda: group.restore(kept, guid, new_guid(rng)))
