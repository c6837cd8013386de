"""Values of every type, with the canonical text that both sides must write of them."""

from __future__ import annotations

import datetime as dt
import hashlib
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from tailrace.verify.canonical_text import CanonicalColumn

# ruff: noqa: DTZ001 - SQL Server's datetime types have no zone


@dataclass(frozen=True, slots=True)
class Value:
    """A value of one type.

    Attributes:
        literal: T-SQL of it.
        lake: as the lake holds it.
        text: the canonical text of it; None for NULL.
    """

    literal: str
    lake: Any
    text: str | None


def _bits(layout: str, number: float) -> str:
    size = {"d": "q", "f": "i"}[layout]
    return str(struct.unpack(f">{size}", struct.pack(f">{layout}", number))[0])


def _doubles(*numbers: str) -> list[Value]:
    return [Value(f"CAST({n} AS float)", float(n), _bits("d", float(n))) for n in numbers]


def _reals(*numbers: str) -> list[Value]:
    return [Value(f"CAST({n} AS real)", float(n), _bits("f", float(n))) for n in numbers]


def _numbers(*numbers: int) -> list[Value]:
    return [Value(str(n), n, str(n)) for n in numbers]


def _decimals(*numbers: str) -> list[Value]:
    return [Value(f"CAST('{n}' AS decimal(38,10))", Decimal(n), n) for n in numbers]


def _moment(literal: str, *parts: int) -> Value:
    moment = dt.datetime(*parts)  # type: ignore[arg-type]
    text = f"{moment.isoformat(' ', 'microseconds')}"
    return Value(f"'{literal}'", moment, text)


def _texts(*texts: str) -> list[Value]:
    return [Value("N'" + text.replace("'", "''") + "'", text, text) for text in texts]


def _bytes(*values: bytes) -> list[Value]:
    return [Value(f"0x{value.hex()}", value, value.hex().upper()) for value in values]


_GUID = "6f9619ff-8b86-d011-b42d-00c04fc964ff"
_PLACE = "00000000010c000000000000f03f0000000000000040"
_CITY = "e6100000010c00000000008047400000000000805ec0"
_LONG = "€" * 9000

