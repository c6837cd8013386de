"""Every type as column, parameter and result, NULLs and extremes, through pyodbc and arrow-odbc.

The extremes are those of "Data types (Transact-SQL)". A value goes in as text in a T-SQL
statement, comes out through both drivers, and goes back in as a parameter that must find its row.
"""

import datetime
import decimal
import struct
import uuid
from typing import NamedTuple

import arrow_odbc
import pyarrow as pa
import pytest

D = decimal.Decimal
naive = datetime.datetime.fromisoformat
day = datetime.date.fromisoformat
clock = datetime.time.fromisoformat


class Kind(NamedTuple):
    """A type: its declaration, (T-SQL text, what pyodbc reads) pairs, and the Arrow type."""

    declared: str
    values: list
    arrow: pa.DataType | None


def numeric(precision, scale):
    """decimal(precision, scale) at both ends of its range, and its smallest step."""
    top = "9" * (precision - scale) + ("." + "9" * scale if scale else "")
    step = "0." + "0" * (scale - 1) + "1" if scale else "1"
    values = [(text, D(text)) for text in (top, f"-{top}", step, f"-{step}", "0")]
    return Kind(f"decimal({precision},{scale})", values, pa.decimal128(precision, scale))


LONG = "x" * 20_000
KINDS = [
    Kind("bit", [("0", False), ("1", True)], pa.bool_()),
    Kind("tinyint", [("0", 0), ("255", 255)], pa.uint8()),
    Kind("smallint", [("-32768", -(2**15)), ("32767", 2**15 - 1)], pa.int16()),
    Kind("int", [("-2147483648", -(2**31)), ("2147483647", 2**31 - 1)], pa.int32()),
    Kind("bigint", [(str(-(2**63)), -(2**63)), (str(2**63 - 1), 2**63 - 1)], pa.int64()),
    numeric(1, 0), numeric(9, 9), numeric(10, 0), numeric(18, 4), numeric(19, 0), numeric(28, 28),
    numeric(38, 0), numeric(38, 19), numeric(38, 37),
    Kind("money", [("-922337203685477.5808", D("-922337203685477.5808")),
                   ("922337203685477.5807", D("922337203685477.5807"))], pa.decimal128(19, 4)),
    Kind("smallmoney", [("-214748.3648", D("-214748.3648")), ("214748.3647", D("214748.3647"))],
         pa.decimal128(10, 4)),
    Kind("real", [("3.40282347E+38", 3.4028234663852886e38), ("-1.18E-38", -1.17999999e-38),
                  ("0", 0.0)], pa.float32()),
    Kind("float", [("1.7976931348623157E+308", 1.7976931348623157e308),
                   ("-2.2250738585072014E-308", -2.2250738585072014e-308)], pa.float64()),
    Kind("date", [("'0001-01-01'", day("0001-01-01")), ("'9999-12-31'", day("9999-12-31"))],
         pa.date32()),
    Kind("datetime", [("'1753-01-01'", naive("1753-01-01")),
                      ("'9999-12-31T23:59:59.997'", naive("9999-12-31T23:59:59.997000")),
                      ("'2020-01-02T03:04:05.004'", naive("2020-01-02T03:04:05.003000")),
                      ("'2020-01-02T03:04:05.006'", naive("2020-01-02T03:04:05.007000")),
                      ("'2020-01-02T23:59:59.999'", naive("2020-01-03"))], pa.timestamp("ms")),
    Kind("smalldatetime", [("'1900-01-01'", naive("1900-01-01")),
                           ("'2079-06-06T23:59'", naive("2079-06-06T23:59")),
                           ("'2020-01-02T03:04:29.998'", naive("2020-01-02T03:04")),
                           ("'2020-01-02T03:04:29.999'", naive("2020-01-02T03:05"))],
         pa.timestamp("s")),
    Kind("datetime2(0)", [("'0001-01-01'", naive("0001-01-01")),
                          ("'9999-12-31T23:59:59'", naive("9999-12-31T23:59:59")),
                          ("'2020-01-02T03:04:05.5'", naive("2020-01-02T03:04:06"))],
         pa.timestamp("s")),
    Kind("datetime2(3)", [("'2020-01-02T03:04:05.6785'", naive("2020-01-02T03:04:05.679000"))],
         pa.timestamp("ms")),
    Kind("datetime2(6)", [("'0001-01-01'", naive("0001-01-01")),
                          ("'9999-12-31T23:59:59.999999'", naive("9999-12-31T23:59:59.999999"))],
         pa.timestamp("us")),
    Kind("datetime2(7)", [("'1700-01-01T00:00:00.1234560'", naive("1700-01-01T00:00:00.123456"))],
         pa.timestamp("ns")),
    Kind("time(0)", [("'00:00:00'", clock("00:00")), ("'23:59:59'", clock("23:59:59"))],
         pa.string()),
    Kind("time(6)", [("'23:59:59.999999'", clock("23:59:59.999999"))], pa.string()),
    Kind("uniqueidentifier",
         [("'00000000-0000-0000-0000-000000000000'", str(uuid.UUID(int=0)).upper()),
          ("'6F9619FF-8B86-D011-B42D-00C04FC964FF'", "6F9619FF-8B86-D011-B42D-00C04FC964FF")],
         None),
    Kind("char(3)", [("'a'", "a  "), ("'ü€z'", "ü€z")], pa.string()),
    Kind("varchar(8000)", [("''", ""), (f"'{'v' * 8000}'", "v" * 8000)], pa.string()),
    Kind("varchar(max)", [("''", ""), (f"'{LONG}'", LONG)], pa.string()),
    Kind("text", [("''", ""), (f"'{LONG}'", LONG)], pa.string()),
    Kind("nchar(3)", [("N'日'", "日  "), ("N'😀a'", "😀a")], pa.string()),
    Kind("nvarchar(4000)", [("N''", ""), (f"N'{'日' * 4000}'", "日" * 4000)], pa.string()),
    Kind("nvarchar(max)", [("N'😀'", "😀"), (f"N'{LONG}'", LONG)], pa.string()),
    Kind("ntext", [("N'日'", "日"), (f"N'{LONG}'", LONG)], pa.string()),
    Kind("xml", [("N'<a b=\"日\"/>'", '<a b="日"/>')], pa.string()),
    Kind("binary(3)", [("0x01", b"\x01\0\0"), ("0xFFFFFF", b"\xff" * 3)], pa.binary(3)),
    Kind("varbinary(8000)", [("0x", b""), ("0x00FF", b"\0\xff")], pa.binary()),
    Kind("varbinary(max)", [("0x", b""), (f"0x{'ab' * 20_000}", b"\xab" * 20_000)], pa.binary()),
    Kind("image", [("0x", b""), ("0x00FF", b"\0\xff")], pa.binary()),
]  # fmt: skip
NOT_COMPARABLE = {"text", "ntext", "image", "xml", "datetime"}
"""datetime: a datetime2 of .997 s is not the datetime .997 s, which is .9966667 s."""

