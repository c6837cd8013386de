"""How a table's changes are written, and which files a MERGE has to look at: without Spark."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace_schemas.events.column_types import ColumnType
from tailrace_schemas.events.envelope import SchemaColumn, TableSchema
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.records.progress import OperationCounts
from tailrace_schemas.topics.topic_names import TableName
from tailrace_sink.fold.write_choice import Write, way_to_write
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.options.modes import DeleteMode
from tailrace_sink.plan.topic_ranges import TopicRange
from tailrace_sink.rows.mirror_statements import merge_statement
from tailrace_sink.tables.key_bounds import KeyBound, bounds_in, conditions_of, rounded, sql_literal
from tailrace_sink.tables.lake_table import Kind, LakeColumn, LakeTable
from tailrace_sink.tables.new_table import new_table
from tests.least_options import LEAST_OF_SINK

CREATES, READS = OperationCounts(creates=5), OperationCounts(reads=5)
MIXED, UPDATES = OperationCounts(creates=4, deletes=1), OperationCounts(updates=5)
UNTOLD, HALF_TOLD = OperationCounts(), OperationCounts(creates=4)
HARD, SOFT = DeleteMode.HARD, DeleteMode.SOFT


def table(*, is_new: bool = False, deletes: str = "hard", key: str = "int") -> LakeTable:
    columns = (
        SchemaColumn(1, "id", ColumnType.parse(key), key_ordinal=1),
        SchemaColumn(2, "at", ColumnType.parse("datetime2(3)"), key_ordinal=2),
        SchemaColumn(3, "v", ColumnType.parse("int")),
    )
    schema = TableSchema(TableName("shop", "dbo", "t"), "dbo_t", Lsn(1, 1, 1), columns)
    made = new_table(schema, Kind.MIRROR)
    return LakeTable(
        made.table, False, made.columns, made.schema_lsn, deletes=deletes, is_new=is_new
    )


def ranges(operations: OperationCounts, *, is_whole: bool = False) -> TopicRange:
    whole_from = {0: 0} if is_whole else None
    return TopicRange(
        "t", {0: (0, 9)}, 5, frozenset({1}), whole_from=whole_from, operations=operations
    )


@pytest.mark.parametrize(
    ("operations", "whole", "new", "deletes", "mode", "way"),
    [
        (CREATES, False, False, "hard", HARD, Write.APPEND),
        (CREATES, False, True, "hard", HARD, Write.APPEND),
        (CREATES, False, True, "soft", SOFT, Write.APPEND),
        (CREATES, False, False, "soft", SOFT, Write.MERGE),
        (CREATES, False, False, "soft", HARD, Write.MERGE),
        (CREATES, False, False, "", HARD, Write.MERGE),
        (CREATES, False, False, "hard", SOFT, Write.MERGE),
        (CREATES, True, False, "hard", HARD, Write.MERGE),
        (READS, True, True, "hard", HARD, Write.APPEND_DISTINCT),
        (READS, True, False, "hard", HARD, Write.MERGE),
        (READS, False, False, "hard", HARD, Write.MERGE),
        (MIXED, False, True, "hard", HARD, Write.APPEND_LATEST),
        (MIXED, False, False, "hard", HARD, Write.MERGE),
        (UPDATES, False, False, "hard", HARD, Write.MERGE),
        (UNTOLD, False, False, "hard", HARD, Write.MERGE),
        (HALF_TOLD, False, False, "hard", HARD, Write.MERGE),
        (UNTOLD, True, True, "hard", HARD, Write.APPEND_LATEST),
    ],
)
def test_the_ledger_decides_how_a_table_is_written(
    operations: OperationCounts, whole: bool, new: bool, deletes: str, mode: DeleteMode, way: Write
):
    found = way_to_write(
        ranges(operations, is_whole=whole), table(is_new=new, deletes=deletes), mode
    )
    assert found is way


def test_nothing_counted_is_not_all_of_one_kind():
    empty = TopicRange("t", {}, 0, frozenset())
    assert way_to_write(empty, table(), HARD) is Write.MERGE


def test_small_is_few_changes_and_few_bytes():
    options: dict[str, Any] = {
        **LEAST_OF_SINK,
        "local_changes_max": 10,
        "local_bytes_max": 100,
    }
    config = SinkConfig.load(options)
    assert config.fits_driver(10, 100)
    assert not config.fits_driver(11, 1)
    assert not config.fits_driver(1, 101)


@pytest.mark.parametrize(
    ("value", "type_", "text"),
    [
        (-(2**31), "INT", "-2147483648"),
        (-(2**63), "BIGINT", "-9223372036854775808L"),
        (7, "SMALLINT", "7S"),
        (dt.date(1, 1, 1), "DATE", "DATE'0001-01-01'"),
        (dt.datetime(1, 1, 1, 0, 0, 0, 1), "TIMESTAMP_NTZ", "TIMESTAMP_NTZ'0001-01-01 00:00:00.000001'"),  # noqa: DTZ001, E501
        ("it's", "STRING", "'it\\'s'"),
        ("a${b}", "STRING", "'a${b}'"),
        ("x" * 201, "STRING", None),
        (None, "INT", None),
        (1.5, "DOUBLE", None),
    ],
)  # fmt: skip
def test_literals_are_of_the_columns_type(value: Any, type_: str, text: str | None):
    assert sql_literal(value, type_) == text


def test_bounds_of_a_key_and_none_where_one_is_null():
    moments = [dt.datetime(2024, 1, day) for day in (3, 1)]  # noqa: DTZ001 - no zone
    rows = pa.table({"id": pa.array([5, -2], pa.int32()), "at": pa.array(moments)})
    bounds = conditions_of(bounds_in(rows, table()))
    assert bounds == [
        "t.`id` >= -2",
        "t.`id` <= 5",
        "t.`at` >= TIMESTAMP_NTZ'2024-01-01 00:00:00'",
        "t.`at` <= TIMESTAMP_NTZ'2024-01-31 23:59:59.999999'",
    ]
    holed = pa.table({"id": pa.array([5, None], pa.int32()), "at": pa.array(moments)})
    assert [bound.column.name for bound in bounds_in(holed, table())] == ["at"]
    assert bounds_in(rows.slice(0, 0), table()) == []
    by_float = bounds_in(rows, table(key="float"))
    assert all("`id`" not in text for text in conditions_of(by_float))

    merge = merge_statement("t", "v", table(), [], HARD, None, bounds)
    assert " AND t.`id` >= -2 AND t.`id` <= 5 AND" in merge
    whole = merge_statement("t", "v", table(), [], HARD, str(Lsn(1, 1, 1)), bounds)
    assert ">= -2" not in whole


@pytest.mark.parametrize(
    ("type_", "least", "greatest", "file", "meets"),
    [
        ("INT", 10, 20, (20, 30), True),
        ("INT", 10, 20, (21, 30), False),
        ("INT", 10, 20, (0, 9), False),
        ("INT", 10, 20, (None, None), True),
        ("INT", 10, 20, ("x", "y"), True),
        ("STRING", "m", "p", ("a", "lz"), False),
        ("STRING", "m", "p", ("a", "m" * 32 + "\x7f"), True),
        ("STRING", "\uffee", "\uffff", ("\U00010000", "\U0001f600"), False),
        ("DATE", dt.date(2024, 1, 1), dt.date(2024, 1, 31), ("2023-05-01", "2024-01-01"), True),
        ("DATE", dt.date(2024, 1, 1), dt.date(2024, 1, 31), ("2024-02-01", "2024-03-01"), False),
        ("TIMESTAMP_NTZ", dt.datetime(2024, 1, 1, 0, 0, 0, 500), dt.datetime(2024, 1, 2), ("2023-01-01T00:00:00.000", "2024-01-01T00:00:00.000"), True),  # noqa: DTZ001, E501
        ("TIMESTAMP_NTZ", dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 2), ("2023-01-01T00:00:00.000", "2023-12-31T23:59:59.998"), False),  # noqa: DTZ001, E501
        ("TIMESTAMP_NTZ", dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 2), ("2023-01-01T00:00:00.000", "9999-12-31T23:59:59.999"), True),  # noqa: DTZ001, E501
    ],
)  # fmt: skip
def test_files_are_compared_by_their_statistics(
    type_: str, least: Any, greatest: Any, file: tuple[Any, Any], meets: bool
):
    bound = KeyBound(LakeColumn("id", 1, type_, "int", 1), least, greatest)
    assert bound.meets(*file) is meets


@given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1))
def test_rounded_bounds_enclose_and_stay_in_their_type(one, other):
    least, greatest = sorted((one, other))
    first, last = rounded(least, greatest)
    assert first <= least <= greatest <= last
    for bits in (15, 31, 63):
        if -(2**bits) <= least and greatest < 2**bits:
            assert -(2**bits) <= first
            assert last < 2**bits
    assert last - greatest <= max(abs(least), abs(greatest)) / 50
    assert least - first <= max(abs(least), abs(greatest)) / 50


@given(st.dates(), st.dates())
def test_rounded_times_enclose(one, other):
    least, greatest = sorted((one, other))
    first, last = rounded(least, greatest)
    assert first <= least <= greatest <= last
    assert (first.year, last.month) == (least.year, greatest.month)


def test_bounds_stay_the_same_while_a_table_grows():
    """Or every batch's code would be compiled anew."""
    assert rounded(3, 1_000_000) == rounded(17, 1_003_000) == (0, 1_007_615)
    assert rounded("a", "b") == ("a", "b")
    assert rounded(None, None) == (None, None)