VALUES: dict[str, list[Value]] = {
    "bit": [Value("1", True, "1"), Value("0", False, "0")],
    "tinyint": _numbers(0, 255),
    "smallint": _numbers(-(2**15), 2**15 - 1),
    "int": _numbers(-(2**31), 2**31 - 1),
    "bigint": _numbers(-(2**63) + 1, 2**63 - 1, 0),
    "decimal(38,10)": _decimals(
        "-1234567890123456789012345678.0123456789", "0.0000000001", "0.0000000000", "-0.5000000000"
    ),
    "numeric(5,0)": [Value("99999", Decimal(99999), "99999"), Value("-1", Decimal(-1), "-1")],
    "money": [
        Value(n, Decimal(n), n) for n in ("-922337203685477.5808", "0.0100", "922337203685477.5807")
    ],
    "smallmoney": [Value(n, Decimal(n), n) for n in ("-214748.3648", "0.5000")],
    "float": _doubles("1.7976931348623157E+308", "0.1", "-2.5E-300", "123456789.123456789", "0E0"),
    "float(24)": _reals("0.1", "3.4E+38"),
    "real": _reals("0.1", "-1.18E-38", "16777217"),
    "date": [
        Value("'0001-01-01'", dt.date(1, 1, 1), "0001-01-01"),
        Value("'9999-12-31'", dt.date(9999, 12, 31), "9999-12-31"),
        Value("'1582-10-10'", dt.date(1582, 10, 10), "1582-10-10"),
    ],
    "time(7)": [
        Value("'23:59:59.9999999'", 86399999999, "86399999999"),
        Value("'00:00:00'", 0, "0"),
    ],
    "time(0)": [Value("'12:34:56'", 45296000000, "45296000000")],
    "datetime": [
        _moment("1753-01-01T00:00:00.003", 1753, 1, 1, 0, 0, 0, 3000),
        _moment("2024-02-29T23:59:59.997", 2024, 2, 29, 23, 59, 59, 997000),
        _moment("2024-02-29T12:00:00.007", 2024, 2, 29, 12, 0, 0, 7000),
    ],
    "smalldatetime": [_moment("2079-06-06T23:59:00", 2079, 6, 6, 23, 59)],
    "datetime2(7)": [
        Value(
            "'0001-01-01T00:00:00.1234567'",
            dt.datetime(1, 1, 1, 0, 0, 0, 123456),
            "0001-01-01 00:00:00.123456",
        ),
        Value(
            "'9999-12-31T23:59:59.9999999'",
            dt.datetime(9999, 12, 31, 23, 59, 59, 999999),
            "9999-12-31 23:59:59.999999",
        ),
    ],
    "datetime2(3)": [_moment("2026-03-29T02:30:00.500", 2026, 3, 29, 2, 30, 0, 500000)],
    "datetimeoffset(7)": [
        Value(f"'{t}'", t, t)
        for t in ("2024-01-01T00:00:00.1234567-05:30", "9999-12-31T23:59:59.9999999+00:00")
    ],
    "datetimeoffset(0)": [
        Value(
            "'2024-01-01T00:00:00+14:00'",
            "2024-01-01T00:00:00.0000000+14:00",
            "2024-01-01T00:00:00.0000000+14:00",
        )
    ],
    "uniqueidentifier": [Value(f"'{_GUID.upper()}'", _GUID, _GUID)],
    "char(5)": [Value("'ab'", "ab   ", "ab   ")],
    "varchar(20)": _texts("", " ", "a ", "Grüße", "-", ";", "1:;"),
    "nchar(3)": [Value(f"N'{text}'", f"{text}  ", f"{text}  ") for text in "Ωω"],
    "nvarchar(40)": _texts("\U0001f600", "a\r\nb\t", "it's", "\u2028", " x "),
    "varchar(max)": _texts("x" * 9000),
    "nvarchar(max)": _texts(_LONG, ""),
    "text": _texts("plain"),
    "ntext": _texts("Ωmega"),
    "xml": _texts("<a>1</a>"),
    "binary(4)": _bytes(b"\0\0\0\xff"),
    "varbinary(10)": _bytes(b"", b"\0", b"\xff\0"),
    "varbinary(max)": _bytes(b"\xfe" * 9000),
    "image": _bytes(b"\1\2"),
    "hierarchyid": [Value("'/1/1/'", b"\x5a\xc0", "5AC0")],
    "geometry": [Value("'POINT (1 2)'", bytes.fromhex(_PLACE), _PLACE.upper())],
    "geography": [Value("'POINT (-122 47)'", bytes.fromhex(_CITY), _CITY.upper())],
}
COLUMNS = [f"[{name}] {name}" for name in VALUES] + ["lossless datetime2(7)"]
"""Declarations of a column of each type."""
WITHHELD: dict[str, Any] = {
    "columns": {
        "exclude": ["dbo.people.born"],
        "mask": {"dbo.people.salary": "***"},
        "hash": ["dbo.people.mail"],
        "truncate": {"dbo.people.remarks": 5},
        "salt": "salt and pepper",
    }
}
"""Options by which the lake has other values of ``dbo.people`` than the source."""


def rows_of_values() -> list[list[str]]:
    """Rows whose columns have literals of all values, then NULL; the first row is NULL."""
    width = max(map(len, VALUES.values()))
    rows = [["NULL"] * len(COLUMNS)]
    for n in range(width):
        row = [values[n].literal if n < len(values) else "NULL" for values in VALUES.values()]
        rows.append([*row, f"'2024-01-01T00:00:00.000000{n}'"])
    return rows


def row_hash(columns: Iterable[CanonicalColumn], texts: Iterable[str | None]) -> bytes:
    """The hash of a row's texts, as documented."""
    written = ""
    for column, text in zip(columns, texts, strict=True):
        length = f"{len(text.encode('utf-16-le'))}:" if column.is_free and text is not None else ""
        written += f"{length}{'-' if text is None else text};"
    return hashlib.sha256(written.encode("utf-16-le")).digest()[:16]