DATETIMEOFFSET = -155
"""ODBC's number for a type that pyodbc leaves to its user: the driver's structure as bytes."""

LONG_BYTES = 4000
"""pyodbc sends longer parameters as ntext and image, which nothing is compared with."""

ROUNDED = {"real"}


@pytest.fixture(scope="module")
def database(module_emulator):
    """One table with a column of each type, and a NOT NULL twin of it."""
    connection = module_emulator.connect()
    connection.execute("CREATE DATABASE matrix")
    connection.execute("USE matrix")
    columns = ", ".join(f"c{n} {kind.declared} NULL" for n, kind in enumerate(KINDS))
    connection.execute(f"CREATE TABLE dbo.t (id int NOT NULL PRIMARY KEY, {columns})")
    connection.execute("INSERT INTO dbo.t (id) VALUES (0)")
    for n, kind in enumerate(KINDS):
        connection.execute(f"CREATE TABLE dbo.n{n} (id int NOT NULL, v {kind.declared} NOT NULL)")
        for number, (text, _) in enumerate(kind.values, 1):
            connection.execute(f"INSERT INTO dbo.n{n} VALUES ({number}, {text})")
    longest = max(len(kind.values) for kind in KINDS)
    for number in range(1, longest + 1):
        cells = [
            kind.values[number - 1][0] if number <= len(kind.values) else "NULL" for kind in KINDS
        ]
        connection.execute(f"INSERT INTO dbo.t VALUES ({number}, {', '.join(cells)})")
    return module_emulator


@pytest.fixture(scope="module")
def connection(database):
    made = database.connect("matrix")
    made.add_output_converter(DATETIMEOFFSET, bytes)
    return made


def same(kind, read, expected):
    """Equality; real has seven digits."""
    if kind.declared in ROUNDED:
        return read == pytest.approx(expected, rel=1e-7)
    return read == expected and type(read) is type(expected)


EACH = pytest.mark.parametrize("n", range(len(KINDS)), ids=[kind.declared for kind in KINDS])


