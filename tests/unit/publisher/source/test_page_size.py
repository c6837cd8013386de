"""Pages adapt to what their rows take in memory."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from tailrace_publisher.change.ranges import LsnRange
from tailrace_publisher.ports import Connection
from tailrace_publisher.source.pages.page_readers import NEWEST
from tailrace_publisher.source.pages.page_size import (
    LARGE_GUESS_BYTES,
    PageLimit,
    RowSize,
    pages_held,
)
from tailrace_publisher.source.pages.pages import ChangePages
from tailrace_schemas.events.column_types import MAX, ColumnType
from tailrace_schemas.events.envelope import SchemaColumn, TableSchema
from tailrace_schemas.position.change_position import ChangePosition
from tailrace_schemas.position.lsn import Lsn
from tests.unit.publisher.source.test_pages import INSTANCE, TABLE

MB = 1 << 20
POSITION = (bytes(10), 1, bytes(10), 2, b"")


def schema_of(*types: ColumnType) -> TableSchema:
    columns = [SchemaColumn(n, f"c{n}", type_) for n, type_ in enumerate(types, 1)]
    return TableSchema(TABLE, "dbo_t", Lsn(1, 0, 1), tuple(columns))


NARROW = schema_of(ColumnType("int"), ColumnType("nvarchar", length=40), ColumnType("datetime2"))
LARGE = schema_of(ColumnType("int"), ColumnType("nvarchar", length=MAX))
WIDE = schema_of(*[ColumnType("nvarchar", length=4000)] * 100)


def test_a_narrow_table_is_read_by_the_number_of_rows():
    size = RowSize(NARROW)
    limit = PageLimit(2000, 20 * MB)

    assert not size.needs_measuring(limit)
    assert size.rows_of(limit) == 2000


@pytest.mark.parametrize("schema", [LARGE, WIDE, schema_of(ColumnType("geometry"))])
def test_the_first_page_follows_the_declared_widths(schema: TableSchema):
    size = RowSize(schema)
    limit = PageLimit(2000, 20 * MB)

    assert size.needs_measuring(limit)
    assert 1 < size.rows_of(limit) <= 20 * MB // LARGE_GUESS_BYTES


def test_as_many_rows_are_asked_for_as_have_room_whatever_is_in_them():
    size = RowSize(NARROW)
    row = (*POSITION, 1, "x" * 40, "2026-11-23")
    limit = PageLimit(2000, 100 * size.of(row))

    assert size.needs_measuring(limit)
    asked = size.rows_of(limit)
    assert 75 < asked <= 100


def test_pages_shrink_at_once_and_grow_by_halves():
    size, limit = RowSize(LARGE), PageLimit(2000, 20 * MB)
    first = size.rows_of(limit)
    size.learn(first, first * 10 * MB)
    assert size.rows_of(limit) == 1

    asked = []
    for _ in range(30):
        asked.append(size.rows_of(limit))
        size.learn(asked[-1], asked[-1] * size.of((*POSITION, 1, "small")))
    assert asked == sorted(asked)
    assert all(after <= 2 * before + 2 for before, after in itertools.pairwise(asked))
    assert asked[-1] == 2000


def test_a_row_takes_what_its_values_take():
    size = RowSize(LARGE)

    assert size.of((*POSITION, 1, None)) < 1000
    assert size.of((*POSITION, 1, "x" * MB)) == pytest.approx(MB, abs=1000)
    assert size.of((*POSITION, 1, "\u20ac" * MB)) == pytest.approx(2 * MB, abs=1000)
    assert size.of((bytes(10),)) == 0


def test_all_pages_together_share_the_bytes():
    one = PageLimit.of_each(2000, 128 * MB, 200_000, 1)
    many = PageLimit.of_each(2000, 128 * MB, 200_000, 1000)

    assert one.rows == 2000
    assert 6 * one.size <= 128 * MB
    assert many.rows == 200_000 // 1064  # one of each, and 64 that are read ahead
    assert 1068 * many.size <= 128 * MB
    assert PageLimit.of_each(2000, 1, 200_000, 1000) == PageLimit(187, 1)
    assert [pages_held(instances) for instances in (1, 32, 33, 1000)] == [3, 96, 97, 1064]


class LargeRows:
    """A connection to a change table of large values, each in a transaction of its own."""

    def __init__(self, sizes: list[int]) -> None:
        self._sizes = sizes
        self.asked: list[int] = []
        self.largest = 0

    def query_within(
        self, sql: str, *parameters: Any, size_of: Callable[[Any], int], at_most: int
    ) -> tuple[list[list[Any]], bool]:
        sets: list[list[Any]] = []
        if sql.startswith(f"SELECT {NEWEST}"):
            sets.append([(Lsn(1, len(self._sizes), 1).to_bytes(),)])
        if "[__$start_lsn] = ?" in sql:
            sets.append([])  # a transaction has one row
        if "[__$start_lsn] <= ?" not in sql:
            return [*sets, [(Lsn(1, 0, 1).to_bytes(),)]], False
        rows, after, up_to, _ = parameters[-4:]
        self.asked.append(rows)
        page: list[Any] = []
        held = 0
        for row in self._behind(after, up_to, rows):
            page.append(row)
            held += size_of(row)
            if held >= at_most:
                self.largest = max(self.largest, len(page))
                return [*sets, page], True
        self.largest = max(self.largest, len(page))
        return [*sets, page, [(Lsn(1, 0, 1).to_bytes(),)]], False

    def query(self, sql: str, *parameters: Any) -> list[Any]:
        assert (sql, *parameters) == ("SELECT sys.fn_cdc_get_min_lsn(?)", "dbo_t")
        return [(Lsn(1, 0, 1).to_bytes(),)]

    def _behind(self, after: bytes, up_to: bytes, rows: int) -> Iterator[Any]:
        found = [n for n in range(1, len(self._sizes) + 1) if after < lsn(n) <= up_to]
        for number in found[:rows]:
            text = "x" * self._sizes[number - 1]
            yield (lsn(number), 1, Lsn(1, number, 0).to_bytes(), 2, b"", number, text)


def lsn(number: int) -> bytes:
    return Lsn(1, number, 1).to_bytes()


@pytest.mark.parametrize(
    "sizes",
    [
        [MB] * 40,
        [10] * 100 + [3 * MB] * 20 + [10] * 100,
        [5 * MB, 10, 10, 5 * MB, 10],
    ],
)
def test_no_page_is_larger_than_its_limit_and_no_row_is_lost(sizes: list[int]):
    table, size, limit = LargeRows(sizes), RowSize(LARGE), PageLimit(2000, 4 * MB)
    span = LsnRange(ChangePosition.end_of(Lsn(1, 0, 1)), Lsn(1, len(sizes), 1))
    pages = ChangePages(cast(Connection, table), INSTANCE, LARGE, span, limit, Lsn(1, 0, 1), size)
    read = []
    while (page := pages.read()) is not None:
        read += [row[5] for row in page.rows]
        taken = sum(size.of(row) for row in page.rows)
        assert taken < limit.size + max(map(size.of, page.rows), default=0)

    assert read == list(range(1, len(sizes) + 1))


def test_what_was_learned_of_a_row_is_kept_from_window_to_window():
    table, size, limit = LargeRows([MB] * 40), RowSize(LARGE), PageLimit(2000, 4 * MB)
    for number in range(0, 40, 10):
        span = LsnRange(ChangePosition.end_of(Lsn(1, number, 1)), Lsn(1, number + 10, 1))
        pages = ChangePages(
            cast(Connection, table), INSTANCE, LARGE, span, limit, Lsn(1, 0, 1), size
        )
        while pages.read() is not None:
            pass

    assert table.asked[0] > 10
    assert max(table.asked[1:]) <= 3


class Rows(LargeRows):
    """The same, which tells how often rows are measured."""

    def __init__(self, sizes: list[int]) -> None:
        super().__init__(sizes)
        self.measured: list[bool] = []

    def query_sets(self, sql: str, *parameters: Any) -> list[list[Any]]:
        sets, _ = super().query_within(sql, *parameters, size_of=lambda _: 0, at_most=1)
        self.measured.append(False)
        return sets

    def query_within(
        self, sql: str, *parameters: Any, size_of: Callable[[Any], int], at_most: int
    ) -> tuple[list[list[Any]], bool]:
        self.measured.append(True)
        return super().query_within(sql, *parameters, size_of=size_of, at_most=at_most)


def test_rows_that_have_room_whatever_is_in_them_are_not_measured_one_by_one():
    schema = schema_of(ColumnType("int"), ColumnType("nvarchar", length=400))
    size = RowSize(schema)
    limit = PageLimit(2000, 60 * 2000)
    assert size.needs_measuring(limit)
    few = size.rows_of(limit)

    def read(table: Rows, count: int) -> list[int]:
        span = LsnRange(ChangePosition.end_of(Lsn(1, 0, 1)), Lsn(1, count, 1))
        pages = ChangePages(
            cast(Connection, table), INSTANCE, schema, span, limit, Lsn(1, 0, 1), size
        )
        found = []
        while (page := pages.read()) is not None:
            assert sum(map(size.of, page.rows)) < limit.size + max(map(size.of, page.rows))
            found += [row[5] for row in page.rows]
        return found

    table = Rows([10] * 400)
    for _ in range(2):
        assert read(table, few - 1) == list(range(1, few))
    assert table.measured == [False, False]
    assert set(table.asked) == {few}
    # Of many, what the first page has taken says how many there is room for.
    assert read(table, 400) == list(range(1, 401))
    assert table.measured[2:4] == [False, True]
    assert max(table.asked[3:]) > few
