"""Random changes of tables with a column of every type, and with a key of several columns."""

from __future__ import annotations

import datetime as dt
import random
from dataclasses import replace
from decimal import Decimal
from typing import Any

from tests.envelopes.source import Source
from tests.envelopes.tables import SourceTable, column
from tests.envelopes.transaction import Transaction

# ruff: noqa: DTZ001, DTZ901 - SQL Server's datetime types have no zone

VALUES: dict[str, list[Any]] = {
    "bit": [True, False],
    "tinyint": [0, 255],
    "smallint": [-(2**15), 2**15 - 1],
    "int": [-(2**31), 0, 2**31 - 1],
    "bigint": [-(2**63), 2**63 - 1],
    "decimal(5,2)": [Decimal("-999.99"), Decimal("0.00"), Decimal("1.5")],
    "decimal(38,10)": [Decimal("9" * 28 + "." + "9" * 10), Decimal("-1E-10")],
    "money": [Decimal("-922337203685477.5808"), Decimal("922337203685477.5807")],
    "real": [0.5, -3.4028234663852886e38],
    "float(53)": [1.7976931348623157e308, -5e-324, -0.0],
    "date": [dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(2024, 2, 29)],
    "datetime2(7)": [dt.datetime.min, dt.datetime.max, dt.datetime(2024, 1, 2, 3, 4, 5, 6)],
    "datetime": [dt.datetime(1753, 1, 1), dt.datetime(2024, 2, 29, 23, 59, 59, 997_000)],
    "time(6)": [dt.time.min, dt.time.max],
    "datetimeoffset(7)": ["0001-01-01T00:00:00.0000001-14:00", "9999-12-31T23:59:59.9999999+14:00"],
    "uniqueidentifier": [
        "6f9619ff-8b86-d011-b42d-00c04fc964ff",
        "0" * 8 + "-0000" * 3 + "-" + "f" * 12,
    ],
    "varbinary(20)": [b"", b"\x00\xff", b"x" * 20],
    "nvarchar(20)": ["", "ä€😀", "'quoted\" \\"],
    "varchar(max)": ["", "large " * 500],
    "varbinary(max)": [b"", b"\x01" * 3000],
    "xml": ["<a/>", "<b>é</b>"],
}
KEYS = ("decimal(5,2)", "datetimeoffset(7)", "varbinary(20)", "nvarchar(20)")


def of_every_type(source: Source) -> SourceTable:
    """A key of one column, and one column of every type; some names need escapes."""
    columns = [column(n + 2, f"v {n}" if n % 2 else f"v{n}", t) for n, t in enumerate(VALUES)]
    return source.table("types", column(1, "id", "int", key=1), *columns)


def with_a_wide_key(source: Source) -> SourceTable:
    """A key of several columns, which may be NULL, as a unique index allows."""
    key = [column(n + 1, f"k{n}", t, key=n + 1) for n, t in enumerate(KEYS)]
    key = [replace(part, nullable=True) for part in key]
    return source.table("keys", *key, column(9, "v", "int"), column(10, "text", "varchar(max)"))


def value_of(sql_type: str, chance: random.Random) -> Any:
    return None if chance.random() < 0.2 else chance.choice(VALUES[sql_type])


def change(table: SourceTable, chance: random.Random, transaction: Transaction) -> None:
    """Create, change, move or delete a row; an update leaves some columns as they are."""
    row = {c.name: value_of(str(c.type), chance) for c in table.schema.columns}
    if table.name.table != "keys":
        row["id"] = chance.randrange(12)
    key, rows = table.key_of(row), table.rows
    if key not in rows:
        transaction.insert(table, **row)
    elif chance.random() < 0.3:
        transaction.delete(table, key)
    elif chance.random() < 0.3 and len(rows) < 12:
        free = next(n for n in range(100, 300) if n not in {old[0] for old in rows})
        moved: dict[str, Any] = {"id": free} if "id" in row else {"k0": Decimal(free)}
        transaction.update(table, key, **moved)
    else:
        kept = {name: v for name, v in row.items() if chance.random() < 0.5}
        keyed = {c.name for c in table.schema.key_columns}
        transaction.update(table, key, **{n: v for n, v in kept.items() if n not in keyed})
