"""Which rows can be repaired, when a repair has ended, and how the command ends then."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest

from tailrace.verify.repair import settled_keys
from tailrace.verify.repairable import NotRepairable, repair_signal
from tailrace.verify.report import exit_code, verification_json, verification_lines
from tailrace.verify.table_result import TableResult
from tailrace.verify.table_shape import Key, TableShape, shape_of
from tailrace.verify.verify import Verification
from tailrace_publisher.change.column_rules import ColumnRules
from tailrace_publisher.source.catalog.table_instances import TableInstances
from tailrace_schemas.events.column_types import ColumnType
from tailrace_schemas.records.signals import ROWS_MAX
from tests.unit.publisher.snapshot.table_source import instance_of

KEYS: Sequence[Key] = [("1",), ("2",)]


def shape(kind: str = "int", **facts: object) -> TableShape:
    made = instance_of(("a",), names=("a", "note"))
    columns = tuple(
        replace(column, type=ColumnType(kind, scale=7)) if column.name == "a" else column
        for column in made.columns
    )
    instances = TableInstances.of([replace(made, columns=columns, **facts)])
    return shape_of(instances, (), ColumnRules())


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("int", "7", "7"),
        ("datetime", "2024-01-02 03:04:05.678000", "2024-01-02T03:04:05.678"),
        ("smalldatetime", "2024-01-02 03:04:00.000000", "2024-01-02T03:04:00.000"),
        ("varbinary", "00FF", "0x00FF"),
        ("varbinary", "", "0x"),
    ],
)
def test_keys_are_written_as_in_a_resume_key(kind: str, text: str, expected: str) -> None:
    signal = repair_signal(shape(kind), [(text,)], 1, frozenset())
    assert signal.rows.keys == ((expected,),)


@pytest.mark.parametrize(
    ("table", "rows", "skipped", "reason"),
    [
        (shape(key=()), 2, "", "the table has no key"),
        (shape(identity=()), 2, "", "is not the primary key"),
        (shape(), 2, "d", "leaves out d"),
        (shape("float"), 2, "", "no exact text: a"),
        (shape("datetime2"), 2, "", "no exact text: a"),
        (shape(), ROWS_MAX + 1, "", "1,001 rows differ, and a repair takes 1,000 at most"),
    ],
)
def test_other_rows_need_a_snapshot(
    table: TableShape, rows: int, skipped: str, reason: str
) -> None:
    with pytest.raises(NotRepairable) as refused:
        repair_signal(table, KEYS, rows, frozenset(skipped))
    assert reason in str(refused.value)
    assert str(refused.value).endswith("Fix: tailrace snapshot dbo.t")


def test_keys_that_are_null_or_too_large_need_a_snapshot() -> None:
    with pytest.raises(NotRepairable, match="NULL in key column a"):
        repair_signal(shape(), [(None,)], 1, frozenset())
    with pytest.raises(NotRepairable, match="exceed 500 kB"):
        repair_signal(shape(), [("x" * 1000 + str(n),) for n in range(600)], 600, frozenset())


def test_rows_are_compared_until_they_are_equal() -> None:
    answers = [[("1",), ("2",)], [("2",)], []]
    asked: list[Sequence[Key]] = []

    def compare(keys: Sequence[Key]) -> Sequence[Key]:
        asked.append(keys)
        return answers.pop(0)

    assert settled_keys(compare, KEYS, 60, 0) == []
    assert asked == [KEYS, KEYS, [("2",)]]


def test_rows_are_compared_once_when_no_time_is_left() -> None:
    asked: list[Sequence[Key]] = []

    def compare(keys: Sequence[Key]) -> Sequence[Key]:
        asked.append(keys)
        return keys

    assert settled_keys(compare, KEYS, 0, 0) == KEYS
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("repaired", "problem", "status", "line"),
    [
        (2, None, 0, "- dbo.t: 2 rows repaired: the publisher published them again"),
        (1, "1 of 2 rows still differ", 3, "- dbo.t: not repaired: 1 of 2 rows still differ"),
        (0, "the table has no key", 3, "- dbo.t: not repaired: the table has no key"),
        (0, None, 3, ""),
    ],
)
def test_the_command_ends_by_what_is_left(
    repaired: int, problem: str | None, status: int, line: str
) -> None:
    result = TableResult(
        "dbo.t",
        differing=Counter({"value": 2}),
        keys=list(KEYS),
        repaired=repaired,
        repair_problem=problem,
    )
    found = Verification("shop", "lake", [result])
    assert exit_code(found) == status
    assert any(text.startswith(line) for text in verification_lines(found))
    (table,) = json.loads(verification_json(found))["tables"]
    assert (table["repaired"], table["repair_problem"]) == (repaired, problem)
    assert "keys" not in table
