"""What the publisher's benchmark publishes: inserts or updates of tables of some forms."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final

import pyodbc

from bench import workload
from tailrace_schemas.events.column_types import ColumnType
from tailrace_schemas.events.envelope import SchemaColumn, TableSchema
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.topic_names import TableName

_SEED_ROWS: Final = 1000
_LIMIT_S: Final = 600.0
_WIDE_TYPES: Final = (
    ColumnType("int"),
    ColumnType("nvarchar", length=60),
    ColumnType("decimal", precision=12, scale=2),
)
_WIDE_COLUMNS: Final = 100
_LONG_COLUMNS: Final = 11
_LONG_TEXT: Final = 1000


class Shape(StrEnum):
    """Of the table."""

    ORDERS = "orders"
    """The workload's: 12 columns, 330 bytes an event."""
    WIDE = "wide"
    """100 columns, 2 kB."""
    LONG = "long"
    """A key and ten texts of 1,000 characters, 10 kB."""


@dataclass(frozen=True, slots=True)
class ChangeLoad:
    """Changes of one kind.

    Attributes:
        transaction: events of a source transaction; divides the events, and 1000 or is a multiple
            of it.
        is_updates: updates of one column instead of inserts.
    """

    events: int
    transaction: int = workload.ROWS_PER_TRANSACTION
    shape: Shape = Shape.ORDERS
    is_updates: bool = False

    @property
    def change_rows(self) -> int:
        """Of the change table: an update has two."""
        return self.events * (2 if self.is_updates else 1)

    def schema(self) -> TableSchema:
        """The table ``dbo.orders``, keyed by ``id``."""
        if self.shape is Shape.ORDERS:
            return workload.table_schema()
        types = [ColumnType("bigint")]
        if self.shape is Shape.LONG:
            types += [ColumnType("varchar", length=_LONG_TEXT)] * (_LONG_COLUMNS - 1)
        else:
            types += [_WIDE_TYPES[place % len(_WIDE_TYPES)] for place in range(_WIDE_COLUMNS - 1)]
        columns = tuple(
            SchemaColumn(
                n + 1, f"c{n}" if n else "id", kind, nullable=n > 0, key_ordinal=int(n == 0)
            )
            for n, kind in enumerate(types)
        )
        return TableSchema(TableName("shop", "dbo", "orders"), "dbo_orders", Lsn(1, 1, 1), columns)

    def prepare(self, connection: pyodbc.Connection) -> None:
        """Make the captured table, rows to copy, and what is to be updated."""
        columns = ", ".join(
            f"{column.name} {column.type} {'NULL' if column.nullable else 'NOT NULL PRIMARY KEY'}"
            for column in self.schema().columns
        )
        for table in ("orders", "seed"):
            connection.execute(f"CREATE TABLE dbo.{table} ({columns})")
        randomness = random.Random(7)  # noqa: S311 - the same rows in every run
        marks = ", ".join("?" * len(self._names()))
        with connection.cursor() as cursor:
            cursor.fast_executemany = True
            cursor.executemany(
                f"INSERT INTO dbo.seed VALUES ({marks})",
                [self._row(number, randomness) for number in range(_SEED_ROWS)],
            )
        if self.is_updates:
            self._run(connection, self._insert())
        connection.execute(
            "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'orders',"
            " @role_name = NULL, @supports_net_changes = 0"
        )

    def make(self, connection: pyodbc.Connection) -> None:
        """Make the changes and wait until all are captured.

        The server copies its own rows in a loop: a client that sends every row would take most of
        the benchmark's time.
        """
        self._run(connection, self._update() if self.is_updates else self._insert())
        deadline = time.monotonic() + _LIMIT_S
        ticks = threading.Event()
        count = "SELECT COUNT(*) FROM cdc.dbo_orders_CT"
        while connection.execute(count).fetchval() < self.change_rows:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.change_rows} rows were not captured in {_LIMIT_S:g} s")
            ticks.wait(0.5)

    def _run(self, connection: pyodbc.Connection, statement: str) -> None:
        step = min(self.transaction, _SEED_ROWS)
        connection.execute(
            "SET NOCOUNT ON; DECLARE @base bigint = 0; DECLARE @low bigint;"
            f" WHILE @base < {self.events} BEGIN"
            f" IF @base % {self.transaction} = 0 BEGIN TRANSACTION;"
            f" SET @low = @base % {_SEED_ROWS}; {statement}"
            f" SET @base = @base + {step};"
            f" IF @base % {self.transaction} = 0 COMMIT; END"
        )

    def _insert(self) -> str:
        step = min(self.transaction, _SEED_ROWS)
        return (
            f"INSERT INTO dbo.orders SELECT id - @low + @base, {', '.join(self._names()[1:])}"
            f" FROM dbo.seed WHERE id >= @low AND id < @low + {step};"
        )

    def _update(self) -> str:
        step = min(self.transaction, _SEED_ROWS)
        name = self._names()[1]
        return (
            f"UPDATE dbo.orders SET {name} = {name} + 1 WHERE id >= @base AND id < @base + {step};"
        )

    def _names(self) -> Sequence[str]:
        return [column.name for column in self.schema().columns]

    def _row(self, number: int, randomness: random.Random) -> tuple[Any, ...]:
        if self.shape is Shape.ORDERS:
            return workload.values(number, randomness)
        values: list[Any] = [number]
        if self.shape is Shape.LONG:
            # As compressible as prose: half of it.
            words = (f"{randomness.randrange(10**9):09d} weir " for _ in range(_LONG_TEXT))
            text = "".join(words)
            starts = range(0, (_LONG_COLUMNS - 1) * _LONG_TEXT, _LONG_TEXT)
            return (number, *(text[start : start + _LONG_TEXT] for start in starts))
        for place in range(_WIDE_COLUMNS - 1):
            value = randomness.randrange(10**9)
            text = f"{value} rue de la Bénédiction, {value % 89} Paris"
            values.append([value, text, Decimal(value).scaleb(-2)][place % len(_WIDE_TYPES)])
        return tuple(values)
