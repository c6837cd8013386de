"""What happens in the middle of the demo's day: a new column, and a publisher that is killed.

At noon the airports announce gates, so the source's table gets a column. SQL Server captures a new
column through a second capture instance, so the demo enables one. Flights that leave afterwards
have a gate. A little later the publisher is killed while changes arrive, and started again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from tailrace.demo.flights import DEPART, SourceTransaction, Statement

if TYPE_CHECKING:
    import pyodbc

DDL: Final = "ALTER TABLE dbo.flights ADD gate char(3) NULL"
INSTANCE: Final = "dbo_flights_gate"
DEPART_FROM_GATE: Final = (
    "UPDATE dbo.flights SET dep_time = ?, dep_delay = ?, gate = ? WHERE flight_id = ?"
)
_ENABLE: Final = (
    "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'flights',"
    f" @role_name = NULL, @supports_net_changes = 1, @capture_instance = N'{INSTANCE}'"
)
_TERMINALS: Final = "ABCD"
_KILLED_AT: Final = 0.6


@dataclass(frozen=True, slots=True)
class Day:
    """The day's transactions, and where in them the middle is.

    Attributes:
        noon: how many of them come before the column.
        killed: the publisher is killed after this many of them.
    """

    transactions: list[SourceTransaction]
    noon: int
    killed: int

    @property
    def gates(self) -> int:
        """How many flights leave from a gate."""
        return sum(sql == DEPART_FROM_GATE for t in self.transactions for sql, _ in t.statements)


def with_gates(transactions: list[SourceTransaction]) -> Day:
    """The day with gates from the middle of its transactions on."""
    noon = len(transactions) // 2
    afternoon = [replace(t, statements=_with_gates(t.statements)) for t in transactions[noon:]]
    killed = round(len(transactions) * _KILLED_AT)
    return Day([*transactions[:noon], *afternoon], noon, killed)


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


def add_gates(connection: pyodbc.Connection) -> None:
    """Change the table, and have its new column captured."""
    cursor = connection.cursor()
    cursor.execute(DDL)
    connection.commit()
    cursor.execute(_ENABLE)
    while cursor.nextset():
        pass
    connection.commit()
    cursor.close()
