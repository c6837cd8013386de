"""The ledger against records: what is accounted for, and what each kind of fault looks like."""

from __future__ import annotations

import pytest

from tailrace.audit.ledger import (
    PROBLEMS_MAX,
    PartitionAudit,
    Problems,
    check_chain,
    ranges_by_partition,
)
from tailrace_schemas.position.change_position import ChangePosition, Operation
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.records.progress import PartitionProgress, Progress, position_hash, signed

Held = list[tuple[int, ChangePosition | None]]


def change(number: int) -> ChangePosition:
    return ChangePosition(Lsn(1, number, 1), 1, Lsn(1, number, 2), Operation.INSERT)


def entry(first: int, *positions: ChangePosition, tombstones: int = 0) -> PartitionProgress:
    total = signed(sum(position_hash(position.to_bytes()) for position in positions))
    end = first + len(positions) + tombstones
    return PartitionProgress("t", 0, first, end, len(positions), total)


LEDGER = [entry(0, change(1), change(2)), entry(3, change(3), change(4), tombstones=1)]
HELD: Held = [(0, change(1)), (1, change(2)), (3, change(3)), (4, None), (5, change(4))]


def audited(held: Held, low: int = 0) -> tuple[PartitionAudit, Problems]:
    problems = Problems()
    audit = PartitionAudit(LEDGER, low, problems)
    for offset, position in held:
        if audit.begin <= offset < audit.end:
            audit.take(offset, position)
    audit.finish()
    return audit, problems


def test_a_whole_partition():
    audit, problems = audited(HELD)
    assert problems.count == 0
    assert (audit.events, audit.transactions, audit.removed, audit.end) == (4, 2, 0, 6)


def test_what_retention_removed_is_told_and_not_a_fault():
    audit, problems = audited(HELD[1:], low=1)
    assert problems.count == 0
    assert (audit.events, audit.transactions, audit.removed) == (2, 1, 1)


@pytest.mark.parametrize(
    ("held", "text"),
    [
        (HELD[:2] + HELD[3:], "1 events where 2 were published"),
        ([HELD[0], (1, change(9)), *HELD[2:]], "others than were published"),
        ([*HELD[:2], (2, change(2)), *HELD[2:]], "no progress record accounts for"),
        ([HELD[0], (1, change(1)), *HELD[2:]], "00000001:00000001:0002/2 again"),
        ([(0, change(2)), (1, change(1)), *HELD[2:]], "follows the later"),
    ],
    ids=["a lost record", "another record", "a foreign record", "a repeated one", "out of order"],
)
def test_faults(held: Held, text: str):
    _, problems = audited(held)
    assert any(text in problem for problem in problems.texts), problems.texts


def test_snapshot_rows_may_stand_behind_newer_changes():
    row = ChangePosition.of_snapshot(Lsn(1, 1, 1))
    problems = Problems()
    audit = PartitionAudit([entry(0, change(2), row, row, change(3))], 0, problems)
    for offset, position in enumerate([change(2), row, row, change(3)]):
        audit.take(offset, position)
    audit.finish()
    assert problems.count == 0


def record(after: int, through: int, *entries: PartitionProgress) -> Progress:
    lsns = (str(Lsn(1, after, 1)), str(Lsn(1, through, 1)))
    return Progress(0, "s", "d", *lsns, None, True, 0, list(entries))


@pytest.mark.parametrize(
    ("records", "text"),
    [
        ([record(0, 5), record(6, 7)], "leaves a gap"),
        ([record(0, 5), record(4, 7)], "overlaps"),
        ([record(0, 5), record(5, 3)], "goes back"),
    ],
)
def test_a_broken_chain(records: list[Progress], text: str):
    problems = Problems()
    check_chain(records, problems)
    assert text in problems.texts[0]


def test_a_topic_that_was_made_anew_begins_anew():
    records = [
        record(0, 1, entry(0, change(1)), entry(1, change(2))),
        record(1, 2, entry(0, change(3))),
    ]
    assert ranges_by_partition(records, ["t"]) == {("t", 0): [entry(0, change(3))]}
    assert ranges_by_partition(records, ["other"]) == {}


def test_the_first_problems_are_kept_all_are_counted():
    problems = Problems()
    for number in range(PROBLEMS_MAX + 5):
        problems.add(str(number))
    assert (len(problems.texts), problems.count) == (PROBLEMS_MAX, PROBLEMS_MAX + 5)
