"""Pages of change tables of every age, resumed behind every row.

The statements run on SQLite, which orders and compares NULL as SQL Server does.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from tailrace_publisher.change.instance import CapturedColumn, CaptureInstance
from tailrace_publisher.change.page import ChangeRow, position_of
from tailrace_publisher.change.ranges import LsnRange
from tailrace_publisher.source.catalog.instances import _is_ordered_by_command_id
from tailrace_publisher.source.catalog.versions import current_columns
from tailrace_publisher.source.pages.page_readers import NEWEST
from tailrace_publisher.source.pages.page_size import PageLimit, RowSize
from tailrace_publisher.source.pages.page_statements import PageStatements
from tailrace_publisher.source.pages.pages import ChangePages
from tailrace_schemas.events.column_types import ColumnType
from tailrace_schemas.events.envelope import TableSchema
from tailrace_schemas.position.change_position import ChangePosition, Operation
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.topic_names import TableName

TABLE = TableName("db", "dbo", "t")
FUNCTION = "cdc.[fn_cdc_get_all_changes_t](?, ?, N'all update old')"
FIRST, LAST = Lsn(1, 1, 0), Lsn(1, 9, 0)


def instance(*, ordered_by_command_id: bool, by_function: bool = False) -> CaptureInstance:
    column = CapturedColumn(
        1, "id", 1, ColumnType("int"), nullable=False, is_computed=False, in_source=True
    )
    return CaptureInstance(
        name="t",
        table=TABLE,
        low_watermark=FIRST,
        create_date=datetime(2013, 1, 1),  # noqa: DTZ001
        object_id=1,
        source_object_id=2,
        supports_net_changes=True,
        ordered_by_command_id=ordered_by_command_id,
        columns=(column,),
        key=("id",),
        identity=("id",),
        by_function=by_function,
    )


class ChangeTable:
    """A change table in SQLite; it takes the place of a connection."""

    def __init__(self, rows: list[tuple[Lsn, int | None, int, int]], *, has_id: bool) -> None:
        self._sqlite = sqlite3.connect(":memory:", check_same_thread=False)
        command = "[__$command_id] int, " if has_id else ""
        self._sqlite.execute(
            f"CREATE TABLE [t_CT] ([__$start_lsn] blob, {command}[__$seqval] blob,"
            " [__$operation] int, [__$update_mask] blob, [id] int)"
        )
        for number, (lsn, command_id, seqval, operation) in enumerate(rows):
            values = [lsn.to_bytes(), Lsn(0, 0, seqval).to_bytes(), operation, b"", number]
            if has_id:
                values.insert(1, command_id)
            marks = ", ".join("?" * len(values))
            self._sqlite.execute(f"INSERT INTO [t_CT] VALUES ({marks})", values)
        self.round_trips = 0

    def query_sets(self, sql: str, *parameters: Any) -> list[list[Any]]:
        self.round_trips += 1
        given = iter(parameters)
        sets: list[list[Any]] = []
        *statements, low_watermark = sql.split(";")
        if statements[0] == f"SELECT {NEWEST}":
            sets.append([(LAST.to_bytes(),)])
            del statements[0]
        assert low_watermark.strip() == "SELECT sys.fn_cdc_get_min_lsn(?)"
        for statement in statements:
            limit, *values = [next(given) for _ in range(statement.count("?"))]
            if FUNCTION in statement:
                first, last, *values = values
                assert FIRST.to_bytes() <= first <= last <= LAST.to_bytes(), "error 313"
                rows = "(SELECT * FROM [t_CT] WHERE [__$start_lsn] >= ? AND [__$start_lsn] <= ?)"
                values = [first, last, *values]
            else:
                rows = ""
            text = (
                statement.replace(FUNCTION, rows)
                .replace("SELECT TOP (?)", "SELECT")
                .replace("cdc.", "")
            )
            text = text.replace("ISNULL(", "IFNULL(") + " LIMIT ?"
            sets.append(self._sqlite.execute(text, (*values, limit)).fetchall())
        return [*sets, [(FIRST.to_bytes(),)]]


# What a transaction may look like: (LSN, command id, seqval, operation) in the order of the table.
WITH_IDS = [
    *[(Lsn(1, 2, 0), 1, 7, 2), (Lsn(1, 2, 0), 2, 3, 3), (Lsn(1, 2, 0), 2, 3, 4)],
    *[(Lsn(1, 2, 0), 2, 5, 1), (Lsn(1, 3, 0), 1, 9, 2), (Lsn(1, 4, 0), 1, 11, 2)],
]
WITHOUT = [
    *[(Lsn(1, 2, 0), None, 3, 1), (Lsn(1, 2, 0), None, 3, 2), (Lsn(1, 2, 0), None, 5, 3)],
    *[(Lsn(1, 2, 0), None, 5, 4), (Lsn(1, 2, 0), None, 7, 2), (Lsn(1, 3, 0), None, 9, 2)],
]
UPGRADED = [*WITHOUT, (Lsn(1, 4, 0), 1, 13, 2), (Lsn(1, 4, 0), 2, 12, 1), (Lsn(1, 5, 0), 1, 15, 2)]


def pages(
    table: ChangeTable,
    after: ChangePosition,
    page_rows: int,
    *,
    ordered_by_command_id: bool,
    by_function: bool = False,
) -> Iterator[list[ChangeRow]]:
    capture = instance(ordered_by_command_id=ordered_by_command_id, by_function=by_function)
    schema = TableSchema(TABLE, "t", FIRST, current_columns(capture))
    connection: Any = table
    reader = ChangePages(
        connection,
        capture,
        schema,
        LsnRange(after, LAST),
        PageLimit(page_rows, 1 << 30),
        FIRST,
        RowSize(schema),
    )
    while (page := reader.read()) is not None:
        yield page.rows


@pytest.mark.parametrize("page_rows", [1, 2, 3, 100])
@pytest.mark.parametrize(
    ("rows", "has_id", "ordered"),
    [
        (WITH_IDS, True, True),
        (WITHOUT, True, True),
        (UPGRADED, True, True),
        (WITHOUT, False, False),
        (UPGRADED, True, False),  # the column is there, its index is the old one
    ],
    ids=["with ids", "all NULL", "updated in place", "no column", "not in the index"],
)
def test_every_row_comes_once_and_in_order_behind_every_row(
    rows: list[tuple[Lsn, int | None, int, int]], page_rows: int, *, has_id: bool, ordered: bool
):
    table = ChangeTable(rows, has_id=has_id)
    begin = ChangePosition.end_of(FIRST)
    read = [
        row
        for page in pages(table, begin, page_rows, ordered_by_command_id=ordered)
        for row in page
    ]
    positions = [position_of(row) for row in read]

    assert positions == sorted(positions, key=lambda p: (p.commit_lsn, p.command_id, p.seqval))
    assert sorted(row[5] for row in read) == list(range(len(rows)))
    for number, position in enumerate(positions):
        if position.operation is not Operation.UPDATE_BEFORE:
            rest = pages(table, position, page_rows, ordered_by_command_id=ordered)
            assert [row for page in rest for row in page] == read[number + 1 :]


@pytest.mark.parametrize("page_rows", [1, 2, 3, 100])
@pytest.mark.parametrize("last", [LAST, Lsn(1, 3, 0)])
def test_a_query_function_gives_every_row_once_and_is_asked_for_what_it_has(
    page_rows: int, last: Lsn, monkeypatch: pytest.MonkeyPatch
):
    """A range that is empty, or not inside of what it has, is an error of its."""
    monkeypatch.setattr(f"{__name__}.LAST", last)
    rows = [*WITHOUT, *([] if last != LAST else UPGRADED[-3:])]
    rows = [row for row in rows if row[0] <= last]
    table = ChangeTable(rows, has_id=False)
    how: dict[str, Any] = {"ordered_by_command_id": False, "by_function": True}
    begin = ChangePosition.end_of(FIRST)
    read = [row for page in pages(table, begin, page_rows, **how) for row in page]
    positions = [position_of(row) for row in read]

    assert positions == sorted(positions, key=lambda p: (p.commit_lsn, p.seqval))
    assert {position.command_id for position in positions} == {0}
    assert sorted(row[5] for row in read) == list(range(len(rows)))
    for number, position in enumerate(positions):
        if position.operation is not Operation.UPDATE_BEFORE:
            rest = pages(table, position, page_rows, **how)
            assert [row for page in rest for row in page] == read[number + 1 :]


def test_nothing_is_left_of_a_transaction_behind_another_tables_command_id():
    """Of a table without command ids everything is at 0, below what another one published last."""
    table = ChangeTable(WITHOUT, has_id=False)
    inside = ChangePosition(Lsn(1, 2, 0), 1, Lsn(0, 0, 1), Operation.INSERT)

    (page,) = pages(table, inside, 100, ordered_by_command_id=False)

    assert [row[0] for row in page] == [Lsn(1, 3, 0).to_bytes()]


def test_command_ids_cost_no_statement_more():
    """Only behind command id 0 may there be rows without one."""
    table = ChangeTable(WITH_IDS, has_id=True)
    inside = ChangePosition(Lsn(1, 2, 0), 2, Lsn(0, 0, 3), Operation.UPDATE_AFTER)

    assert len(list(pages(table, inside, 100, ordered_by_command_id=True))) == 1
    assert table.round_trips == 1


@pytest.mark.parametrize("ordered", [True, False])
def test_each_statement_is_a_seek_of_the_clustered_index(*, ordered: bool):
    """A prefix of the index by equality, then a bound; no function around a column in WHERE."""
    capture = instance(ordered_by_command_id=ordered)
    schema = TableSchema(TABLE, "t", FIRST, current_columns(capture))
    statements = PageStatements.of(capture, schema)
    command = "[__$command_id], " if ordered else ""

    for text in filter(None, (statements.rest, statements.rest_without_id, statements.later)):
        where, order = re.fullmatch(r".* WHERE (.*) ORDER BY (.*);", text).groups()  # type: ignore[union-attr]
        assert order == f"[__$start_lsn], {command}[__$seqval], [__$operation]"
        assert "ISNULL(" not in where
    bound = "[__$command_id] >= ?" if ordered else "[__$seqval] >= ?"
    assert f" WHERE [__$start_lsn] = ? AND {bound} AND (" in statements.rest
    null = "[__$start_lsn] = ? AND [__$command_id] IS NULL AND [__$seqval] >= ? AND ("
    assert (null in statements.rest_without_id) == ordered


@pytest.mark.parametrize(
    ("columns", "order", "counts"),
    [
        ({"__$command_id"}, ["__$start_lsn", "__$command_id"], True),
        ({"__$command_id"}, ["__$start_lsn", "__$seqval"], False),
        ({"__$command_id"}, [], True),
        (set(), ["__$start_lsn", "__$seqval"], False),
    ],
)
def test_the_order_is_that_of_the_clustered_index(
    columns: set[str], order: list[str], *, counts: bool
):
    assert _is_ordered_by_command_id(columns, order) == counts
