"""Which table an operator means, where names may differ in case only."""

from __future__ import annotations

import pytest

from tailrace_publisher.daemon.orders.signals import Signals
from tailrace_schemas.records.signals import SnapshotSignal
from tailrace_schemas.topics.topic_names import TableName, meant_by, told_apart

LOWER, UPPER = TableName("shop", "dbo", "orders"), TableName("shop", "dbo", "Orders")
LINES = TableName("shop", "dbo", "Lines")
TABLES = [UPPER, LOWER, LINES]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("dbo.orders", [LOWER]),
        ("dbo.Orders", [UPPER]),
        ("shop.dbo.Orders", [UPPER]),
        ("DBO.ORDERS", [UPPER, LOWER]),
        ("dbo.lines", [LINES]),
        ("Shop.dbo.lines", [LINES]),
        ("orders", []),
        ("dbo.nosuch", []),
    ],
)
def test_the_one_that_is_spelled_so_comes_first(name: str, meant: list[TableName]) -> None:
    assert meant_by(name, TABLES) == meant


def test_several_are_named_with_what_to_do() -> None:
    told = told_apart("DBO.ORDERS", meant_by("DBO.ORDERS", TABLES))
    assert "may be dbo.Orders and dbo.orders" in told
    assert "Fix: spell it" in told


def test_a_condition_is_of_the_table_that_is_spelled_so() -> None:
    signal = SnapshotSignal(
        ("dbo.Orders", "dbo.orders"), {"dbo.Orders": "id = 1", "dbo.orders": "id = 2"}
    )
    assert [signal.condition_of(name) for name in signal.tables] == ["id = 1", "id = 2"]
    assert signal.condition_of("DBO.orders") == "id = 1"


class Tables:
    """What a signal asks of the published tables."""

    def __init__(self) -> None:
        self.begun: list[TableName] = []

    def find(self, name: str) -> list[TableName]:
        return meant_by(name, TABLES)

    def get(self, table: TableName) -> TableName | None:
        return None if table is LINES else table

    def read_all(self, table: TableName) -> None:
        self.begun.append(table)


class State:
    """Keeps what is refused."""

    signals_offset: int | None = None

    def __init__(self) -> None:
        self.refused: list[str] = []

    def refuse_signal(self, _: int, reason: str) -> None:
        self.refused.append(reason)


def test_a_signal_is_carried_out_for_the_table_that_it_spells_or_refused() -> None:
    signals, tables, state = Signals.__new__(Signals), Tables(), State()
    signals.__dict__.update(_tables=tables, _orders=tables, _state=state, _topic="sim.signals")
    signal = SnapshotSignal(("dbo.orders", "DBO.orders", "dbo.lines", "dbo.nosuch"))

    signals._take(7, signal.to_bytes())

    assert tables.begun == [LOWER]
    ambiguous, unknown = state.refused
    assert "may be dbo.Orders and dbo.orders" in ambiguous
    assert "no such table" in unknown