@EACH
def test_column(connection, n):
    kind = KINDS[n]
    count = len(kind.values)
    rows = connection.execute(f"SELECT c{n} FROM dbo.t WHERE id <= {count} ORDER BY id").fetchall()
    assert rows[0][0] is None
    for (read,), (text, expected) in zip(rows[1:], kind.values, strict=True):
        assert same(kind, read, expected), text
    cursor = connection.execute(f"SELECT v FROM dbo.n{n} ORDER BY id")
    assert cursor.description[0][6] is False
    fixed = [row[0] for row in cursor.fetchall()]
    assert all(same(kind, r, e) for r, (_, e) in zip(fixed, kind.values, strict=True))


@EACH
def test_parameter(connection, n):
    kind = KINDS[n]
    cursor = connection.cursor()
    cursor.execute("DELETE FROM dbo.t WHERE id >= 100")
    cursor.execute(f"INSERT INTO dbo.t (id, c{n}) VALUES (?, ?)", 100, None)
    for number, (_, value) in enumerate(kind.values, 101):
        sent = str(value) if isinstance(value, datetime.time) else value  # else cut to seconds
        cursor.execute(f"INSERT INTO dbo.t (id, c{n}) VALUES (?, ?)", number, sent)
    rows = cursor.execute(f"SELECT c{n} FROM dbo.t WHERE id >= 100 ORDER BY id").fetchall()
    assert rows[0][0] is None
    for (read,), (text, expected) in zip(rows[1:], kind.values, strict=True):
        assert same(kind, read, expected), text
    if kind.declared in NOT_COMPARABLE | ROUNDED:
        return
    for number, (_, value) in enumerate(kind.values, 101):
        if isinstance(value, str | bytes) and len(value) >= LONG_BYTES:
            continue
        if isinstance(value, datetime.time) and value.microsecond:
            continue
        found = cursor.execute(f"SELECT id FROM dbo.t WHERE id >= 100 AND c{n} = ?", value)
        assert number in [row[0] for row in found.fetchall()]


@EACH
def test_arrow(database, n):
    kind = KINDS[n]
    reader = arrow_odbc.read_arrow_batches_from_odbc(
        f"SELECT c{n} FROM dbo.t WHERE id <= {len(kind.values)} ORDER BY id",
        connection_string=database.connection_string("matrix"),
        max_text_size=40_000,
        max_binary_size=40_000,
    )
    assert kind.arrow is None or reader.schema.field(0).type == kind.arrow
    read = [value for batch in reader for value in batch.column(0).to_pylist()]
    assert read[0] is None
    assert all(same_arrow(kind, r, e) for r, (_, e) in zip(read[1:], kind.values, strict=True))


def same_arrow(kind, read, expected):
    """Arrow has uniqueidentifiers as 16 bytes."""
    if kind.declared == "uniqueidentifier" and isinstance(read, bytes):
        return read in {uuid.UUID(expected).bytes, uuid.UUID(expected).bytes_le}
    if kind.declared.startswith("datetime2(7)"):
        read = read.to_pydatetime()
    if isinstance(expected, datetime.time):
        expected = expected.isoformat()
    return same(kind, read, expected)


EXACT = [
    ("datetime2(7)", "0001-01-01 00:00:00.0000001"),
    ("datetime2(7)", "9999-12-31 23:59:59.9999999"),
    ("datetime2(1)", "2020-02-29 12:00:00.9"),
    ("time(7)", "23:59:59.9999999"),
    ("time(1)", "00:00:00.1"),
    ("datetimeoffset(7)", "0001-01-01 14:00:00.0000001 +14:00"),
    ("datetimeoffset(7)", "9999-12-31 09:59:59.9999999 -14:00"),
    ("datetimeoffset(0)", "2020-02-29 23:30:00 +05:45"),
]
"""Beyond what Python's own types hold: text in, text out, with every digit."""


@pytest.mark.parametrize(("declared", "text"), EXACT)
def test_every_digit(connection, declared, text):
    cursor = connection.cursor()
    cursor.execute(f"DECLARE @v {declared} = ?; SELECT CONVERT(varchar(40), @v, 121), @v", text)
    shown, native = cursor.fetchone()
    assert shown == text
    if declared.startswith("datetimeoffset"):
        year, month, dd, hour, minute, second, ns, zone_h, zone_m = struct.unpack("<h5HI2h", native)
        fraction = f".{ns:09d}"[:8] if "." in text else ""
        read = f"{year:04d}-{month:02d}-{dd:02d} {hour:02d}:{minute:02d}:{second:02d}{fraction}"
        sign = "-" if zone_h < 0 else "+"
        assert f"{read} {sign}{abs(zone_h):02d}:{abs(zone_m):02d}" == text
