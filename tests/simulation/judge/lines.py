"""Lines of recovery: which one what was published is of.

A restore or a forced failover leaves a line. What was published before it is judged by that line,
also where the publisher goes on with the next one. It does where cleanup took its last commit, and
it cannot compare: then every table lacks rows, and is read anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tests.simulation.sqlserver import log as wal
from tests.simulation.sqlserver.database import Database, as_datetime

if TYPE_CHECKING:
    from tests.simulation.judge.published import Position
    from tests.simulation.simulation import Simulation
    from tests.simulation.sqlserver.group import Group

Captured = Mapping[bytes, tuple[str, str]]


def captured(records: list[wal.Record]) -> Captured:
    """What was ever in the mapping on a line, by LSN: end time and transaction id."""
    database = Database()
    found: dict[bytes, tuple[str, str]] = {bytes(10): ("", "")}
    for place, record in enumerate(records, 1):
        database.redo(records, place)
        if isinstance(record, wal.Capture):
            for entry in database.mapping:
                time = as_datetime(entry.tran_end_time).isoformat("T", "milliseconds")
                found[entry.start_lsn] = (time, entry.tran_id.hex())
    return found


def holds(line: Captured, place: Position) -> bool:
    """Whether the commit at a published position is on a line: so is all before it.

    LSNs come again on another line, with another transaction or time.
    """
    lsn, commit = place
    return lsn in line and commit in {None, line[lsn]}


def lines_of(sim: Simulation) -> list[list[wal.Record]]:
    """The line of each transaction that was delivered: that of the next one, if it has both."""
    lines = [line.records for line in sim.group.lines] + [sim.group.log.records]
    delivered = sim.published.delivered
    if len(lines) == 1:
        return lines * len(delivered)
    books = [captured(records) for records in lines]
    found: list[list[wal.Record]] = []
    place = len(lines) - 1
    for one in reversed(delivered):
        if not holds(books[place], one.place):
            newest_first = range(len(lines) - 1, -1, -1)
            place = next((n for n in newest_first if holds(books[n], one.place)), place)
        found.append(lines[place])
    return found[::-1]


def published_up_to(sim: Simulation, group: Group) -> bytes:
    """The LSN up to which a database has nothing that is not published.

    Of a line that was left, that is what it has in common with the present one.
    """
    place, records = sim.published.place, group.log.records
    if not group.lines or holds(captured(records), place):
        return sim.published.position
    kept = len(records)
    for line in reversed(group.lines):
        kept = min(kept, line.kept)
        if holds(captured(line.records), place):
            return min(sim.published.position, records[kept - 1].lsn)
    return b""
