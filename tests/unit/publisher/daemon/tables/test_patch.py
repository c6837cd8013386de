"""Which rows are re-read after a hand-over, and how a checkpoint stores it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pytest

from tailrace_publisher.change.instance import CapturedColumn, CaptureInstance
from tailrace_publisher.daemon.tables.patch import Patch, columns_before, patch_of
from tailrace_publisher.daemon.tables.table_record import TableRecord
from tailrace_publisher.daemon.tables.table_state import TableState
from tailrace_schemas.events.column_types import ColumnType
from tailrace_schemas.events.envelope import SchemaColumn, TableSchema
from tailrace_schemas.position.change_position import ChangePosition
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.topic_names import TableName

TABLE = TableName("db", "dbo", "t")
START = Lsn(1, 2, 3)
INT = ColumnType("int")
KNOWN = [(1, "id"), (2, "v")]


def column(number: int, name: str, **parts: bool) -> CapturedColumn:
    given = {"is_computed": False, "in_source": True, **parts}
    return CapturedColumn(number, name, number, INT, True, **given)


def instance(name: str, *columns: CapturedColumn) -> CaptureInstance:
    return CaptureInstance(
        name=name,
        table=TABLE,
        low_watermark=START,
        create_date=datetime(2026, 1, 1),  # noqa: DTZ001
        object_id=1,
        source_object_id=2,
        supports_net_changes=False,
        ordered_by_command_id=True,
        columns=columns,
        key=("id",),
        identity=("id",),
    )


def test_gained_columns_are_patched():
    newer = instance("b", column(1, "id"), column(3, "city"), column(4, "a]b"))
    found = patch_of(KNOWN, newer, START)
    assert found == Patch(("city", "a]b"), START)
    assert found.condition(newer) == "([city] IS NOT NULL OR [a]]b] IS NOT NULL)"
    assert found.condition(newer, "id > 5") == (
        "([city] IS NOT NULL OR [a]]b] IS NOT NULL) AND (id > 5)"
    )


@pytest.mark.parametrize(
    "columns",
    [
        (column(1, "id"), column(2, "v")),
        (column(1, "id"),),
        (column(1, "id"), column(3, "total", is_computed=True)),
        (column(1, "id"), column(3, "gone", in_source=False)),
    ],
)
def test_nothing_is_patched_if_no_value_is_gained(columns: tuple[CapturedColumn, ...]):
    assert patch_of(KNOWN, instance("b", *columns), START) is None


def test_all_rows_are_read_if_a_dropped_column_had_the_name():
    newer = instance("b", column(1, "id"), column(3, "v"))
    found = patch_of(KNOWN, newer, START)
    assert found == Patch(("v",), START, is_whole=True)
    assert found.condition(newer) is None
    assert found.condition(newer, "id > 5") == "(id > 5)"


def test_all_rows_are_read_if_an_earlier_instance_had_the_column():
    newer = instance("c", column(1, "id"), column(3, "city"))
    earlier = TableSchema(TABLE, "a", START, (SchemaColumn(3, "city", ColumnType("int")),))
    assert patch_of(KNOWN, newer, START, [earlier]) == Patch(("city",), START, is_whole=True)


def test_a_column_that_is_dropped_before_its_turn_is_left_out():
    patch = Patch(("city", "zip"), START)
    now = instance("b", column(3, "city", in_source=False), column(4, "zip"))
    assert patch.condition(now) == "([zip] IS NOT NULL)"
    assert patch.condition(instance("b", column(1, "id"))) == "(1 = 0)"


def test_two_hand_overs_make_one_patch():
    later = Lsn(1, 3, 1)
    first, second = Patch(("a", "b"), START), Patch(("b", "c"), later, is_whole=True)
    assert first.joined(second) == Patch(("a", "b", "c"), later, is_whole=True)


def test_a_checkpoint_brings_it_back():
    record = TableRecord(TableState.REREADING, patch=Patch(("größe", "x"), START, is_whole=True))
    stored = record.to_checkpoint(ChangePosition.end_of(START), 5)
    again = TableRecord.from_checkpoint(stored)
    assert again.patch == record.patch
    assert again.is_patched
    assert not replace(again, snapshot_where="id = 1").is_patched
    assert not replace(again, state=TableState.FOLLOWED).is_patched


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"columns": 5, "after": "x", "is_whole": 1}'])
def test_another_form_is_refused(text: str):
    with pytest.raises(ValueError, match=r"."):
        Patch.read(text)


def test_columns_of_a_gone_instance_come_from_its_newest_version():
    def version(lsn: int, *names: str) -> TableSchema:
        columns = tuple(SchemaColumn(n, name, INT) for n, name in enumerate(names, 1))
        return TableSchema(TABLE, "a", Lsn(1, lsn, 1), columns)

    versions = [version(5, "id", "w"), version(4, "id")]
    there = instance("b", column(1, "id"), column(2, "v"))
    assert columns_before(["a", "b"], [there], versions) == KNOWN
    assert columns_before(["a"], [there], versions) == [(1, "id"), (2, "w")]
    assert columns_before(["c"], [there], versions) is None
