"""Where a capture instance begins, and where its own entry in cdc.lsn_time_mapping lies.

The model puts both at one LSN. The embedded server puts the transaction that enabled the table
after ``start_lsn``, as Debezium needs it. Nothing that is published may depend on which it is:
coverage, versions, fences of snapshots and the hand-over between two instances.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.simulation.checking import check, report
from tests.simulation.drawing import draw
from tests.simulation.scenario import Scenario
from tests.simulation.sqlserver import log as wal
from tests.simulation.sqlserver.database import TIME_MARK, Database
from tests.simulation.sqlserver.rows import MappingEntry

_SEEDS = 10


def _recognise(self: Database, record: wal.EnableInstance) -> None:
    """``start_lsn`` as an entry that marks time, then the transaction that enabled the table."""
    instance = self.instances.get(record.name)
    if instance is None or instance.object_id != record.object_id:
        return
    instance.start_lsn = record.lsn
    after = (int.from_bytes(record.lsn, "big") + 1).to_bytes(len(record.lsn), "big")
    tran_id = record.object_id.to_bytes(6, "big")
    for lsn, of in ((record.lsn, TIME_MARK), (after, tran_id)):
        if not self.mapping or self.mapping[-1].start_lsn < lsn:
            self.mapping.append(MappingEntry(lsn, record.time, of))


def scenario_of(seed: int) -> Scenario:
    """A drawn scenario with more instances than usual."""
    drawn = draw(seed)
    kinds = ("enable", "disable")
    steps = [
        replace(step, kind=kinds[number % 2]) if number % 5 == 0 else step
        for number, step in enumerate(drawn.steps)
    ]
    return replace(drawn, steps=tuple(steps))


@pytest.mark.parametrize("entry", ["at its start", "after its start"])
@pytest.mark.parametrize("first", range(0, _SEEDS, 5))
def test_its_own_entry_may_lie_at_or_after_its_start(
    entry: str, first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if entry == "after its start":
        monkeypatch.setattr(Database, "_recognise", _recognise)
    for seed in range(first, first + 5):
        scenario = scenario_of(seed)
        failure = check(scenario)
        assert failure is None, report(scenario, failure)
