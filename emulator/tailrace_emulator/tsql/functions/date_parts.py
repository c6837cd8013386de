"""Names of date parts, and what DATEPART, DATENAME and their short forms read off a moment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tailrace_emulator import messages
from tailrace_emulator.messages.errors import SqlError
from tailrace_emulator.tsql.compile.values import Value, converted
from tailrace_emulator.tsql.conversions.families import Family, family
from tailrace_emulator.tsql.conversions.temporal import (
    DAY_NAMES,
    MONTH_NAMES,
    TICKS_PER_HOUR,
    TICKS_PER_MINUTE,
    TICKS_PER_SECOND,
    date_of,
)
from tailrace_emulator.tsql.functions.registry import builtin, special
from tailrace_emulator.tsql.functions.sqlite_functions import sqlite_function
from tailrace_emulator.tsql.syntax.nodes import Call, ColumnName, Expression, Literal
from tailrace_emulator.values.types import (
    DATETIME,
    INT,
    TICKS_PER_DAY,
    SqlType,
    nvarchar,
    unpack_offset,
)

if TYPE_CHECKING:
    from tailrace_emulator.tsql.compile.compilers import Expressions
    from tailrace_emulator.tsql.compile.scope import Scope

PARTS: Final = {
    "year": "year", "yy": "year", "yyyy": "year",
    "quarter": "quarter", "qq": "quarter", "q": "quarter",
    "month": "month", "mm": "month", "m": "month",
    "dayofyear": "dayofyear", "dy": "dayofyear", "y": "dayofyear",
    "day": "day", "dd": "day", "d": "day",
    "week": "week", "wk": "week", "ww": "week",
    "weekday": "weekday", "dw": "weekday", "w": "weekday",
    "hour": "hour", "hh": "hour",
    "minute": "minute", "mi": "minute", "n": "minute",
    "second": "second", "ss": "second", "s": "second",
    "millisecond": "millisecond", "ms": "millisecond",
    "microsecond": "microsecond", "mcs": "microsecond",
    "nanosecond": "nanosecond", "ns": "nanosecond",
    "tzoffset": "tzoffset", "tz": "tzoffset",
    "iso_week": "iso_week", "isowk": "iso_week", "isoww": "iso_week",
}  # fmt: skip

LOCAL_TYPE: Final = SqlType("datetime2", scale=7)


def part_of(node: Expression, function: str) -> str:
    """The date part that an argument names.

    Raises:
        SqlError: 155 when it names none.
    """
    word = ""
    if isinstance(node, ColumnName) and len(node.parts) == 1:
        word = node.parts[0]
    elif isinstance(node, Literal) and isinstance(node.value, str):
        word = node.value
    part = PARTS.get(word.lower())
    if part is None:
        raise messages.error(155, word, function.lower())
    return part


_WITHIN_A_DAY: Final = frozenset(
    {"hour", "minute", "second", "millisecond", "microsecond", "nanosecond"}
)
_WITHOUT_OFFSET: Final = frozenset({"date", "time", "datetime", "smalldatetime"})


def check_part(part: str, type_name: str, function: str) -> None:
    """Checks that values of a type have a part.

    Raises:
        SqlError: 9810 for values without it.
    """
    missing = (
        (type_name == "date" and part in _WITHIN_A_DAY)
        or (type_name == "time" and part not in _WITHIN_A_DAY)
        or (type_name in _WITHOUT_OFFSET and part == "tzoffset")
    )
    if missing:
        raise unsupported_part(part, function, type_name)


def unsupported_part(part: str, function: str, type_name: str) -> SqlError:
    """9810."""
    return messages.error(9810, part, function, type_name)


def local_ticks(value: Value) -> str:
    """SQLite text of a date or time argument as local ticks of datetime2(7)."""
    kind = family(value.type)
    if kind is Family.DATE:
        return f"({value.sql} * {TICKS_PER_DAY})"
    if kind is Family.MOMENT:
        return value.sql
    if kind in {Family.INTEGER, Family.DECIMAL, Family.FLOAT}:
        return converted(value, DATETIME).sql
    return converted(value, LOCAL_TYPE, explicit=True).sql


@special("DATEPART", 2)
def datepart(compiler: Expressions, node: Call, scope: Scope) -> Value:
    """DATEPART(part, moment)."""
    part = part_of(node.arguments[0], "datepart")
    value = compiler.value(node.arguments[1], scope)
    check_part(part, value.type.name, "datepart")
    if part == "tzoffset":
        target = SqlType("datetimeoffset", scale=7)
        return Value(f"t_tzoffset({converted(value, target).sql})", INT, value.nullable)
    first = compiler.compilation.semantics.datefirst
    return Value(f"t_datepart('{part}', {local_ticks(value)}, {first})", INT, value.nullable)


@special("DATENAME", 2)
def datename(compiler: Expressions, node: Call, scope: Scope) -> Value:
    """DATENAME(part, moment)."""
    part = part_of(node.arguments[0], "datename")
    value = compiler.value(node.arguments[1], scope)
    check_part(part, value.type.name, "datename")
    first = compiler.compilation.semantics.datefirst
    text = f"t_datename('{part}', {local_ticks(value)}, {first})"
    return Value(text, nvarchar(30), value.nullable)


def _short(name: str, part: str) -> None:
    """Registers YEAR, MONTH and DAY."""

    @builtin(name, 1)
    def build(_: Expressions, arguments: list[Value]) -> Value:
        value = arguments[0]
        return Value(f"t_datepart('{part}', {local_ticks(value)}, 7)", INT, value.nullable)


_short("YEAR", "year")
_short("MONTH", "month")
_short("DAY", "day")


@sqlite_function("t_tzoffset", 1)
def _tzoffset(value: str) -> int:
    return unpack_offset(value)[1]


@sqlite_function("t_datepart", 3)
def read_part(part: str, ticks: int, first: int) -> int:
    """One part of a moment; ``first`` is SET DATEFIRST."""
    days, within = divmod(ticks, TICKS_PER_DAY)
    if part in _OF_DAY:
        unit, modulus, factor = _OF_DAY[part]
        return within // unit % modulus * factor
    date = date_of(days)
    if part == "year":
        return date.year
    if part == "month":
        return date.month
    if part == "day":
        return date.day
    if part == "quarter":
        return (date.month + 2) // 3
    if part == "dayofyear":
        return date.timetuple().tm_yday
    if part == "weekday":
        return (date.isoweekday() - first) % 7 + 1
    if part == "iso_week":
        return date.isocalendar().week
    if part == "week":
        january = date.replace(month=1, day=1)
        return (date.timetuple().tm_yday - 1 + (january.isoweekday() - first) % 7) // 7 + 1
    raise messages.error(9806, part)


_OF_DAY: Final = {
    "hour": (TICKS_PER_HOUR, 24, 1),
    "minute": (TICKS_PER_MINUTE, 60, 1),
    "second": (TICKS_PER_SECOND, 60, 1),
    "millisecond": (10_000, 1000, 1),
    "microsecond": (10, 1_000_000, 1),
    "nanosecond": (1, TICKS_PER_SECOND, 100),
}


@sqlite_function("t_datename", 3)
def _datename(part: str, ticks: int, first: int) -> str:
    if part == "month":
        return MONTH_NAMES[date_of(ticks // TICKS_PER_DAY).month - 1]
    if part == "weekday":
        return DAY_NAMES[date_of(ticks // TICKS_PER_DAY).weekday()]
    return str(read_part(part, ticks, first))
