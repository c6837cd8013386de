"""The two halves of an update stay together, whatever the page size."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace_publisher.change.instance import CapturedColumn, CaptureInstance
from tailrace_publisher.change.page import ChangeRow, join_carried
from tailrace_publisher.change.ranges import LsnRange, first_lsn_after, is_closed
from tailrace_publisher.errors import SourceBehind, SourceError
from tailrace_publisher.ports import Connection
from tailrace_publisher.source.pages.page_readers import NEWEST
from tailrace_publisher.source.pages.page_size import PageLimit, RowSize
from tailrace_publisher.source.pages.pages import ChangePages
from tailrace_schemas.events.column_types import ColumnType
from tailrace_schemas.events.envelope import SchemaColumn, TableSchema
from tailrace_schemas.position.change_position import ChangePosition, Operation
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.topic_names import TableName


@st.composite
def change_rows(draw: st.DrawFn) -> list[ChangeRow]:
    rows: list[ChangeRow] = []
    for number, kind in enumerate(draw(st.lists(st.sampled_from("iud"), max_size=20))):
        seqval = number.to_bytes(10, "big")
        operations = {"i": (2,), "d": (1,), "u": (3, 4)}[kind]
        rows += [(b"c" * 10, number, seqval, operation, b"", number) for operation in operations]
    return rows


@given(change_rows(), st.integers(1, 7))
def test_pages_hold_whole_updates_and_lose_none(rows: list[ChangeRow], size: int):
    out: list[ChangeRow] = []
    carried = None
    for start in range(0, len(rows), size):
        page, carried = join_carried(carried, rows[start : start + size])
        assert not page or page[-1][3] != 3
        assert not page or page[0][3] != 4
        out += page

    assert carried is None
    assert out == rows


def test_a_before_image_without_its_after_image_is_an_error():
    before = (b"c" * 10, 1, b"s" * 10, 3, b"", 1)
    stranger = (b"c" * 10, 1, b"t" * 10, 4, b"", 1)

    with pytest.raises(ValueError, match="not its after image"):
        join_carried(before, [stranger])


def test_a_position_inside_a_transaction_needs_that_transaction_again():
    lsn = Lsn(1, 2, 3)
    inside = ChangePosition(lsn, 1, Lsn(1, 2, 1), Operation.INSERT)

    assert first_lsn_after(inside) == lsn
    assert first_lsn_after(ChangePosition.end_of(lsn)) == lsn.increment()
    assert is_closed(ChangePosition.end_of(lsn))
    assert not is_closed(inside)


def test_a_range_does_not_run_backwards():
    with pytest.raises(ValueError, match="backwards"):
        LsnRange(ChangePosition.end_of(Lsn(2, 0, 0)), Lsn(1, 0, 0))


# -- what the reading connection sees --------------------------------------------------------------

TABLE = TableName("db", "dbo", "t")
INSTANCE = CaptureInstance(
    name="dbo_t",
    table=TABLE,
    low_watermark=Lsn(1, 0, 1),
    create_date=datetime(2026, 1, 1),  # noqa: DTZ001
    object_id=1,
    source_object_id=2,
    supports_net_changes=False,
    ordered_by_command_id=True,
    columns=(
        CapturedColumn(
            1, "id", 1, ColumnType("int"), nullable=False, is_computed=False, in_source=True
        ),
    ),
    key=("id",),
    identity=("id",),
)
SCHEMA = TableSchema(TABLE, "dbo_t", Lsn(1, 0, 1), (SchemaColumn(1, "id", ColumnType("int")),))


@dataclass
class Replica:
    """A readable secondary whose redo has come to an LSN; it has one insert in each transaction."""

    redone: int
    statements: list[str] = field(default_factory=list)

    def query_sets(self, sql: str, *parameters: Any) -> list[list[Any]]:
        self.statements.append(sql)
        rows, after, up_to, _ = parameters[-4:]
        found = [
            (Lsn(1, n, 1).to_bytes(), 1, Lsn(1, n, 0).to_bytes(), 2, b"", n)
            for n in range(1, self.redone + 1)
            if after < Lsn(1, n, 1).to_bytes() <= up_to
        ][:rows]
        sets: list[list[Any]] = [found, [(Lsn(1, 0, 1).to_bytes(),)]]
        if sql.startswith(f"SELECT {NEWEST}"):
            newest = Lsn(1, self.redone, 1).to_bytes() if self.redone else None
            sets.insert(0, [(newest,)])
        if "[__$start_lsn] = ?" in sql:
            sets.insert(-2, [])
        return sets


@dataclass
class CatchingUp(Replica):
    """One that refuses a statement for what it has not redone, and has redone it right after."""

    number: int = 0

    def query_sets(self, sql: str, *parameters: Any) -> list[list[Any]]:
        if not self.statements:
            self.statements.append(sql)
            raise SourceError("refused", number=self.number)
        return super().query_sets(sql, *parameters)

    def query(self, sql: str, *_: Any) -> list[Any]:
        if "sys.columns" in sql:
            return [(1,)]
        if "fn_cdc_get_min_lsn" in sql:
            return [(Lsn(1, 0, 1).to_bytes(),)]
        return [(Lsn(1, self.redone, 1).to_bytes(),)]


def pages_at(replica: Replica, up_to: int, instance: CaptureInstance = INSTANCE) -> ChangePages:
    span = LsnRange(ChangePosition.end_of(Lsn(1, 0, 1)), Lsn(1, up_to, 1))
    return ChangePages(
        cast(Connection, replica),
        instance,
        SCHEMA,
        span,
        PageLimit(2, 1 << 30),
        Lsn(1, 0, 1),
        RowSize(SCHEMA),
    )


@pytest.mark.parametrize("redone", [0, 3])
def test_a_replica_that_is_behind_the_window_is_no_end_of_it(redone: int):
    with pytest.raises(SourceBehind) as refused:
        pages_at(Replica(redone), up_to=5).read()

    assert refused.value.retryable
    assert refused.value.needed == Lsn(1, 5, 1)
    assert refused.value.seen == (Lsn(1, redone, 1) if redone else None)


@pytest.mark.parametrize(("number", "by_function"), [(313, True), (207, False)])
def test_a_replica_that_catches_up_after_it_refused_is_read_again(number: int, by_function: bool):
    replica = CatchingUp(redone=5, number=number)
    instance = replace(INSTANCE, by_function=by_function)

    page = pages_at(replica, 5, instance).read()

    assert page is not None
    assert [row[-1] for row in page.rows] == [1, 2]


def test_what_no_replica_cures_is_told():
    replica = CatchingUp(redone=5, number=8134)

    with pytest.raises(SourceError, match="refused"):
        pages_at(replica, 5).read()
    assert len(replica.statements) == 1


def test_only_the_first_page_of_a_range_asks_what_the_connection_sees():
    replica = Replica(redone=9)
    pages = pages_at(replica, up_to=5)
    read = []
    while (page := pages.read()) is not None:
        read += [row[-1] for row in page.rows]

    assert read == [1, 2, 3, 4, 5]
    assert len(replica.statements) > 1
    assert [sql.count(NEWEST) for sql in replica.statements] == [
        1,
        *[0] * (len(replica.statements) - 1),
    ]
