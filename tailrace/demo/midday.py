"""What happens in the middle of the demo's day: a new column, and a publisher that is killed.

At noon the airports announce gates, so the source's table gets a column. The same transaction fills
it for the flights that have left. No change table ever has these values. tailrace publish creates a
second capture instance, hands over to it, and drops the first one. It then re-reads the values
(``tables.schema_change: rotate``). Flights that leave afterwards have a gate in their change rows.
A little later the publisher is killed while changes arrive, and started again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from tailrace.demo.database import DATABASE
from tailrace.demo.flights import DEPART, SourceTransaction, Statement, change_rows
from tailrace_schemas.topics.topic_names import TableName

if TYPE_CHECKING:
    import pyodbc

    from tailrace.demo.change_tables import ChangeTables
    from tailrace.demo.replay import Wait

TABLE: Final = "flights"
NAME: Final = TableName(DATABASE, "dbo", TABLE)
KEY: Final = "flight_id"
COLUMN: Final = "gate"
DDL: Final = f"ALTER TABLE dbo.{TABLE} ADD {COLUMN} char(3) NULL"
DEPART_FROM_GATE: Final = (
    "UPDATE dbo.flights SET dep_time = ?, dep_delay = ?, gate = ? WHERE flight_id = ?"
)
# As _gate below.
_FILL: Final = (
    "UPDATE dbo.flights SET gate = CHAR(65 + flight_id % 4)"
    " + RIGHT(CONCAT('0', flight_id % 40 + 1), 2) WHERE dep_time IS NOT NULL"
)
_TERMINALS: Final = "ABCD"
_KILLED_AT: Final = 0.6


@dataclass(frozen=True, slots=True)
class Day:
    """The day's transactions, and where in them the middle is.

    Attributes:
        noon: how many of them come before the column.
        killed: the publisher is killed after this many of them.
        left: flights that left before the column, from a gate that is in no change row.
    """

    transactions: list[SourceTransaction]
    noon: int
    killed: int
    left: frozenset[int]

    @property
    def gates(self) -> int:
        """How many flights left from a gate in the end."""
        return len(self.left) + sum(
            sql == DEPART_FROM_GATE for t in self.transactions for sql, _ in t.statements
        )

    @property
    def changes_before(self) -> int:
        """Change rows of the flights before the column."""
        return change_rows(self.transactions[: self.noon])[TABLE]


def with_gates(transactions: list[SourceTransaction]) -> Day:
    """The day with gates from the middle of its transactions on."""
    noon = len(transactions) // 2
    morning = transactions[:noon]
    left = {int(values[-1]) for t in morning for sql, values in t.statements if sql == DEPART}
    afternoon = [replace(t, statements=_with_gates(t.statements)) for t in transactions[noon:]]
    killed = round(len(transactions) * _KILLED_AT)
    return Day([*morning, *afternoon], noon, killed, frozenset(left))


def _with_gates(statements: Iterable[Statement]) -> tuple[Statement, ...]:
    return tuple(
        (DEPART_FROM_GATE, (*values[:-1], _gate(int(values[-1])), values[-1]))
        if sql == DEPART
        else (sql, values)
        for sql, values in statements
    )


def _gate(flight: int) -> str:
    """One that follows from the flight, so that every run of the demo has the same day."""
    return f"{_TERMINALS[flight % len(_TERMINALS)]}{flight % 40 + 1:02}"


def add_gates(
    connection: pyodbc.Connection, day: Day, change_tables: ChangeTables, wait: Wait
) -> str:
    """Add the column and fill it; return the second capture instance once it has started.

    Args:
        connection: that of the replay, without autocommit.
        wait: for a condition, while nothing is replayed.

    Raises:
        TimeoutError: the capture job or the publisher did not do its part in time.
    """
    connection.autocommit = True
    wait(
        lambda: change_tables.captured(connection).change_rows[TABLE] >= day.changes_before,
        "the morning is captured",
    )
    change_tables.keep(connection, TABLE)
    connection.autocommit = False
    # In one transaction, so that no capture instance can start between the two.
    connection.execute(DDL)
    connection.execute(_FILL)
    connection.commit()
    connection.autocommit = True
    wait(
        lambda: change_tables.follow_successor(connection, TABLE),
        "tailrace publish has created a capture instance, and it has started",
    )
    connection.autocommit = False
    return change_tables.instance_of(TABLE)
