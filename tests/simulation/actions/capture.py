"""The capture job and the cleanup job."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from tests.simulation.actions.registry import ACTIONS, action
from tests.simulation.sqlserver import log as wal

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation


@action
def capture(sim: Simulation, rng: random.Random) -> None:
    sim.scan(marks_time=rng.random() < 0.3)


@action
def begin_capture(sim: Simulation, rng: random.Random) -> None:
    """A scan begins that ends with the next one."""
    if sim.running_scan is None and not sim.is_capture_stopped:
        sim.running_scan = sim.group.begin_scan()


@action
def fail_capture(sim: Simulation, rng: random.Random) -> None:
    """A scan ends with an error and has captured nothing."""
    if sim.running_scan is None and not sim.is_capture_stopped:
        session = sim.group.begin_scan()
        session.end_time = sim.group.server.clock.local()
        session.error_count = 1


@action
def capture_early(sim: Simulation, rng: random.Random) -> None:
    """A session is done before its rows are committed, and readers of row versions see that.

    Others wait for its locks, so for them the two are one.
    """
    if not sim.source.features.allows_snapshot:
        sim.scan(marks_time=False)
    elif sim.running_scan is None and not sim.is_capture_stopped and sim.group.server.is_up:
        sim.group.end_scan_early(sim.group.begin_scan())


@action
def mark_late(sim: Simulation, rng: random.Random) -> None:
    """Users commit between the end of an empty scan and its time mark, which lies above that."""
    group = sim.group
    readable = group.readable_end()
    is_whole = readable == len(group.log.records)  # else the log reader waits for a replica
    if not is_whole or sim.running_scan or sim.is_capture_stopped or not group.server.is_up:
        return
    session = group.begin_scan()
    readable = len(group.log.records)
    sim.world.advance(0.05)
    ACTIONS["transaction"](sim, rng)
    group.end_scan(session, marks_time=True, readable=readable)


@action
def stop_capture(sim: Simulation, rng: random.Random) -> None:
    """The job stops, or is started again."""
    sim.is_capture_stopped = not sim.is_capture_stopped


def _clean(sim: Simulation, rng: random.Random, *, beyond_us: bool) -> None:
    entries = [entry.start_lsn for entry in sim.group.database.mapping]
    if not beyond_us:
        entries = [lsn for lsn in entries if lsn <= sim.published.position]
    if not entries:
        return
    watermark = rng.choice(entries)
    group = sim.group
    if watermark > sim.published.position:
        for table in group.database.tables.values():
            sim.excuses.add(table.name, "cleanup has overtaken the publisher")
    clock = group.server.clock
    group.write(wal.RaiseWatermarks(group.log.next_lsn(), clock.local(), watermark))
    if rng.random() < 0.7:
        group.write(wal.DeleteChangeRows(group.log.next_lsn(), clock.local()))


@action
def cleanup(sim: Simulation, rng: random.Random) -> None:
    """Cleanup of what is published."""
    _clean(sim, rng, beyond_us=False)


@action
def late_cleanup(sim: Simulation, rng: random.Random) -> None:
    """Cleanup that may overtake the publisher."""
    _clean(sim, rng, beyond_us=True)


@action
def delete_change_rows(sim: Simulation, rng: random.Random) -> None:
    """Cleanup goes on where it had only raised the watermarks."""
    group = sim.group
    group.write(wal.DeleteChangeRows(group.log.next_lsn(), group.server.clock.local()))
