"""The table and the rows with which encode and publisher are measured.

Twelve columns of the types that a business table has, eleven of them nullable. An insert event has
about 350 bytes; a source transaction has ten rows.
"""

from __future__ import annotations

import datetime as dt
import random
import uuid
from decimal import Decimal
from typing import Any, Final

from tailrace_schemas.events.column_types import ColumnType
from tailrace_schemas.events.envelope import SchemaColumn, TableSchema
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.topic_names import TableName

ROWS_PER_TRANSACTION: Final = 10
_COLUMNS: Final = (
    ("id", ColumnType("bigint")),
    ("quantity", ColumnType("smallint")),
    ("customer", ColumnType("nvarchar", length=50)),
    ("address", ColumnType("nvarchar", length=200)),
    ("price", ColumnType("decimal", precision=18, scale=4)),
    ("ordered_at", ColumnType("datetime2", scale=6)),
    ("ship_date", ColumnType("date")),
    ("is_paid", ColumnType("bit")),
    ("discount", ColumnType("float", precision=53)),
    ("checksum", ColumnType("varbinary", length=16)),
    ("reference", ColumnType("uniqueidentifier")),
    ("status", ColumnType("varchar", length=20)),
)
_EPOCH: Final = dt.datetime(2013, 1, 1)  # noqa: DTZ001 - datetime2 has no zone


def table_schema(database: str = "shop") -> TableSchema:
    """The table ``dbo.orders``, keyed by ``id``."""
    columns = tuple(
        SchemaColumn(index + 1, name, column, nullable=index > 0, key_ordinal=int(index == 0))
        for index, (name, column) in enumerate(_COLUMNS)
    )
    return TableSchema(TableName(database, "dbo", "orders"), "dbo_orders", Lsn(1, 1, 1), columns)


def ddl() -> str:
    """CREATE TABLE of it."""
    columns = ", ".join(
        f"{name} {column} {'NOT NULL PRIMARY KEY' if name == 'id' else 'NULL'}"
        for name, column in _COLUMNS
    )
    return f"CREATE TABLE dbo.orders ({columns})"


def values(number: int, randomness: random.Random) -> tuple[Any, ...]:
    """One row as pyodbc gives and takes it."""
    return (
        number,
        randomness.randrange(1000),
        f"Customer {number % 977:>8}",
        f"{randomness.randrange(9999)} Rue de la Bénédiction, 7500{number % 10} Paris" + " " * 20,
        Decimal(randomness.randrange(10**9)).scaleb(-4),
        _EPOCH + dt.timedelta(microseconds=randomness.randrange(10**15)),
        _EPOCH.date() + dt.timedelta(days=randomness.randrange(4000)),
        number % 3 == 0,
        randomness.random(),
        randomness.randbytes(16),
        uuid.UUID(int=randomness.getrandbits(128)),
        ("open", "packed", "shipped", None)[number % 4],
    )


def change_rows(
    count: int, *, updates: bool, one_transaction: bool = False
) -> tuple[list[tuple[Any, ...]], dict[bytes, int]]:
    """Rows of the change table and the commit times of their transactions.

    Args:
        count: number of events; an update has two rows.
        updates: whether they are updates (of two columns) or inserts.
        one_transaction: whether they are all of one transaction, each with a command id of its own.
    """
    randomness = random.Random(7)  # noqa: S311 - the same rows in every run
    rows: list[tuple[Any, ...]] = []
    commit_ms: dict[bytes, int] = {}
    for number in range(count):
        block = number // ROWS_PER_TRANSACTION + 1
        commit = Lsn(42, 0 if one_transaction else block, 99).to_bytes()
        commit_ms[commit] = 1_760_000_000_000 + block
        command_id = number + 1 if one_transaction else 1
        where = (commit, command_id, Lsn(42, block, number % ROWS_PER_TRANSACTION + 1).to_bytes())
        row = values(number, randomness)
        if updates:
            changed = (row[0], row[1], *row[2:11], "returned")
            rows += [(*where, 3, b"\x08\x00", *row), (*where, 4, b"\x08\x00", *changed)]
        else:
            rows.append((*where, 2, b"\x0f\xff", *row))
    return rows, commit_ms
