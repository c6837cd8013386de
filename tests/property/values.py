"""Hypothesis strategies: a value of every SQL Server type as pyodbc gives it, extremes included."""

from __future__ import annotations

import datetime as dt
from decimal import Context, Decimal
from typing import Any

from hypothesis import strategies as st

from tailrace_schemas.events.column_types import MAX, ColumnType

# ruff: noqa: DTZ001, DTZ901 - SQL Server's datetime types have no zone

_WIDE = Context(prec=60)


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    """Every decimal(precision, scale), with the trailing zeros that the driver gives or without."""
    limit = 10**precision - 1
    edges = [0, 1, -1, limit, -limit, 127, 128, -128, -129, 2**63, -(2**63)]
    unscaled = st.integers(-limit, limit) | st.sampled_from([n for n in edges if abs(n) <= limit])
    exact = unscaled.map(lambda number: Decimal(number).scaleb(-scale, _WIDE))
    return exact | exact.map(lambda number: number.normalize(_WIDE))


def _repeated(*choices: tuple[Any, int]) -> st.SearchStrategy[Any]:
    """One of some long values, each told by what it repeats and how often.

    Hypothesis prints a strategy whose value it rejects (a real that is rounded out of its range),
    and warns where that takes more than 30 kB.
    """
    return st.sampled_from(choices).map(lambda choice: choice[0] * choice[1])


_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
_LONG_TEXT = _repeated(
    ("x", 63), ("x", 64), ("é", 4096), ("€", 8191), ("\U0001f600", 3000), ("", 0)
)
_BYTES = st.binary(max_size=40) | _repeated(
    (b"\0", 63), (b"\xff", 64), (b"x", 8192), (b"x", 20_000)
)


def _integers(low: int, high: int) -> st.SearchStrategy[int]:
    edges = [0, 1, -1, 63, 64, -64, -65, 8191, 8192, -8192, -8193, low, high]
    edges += [
        sign * (1 << bit) - back for bit in range(6, 63, 7) for sign in (1, -1) for back in (0, 1)
    ]
    return st.integers(low, high) | st.sampled_from([n for n in edges if low <= n <= high])


_FRACTION = st.integers(0, 9_999_999)
_ZONE = st.integers(-14 * 60, 14 * 60).map(
    lambda minutes: f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"
)
_DATETIMES = st.datetimes(dt.datetime.min, dt.datetime.max) | st.sampled_from(
    [
        dt.datetime.min,
        dt.datetime.max,
        dt.datetime(1753, 1, 1),
        dt.datetime(1969, 12, 31, 23, 59, 59, 999_999),
        dt.datetime(1970, 1, 1),
        dt.datetime(2026, 3, 29, 2, 30),  # does not exist in many time zones
    ]
)
_DATETIMEOFFSETS = st.builds(
    lambda moment, fraction, zone: f"{moment.isoformat()}.{fraction:07}{zone}",
    st.datetimes().map(lambda moment: moment.replace(microsecond=0)),
    _FRACTION,
    _ZONE,
)

_BY_NAME: dict[str, st.SearchStrategy[Any]] = {
    "bit": st.booleans(),
    "tinyint": _integers(0, 255),
    "smallint": _integers(-(2**15), 2**15 - 1),
    "int": _integers(-(2**31), 2**31 - 1),
    "bigint": _integers(-(2**63), 2**63 - 1),
    "real": st.floats(allow_nan=False, allow_infinity=False, width=32),
    "money": decimals(19, 4),
    "smallmoney": decimals(10, 4),
    "timestamp": st.binary(min_size=8, max_size=8),
    "date": st.dates(dt.date.min, dt.date.max) | st.sampled_from([dt.date.min, dt.date.max]),
    "smalldatetime": _DATETIMES,
    "datetime": _DATETIMES,
    "datetime2": _DATETIMES,
    "time": st.times() | st.sampled_from([dt.time.min, dt.time.max]),
    "datetimeoffset": _DATETIMEOFFSETS,
    "uniqueidentifier": st.uuids(),
}
_TEXT_TYPES = ("char", "varchar", "text", "nchar", "nvarchar", "ntext", "sysname", "xml", "json")
_BYTE_TYPES = ("binary", "varbinary", "image", "hierarchyid", "geometry", "geography")

ALL_TYPES: list[ColumnType] = [
    *(ColumnType(name) for name in _BY_NAME if name not in {"datetime2", "time", "datetimeoffset"}),
    *(ColumnType(name, scale=scale) for name in ("datetime2", "time") for scale in (0, 3, 7)),
    ColumnType("datetimeoffset", scale=7),
    ColumnType("float", precision=53),
    ColumnType("float", precision=24),
    *(
        ColumnType("decimal", precision=p, scale=s)
        for p, s in ((1, 0), (9, 2), (18, 4), (38, 0), (38, 38))
    ),
    ColumnType("numeric", precision=28, scale=10),
    *(ColumnType(name, length=20) for name in ("char", "varchar", "nchar", "nvarchar")),
    *(ColumnType(name, length=20) for name in ("binary", "varbinary")),
    *(ColumnType(name, length=MAX) for name in ("varchar", "nvarchar", "varbinary")),
    *(ColumnType(name) for name in ("text", "ntext", "sysname", "xml", "json")),
    *(ColumnType(name) for name in ("image", "hierarchyid", "geometry", "geography")),
]


def values(column_type: ColumnType, *, lossless: bool = False) -> st.SearchStrategy[Any]:
    """Values of that type that are not NULL."""
    name = column_type.name
    if lossless and name in {"time", "datetime2"} and column_type.scale == 7:
        clock = st.builds(lambda t, f: f"{t:%H:%M:%S}.{f:07}", st.times(), _FRACTION)
        if name == "time":
            return clock
        return st.builds(lambda day, time: f"{day.isoformat()}T{time}", st.dates(), clock)
    if name in {"decimal", "numeric"}:
        return decimals(column_type.precision, column_type.scale)
    if name == "float":
        single = 0 < column_type.precision <= 24
        return st.floats(allow_nan=False, allow_infinity=False, width=32 if single else 64)
    if name in _TEXT_TYPES:
        return _TEXT | _LONG_TEXT
    if name in _BYTE_TYPES:
        return _BYTES
    return _BY_NAME[name]
