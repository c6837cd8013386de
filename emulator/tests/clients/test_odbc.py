"""Microsoft's ODBC driver by pyodbc and by arrow-odbc: what tests/wire does not already show."""

from __future__ import annotations

import datetime
import decimal
import uuid
from typing import Any

import arrow_odbc
import pyarrow as pa
import pyodbc
import pytest

from emulator.tests.clients.conftest import Source

D = decimal.Decimal
naive = datetime.datetime.fromisoformat
ENCRYPTIONS = ("no", "yes", "strict")


def connection_string(source: Source, encrypt: str) -> str:
    options = {"Encrypt": encrypt}
    if encrypt == "strict":
        options |= {"ServerCertificate": str(source.certificate), "TrustServerCertificate": "no"}
    return source.emulator.connection_string(source.database, **options)


ROWS: list[tuple[Any, ...]] = [
    (
        *(1, True, 255, -32768, -9223372036854775808, 1.5, D("1234567890123456.7891")),
        *("Grüße", "日本 🎉", "日" * 3000, b"\x00\x01\xff", datetime.date(9999, 12, 31)),
        *(naive("9999-12-31T23:59:59.999999"), uuid.UUID("6f9619ff-8b86-d011-b42d-00c04fc964ff")),
    ),
    (2, False, 0, 0, 0, 0.0, D("0.0000"), "", "", "", b"", datetime.date(1, 1, 1),
     naive("0001-01-01T00:00:00"), uuid.UUID(int=0)),
    (3, *(None,) * 13),
]  # fmt: skip
COLUMNS = (
    "id int NOT NULL PRIMARY KEY, b bit, t tinyint, s smallint, big bigint, f float,"
    " amount decimal(20, 4), v varchar(20), n nvarchar(20), long nvarchar(max), raw varbinary(20),"
    " d date, at datetime2(6), u uniqueidentifier"
)


@pytest.mark.parametrize("encrypt", ENCRYPTIONS)
def test_fast_executemany_of_every_kind(source: Source, table: str, encrypt: str):
    """Arrays of parameters, NULLs among them, in one round trip."""
    with pyodbc.connect(connection_string(source, encrypt), autocommit=True) as connection:
        connection.execute(f"CREATE TABLE {table} ({COLUMNS})")
        cursor = connection.cursor()
        cursor.fast_executemany = True
        marks = ", ".join("?" * len(ROWS[0]))
        cursor.executemany(f"INSERT INTO {table} VALUES ({marks})", ROWS)
        found = [tuple(row) for row in cursor.execute(f"SELECT * FROM {table} ORDER BY id")]
    assert [row[:-1] for row in found] == [row[:-1] for row in ROWS]
    assert [row[-1] and uuid.UUID(row[-1]) for row in found] == [row[-1] for row in ROWS]


@pytest.mark.parametrize("encrypt", ENCRYPTIONS)
def test_arrow_batches(source: Source, table: str, encrypt: str):
    connection = source.connect()
    connection.execute(
        f"CREATE TABLE {table} (id int NOT NULL PRIMARY KEY, big bigint, amount decimal(18, 4),"
        " name nvarchar(20), lsn binary(10), at datetime2(3), b bit)"
    )
    rows = ", ".join(
        f"({n}, {n} * 10000000000, {n}.0625, N'n{n}', 0x{n:020x}, '2026-01-02T03:04:05.678',"
        f" {n % 2})"
        for n in range(500)
    )
    connection.execute(f"INSERT INTO {table} VALUES {rows}")
    connection.execute(f"INSERT INTO {table} (id) VALUES (500)")
    reader = arrow_odbc.read_arrow_batches_from_odbc(
        query=f"SELECT * FROM {table} WHERE id >= ? ORDER BY id",
        connection_string=connection_string(source, encrypt),
        parameters=["100"],
        batch_size=150,
    )
    assert [(field.name, str(field.type)) for field in reader.schema] == [
        ("id", "int32"),
        ("big", "int64"),
        ("amount", "decimal128(18, 4)"),
        ("name", "string"),
        ("lsn", "fixed_size_binary[10]"),
        ("at", "timestamp[ms]"),
        ("b", "bool"),
    ]
    read = pa.Table.from_batches(list(reader), reader.schema)
    assert read.num_rows == 401
    assert tuple(read.slice(0, 1).to_pylist()[0].values()) == (
        *(100, 1000000000000, D("100.0625"), "n100", (100).to_bytes(10, "big")),
        *(naive("2026-01-02T03:04:05.678"), False),
    )
    assert list(read.slice(400, 1).to_pylist()[0].values()) == [500, *[None] * 6]


def test_tables_as_parameters(source: Source, table: str):
    connection = source.connect()
    connection.execute(
        f"CREATE TYPE dbo.{table}_type AS TABLE (id int NOT NULL PRIMARY KEY, name nvarchar(max),"
        " amount decimal(18, 4) CHECK (amount > 0), at datetime2(3))"
    )
    connection.execute(
        f"CREATE PROCEDURE {table}_p @rows dbo.{table}_type READONLY, @n int = 5 AS"
        " SELECT id, LEN(name), amount, at, @n FROM @rows ORDER BY id"
    )
    at = naive("2026-01-02T03:04:05.678")
    rows = [(1, "é" * 9000, D("1.5"), at), (2, "zwei", D("0.0001"), at)]
    expected = [(1, 9000, D("1.5000"), at, 7), (2, 4, D("0.0001"), at, 7)]
    for text in (f"{{CALL {table}_p (?, ?)}}", f"EXEC dbo.{table}_p ?, ?"):
        found = connection.execute(text, (rows, 7)).fetchall()
        assert [tuple(row) for row in found] == expected
    text = "SELECT MAX(amount), COUNT(*) FROM ? AS x"
    typed = [f"{table}_type", *rows]
    assert [tuple(row) for row in connection.execute(text, (typed,)).fetchall()] == [(D("1.5"), 2)]
    assert connection.execute(f"EXEC {table}_p ?", ([],)).fetchall() == []
    with pytest.raises(pyodbc.IntegrityError, match=r"PRIMARY KEY .* object 'dbo.@P1'"):
        connection.execute(f"EXEC {table}_p ?", ([rows[0], rows[0]],))


def test_arrow_reads_a_cdc_function(source: Source):
    reader = arrow_odbc.read_arrow_batches_from_odbc(
        query="SELECT __$operation, __$update_mask, id, name FROM"
        " cdc.fn_cdc_get_all_changes_dbo_Tracked(sys.fn_cdc_get_min_lsn(?),"
        " sys.fn_cdc_get_max_lsn(), N'all update old')",
        connection_string=connection_string(source, "yes"),
        parameters=["dbo_Tracked"],
        batch_size=10,
    )
    read = pa.Table.from_batches(list(reader), reader.schema)
    assert [tuple(row.values()) for row in read.to_pylist()] == [
        *((2, b"\x03", 1, "één"), (2, b"\x03", 2, "zwei"), (3, b"\x02", 1, "één")),
        *((4, b"\x02", 1, "Один"), (1, b"\x03", 2, "zwei")),
    ]
