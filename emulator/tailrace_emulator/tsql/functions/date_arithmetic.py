"""DATEADD, DATEDIFF, DATETRUNC, EOMONTH."""

from __future__ import annotations

import calendar
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tailrace_emulator import messages
from tailrace_emulator.messages.errors import SqlError, not_supported
from tailrace_emulator.tsql.compile.values import Value, converted
from tailrace_emulator.tsql.conversions.families import Family, family
from tailrace_emulator.tsql.conversions.temporal import (
    DAYS_1900,
    DAYS_MAX,
    TICKS_MAX,
    TICKS_PER_HOUR,
    TICKS_PER_MINUTE,
    TICKS_PER_SECOND,
    date_of,
    days_of,
)
from tailrace_emulator.tsql.functions.date_parts import (
    LOCAL_TYPE,
    check_part,
    local_ticks,
    part_of,
    unsupported_part,
)
from tailrace_emulator.tsql.functions.registry import builtin, special
from tailrace_emulator.tsql.functions.sqlite_functions import sqlite_function
from tailrace_emulator.tsql.syntax.nodes import Call
from tailrace_emulator.values.types import (
    BIGINT,
    DATE,
    DATETIME,
    INT,
    TICKS_PER_DAY,
    SqlType,
    pack_offset,
    unpack_offset,
)

if TYPE_CHECKING:
    from tailrace_emulator.tsql.compile.compilers import Expressions
    from tailrace_emulator.tsql.compile.scope import Scope

_UNITS: Final = {
    "week": 7 * TICKS_PER_DAY,
    "day": TICKS_PER_DAY,
    "weekday": TICKS_PER_DAY,
    "dayofyear": TICKS_PER_DAY,
    "hour": TICKS_PER_HOUR,
    "minute": TICKS_PER_MINUTE,
    "second": TICKS_PER_SECOND,
    "millisecond": 10_000,
    "microsecond": 10,
}
_COARSE: Final = frozenset({"datetime", "smalldatetime"})
"""Types whose values DATEADD does not move by less than a millisecond."""
_MONTHS: Final = {"year": 12, "quarter": 3, "month": 1}


@special("DATEADD", 3)
def dateadd(compiler: Expressions, node: Call, scope: Scope) -> Value:
    """DATEADD(part, number, moment): the moment's own type; datetime for text."""
    part = part_of(node.arguments[0], "dateadd")
    number = compiler.value(node.arguments[1], scope)
    number = converted(number, INT if number.type.name != "bigint" else BIGINT, explicit=True)
    value = compiler.value(node.arguments[2], scope)
    kind = family(value.type)
    if kind not in {Family.DATE, Family.TIME, Family.MOMENT, Family.OFFSET}:
        value = converted(value, DATETIME)
        kind = Family.MOMENT
    if part in {"microsecond", "nanosecond"} and value.type.name in _COARSE:
        raise unsupported_part(part, "dateadd", value.type.name)
    nullable = number.nullable or value.nullable
    if kind is Family.TIME:
        if part in _MONTHS or _UNITS.get(part, 0) >= TICKS_PER_DAY:
            raise unsupported_part(part, "dateadd", "time")
        text = f"((t_dateadd('{part}', {number.sql}, {value.sql} + {TICKS_PER_DAY * 40000}))"
        return Value(f"({text} % {TICKS_PER_DAY}))", value.type, nullable)
    if kind is Family.DATE:
        if part not in _MONTHS and _UNITS.get(part, 0) < TICKS_PER_DAY:
            raise unsupported_part(part, "dateadd", "date")
        text = f"t_dateadd('{part}', {number.sql}, {local_ticks(value)})"
        return Value(f"({text} / {TICKS_PER_DAY})", value.type, nullable)
    if kind is Family.OFFSET:
        text = f"t_dateadd_offset('{part}', {number.sql}, {value.sql})"
        return Value(text, value.type, nullable)
    result = Value(f"t_dateadd('{part}', {number.sql}, {value.sql})", LOCAL_TYPE, nullable)
    if value.type.name == "datetime2":
        return converted(result, value.type)
    return converted(result, value.type)


@sqlite_function("t_dateadd", 3)
def add(part: str, number: int, ticks: int) -> int:
    """A moment moved by a number of parts; the day is kept within its month."""
    if part in _MONTHS:
        days, within = divmod(ticks, TICKS_PER_DAY)
        date = date_of(days)
        month_index = date.year * 12 + date.month - 1 + number * _MONTHS[part]
        year, month = divmod(month_index, 12)
        if not 1 <= year <= 9999:
            raise _overflow()
        day = min(date.day, calendar.monthrange(year, month + 1)[1])
        return days_of(year, month + 1, day) * TICKS_PER_DAY + within
    if part == "nanosecond":
        moved = ticks + (number + 50) // 100
    elif part in _UNITS:
        moved = ticks + number * _UNITS[part]
    else:
        raise not_supported(f"DATEADD({part}, ...)")
    if not 0 <= moved <= TICKS_MAX:
        raise _overflow()
    return moved


def _overflow() -> SqlError:
    """517."""
    return messages.error(517, "datetime")


@sqlite_function("t_dateadd_offset", 3)
def _add_offset(part: str, number: int, value: str) -> str:
    utc, offset = unpack_offset(value)
    local = add(part, number, utc + offset * TICKS_PER_MINUTE)
    return pack_offset(local - offset * TICKS_PER_MINUTE, offset)


def _difference(name: str, result: SqlType) -> None:
    """Registers DATEDIFF and DATEDIFF_BIG."""

    @special(name, 3)
    def build(compiler: Expressions, node: Call, scope: Scope) -> Value:
        part = part_of(node.arguments[0], name)
        values = [compiler.value(a, scope) for a in node.arguments[1:]]
        start, end = (_utc_ticks(v) for v in values)
        text = f"t_datediff('{part}', {start}, {end})"
        if result is INT:
            text = f"t_datediff_int({text})"
        return Value(text, result, any(v.nullable for v in values))


def _utc_ticks(value: Value) -> str:
    """Ticks of an argument of DATEDIFF: a datetimeoffset counts in UTC."""
    if value.type.name == "datetimeoffset":
        return f"t_utc_ticks({value.sql})"
    return local_ticks(value)


_difference("DATEDIFF", INT)
_difference("DATEDIFF_BIG", BIGINT)


@sqlite_function("t_utc_ticks", 1)
def _utc(value: str) -> int:
    return unpack_offset(value)[0]


@sqlite_function("t_datediff", 3)
def _datediff(part: str, start: int, end: int) -> int:
    """Boundaries of a part that lie between two moments."""
    if part in _MONTHS:
        a, b = date_of(start // TICKS_PER_DAY), date_of(end // TICKS_PER_DAY)
        size = _MONTHS[part]
        return (b.year * 12 + b.month - 1) // size - (a.year * 12 + a.month - 1) // size
    if part == "week":
        # Weeks begin on Sunday for DATEDIFF whatever DATEFIRST says.
        return (end // TICKS_PER_DAY + 1) // 7 - (start // TICKS_PER_DAY + 1) // 7
    if part == "nanosecond":
        return (end - start) * 100
    if part not in _UNITS:
        raise not_supported(f"DATEDIFF({part}, ...)")
    unit = _UNITS[part]
    return end // unit - start // unit


@sqlite_function("t_datediff_int", 1)
def _datediff_int(value: int) -> int:
    if not -(2**31) <= value < 2**31:
        raise messages.error(535, "datediff", "datediff")
    return value


@special("DATETRUNC", 2)
def datetrunc(compiler: Expressions, node: Call, scope: Scope) -> Value:
    """DATETRUNC(part, moment)."""
    part = part_of(node.arguments[0], "datetrunc")
    value = compiler.value(node.arguments[1], scope)
    if family(value.type) not in {Family.DATE, Family.MOMENT}:
        raise not_supported(f"DATETRUNC of {value.type.name}")
    check_part(part, value.type.name, "datetrunc")
    first = compiler.compilation.semantics.datefirst
    text = f"t_datetrunc('{part}', {local_ticks(value)}, {first})"
    if family(value.type) is Family.DATE:
        text = f"({text} / {TICKS_PER_DAY})"
    return Value(text, value.type, value.nullable)


@sqlite_function("t_datetrunc", 3)
def _datetrunc(part: str, ticks: int, first: int) -> int:
    if part in _MONTHS:
        date = date_of(ticks // TICKS_PER_DAY)
        size = _MONTHS[part]
        return days_of(date.year, (date.month - 1) // size * size + 1, 1) * TICKS_PER_DAY
    if part in {"week", "iso_week"}:
        days = ticks // TICKS_PER_DAY
        monday = 1 if part == "iso_week" else first
        return (days - (days + 1 - monday) % 7) * TICKS_PER_DAY
    if part == "dayofyear":
        return ticks // TICKS_PER_DAY * TICKS_PER_DAY
    if part not in _UNITS:
        raise not_supported(f"DATETRUNC({part}, ...)")
    return ticks // _UNITS[part] * _UNITS[part]


@special("DATE_BUCKET", 3, 4)
def date_bucket(compiler: Expressions, node: Call, scope: Scope) -> Value:
    """DATE_BUCKET(part, number, moment [, origin]): the start of the bucket that holds a moment."""
    part = part_of(node.arguments[0], "date_bucket")
    if part not in _MONTHS and part not in {
        "week", "day", "hour", "minute", "second", "millisecond",
    }:  # fmt: skip
        raise messages.error(155, part, "date_bucket")
    number = compiler.as_int(compiler.value(node.arguments[1], scope))
    value = compiler.value(node.arguments[2], scope)
    if family(value.type) not in {Family.DATE, Family.MOMENT}:
        raise not_supported(f"DATE_BUCKET of {value.type.name}")
    origin = str(DAYS_1900 * TICKS_PER_DAY)
    if len(node.arguments) > 3:
        given = converted(compiler.value(node.arguments[3], scope), value.type, explicit=True)
        origin = local_ticks(given)
    text = f"t_date_bucket('{part}', {number.sql}, {local_ticks(value)}, {origin})"
    if family(value.type) is Family.DATE:
        text = f"({text} / {TICKS_PER_DAY})"
    return Value(text, value.type)


@sqlite_function("t_date_bucket", 4)
def _date_bucket(part: str, number: int, ticks: int, origin: int) -> int:
    if number <= 0:
        raise messages.error(9834)
    if part in _UNITS:
        width = _UNITS[part] * number
        begun: int = origin + (ticks - origin) // width * width
        return begun
    a, b = date_of(origin // TICKS_PER_DAY), date_of(ticks // TICKS_PER_DAY)
    width = _MONTHS[part] * number
    months = (b.year - a.year) * 12 + b.month - a.month
    start: int = add("month", months // width * width, origin)
    if start > ticks:
        start = add("month", (months // width - 1) * width, origin)
    return start


@builtin("EOMONTH", 1, 2)
def eomonth(compiler: Expressions, arguments: list[Value]) -> Value:
    """Last day of a month."""
    value = converted(arguments[0], DATE, explicit=True)
    months = compiler.as_int(arguments[1]).sql if len(arguments) > 1 else "0"
    return Value(f"t_eomonth({value.sql}, coalesce({months}, 0))", DATE, value.nullable)


@sqlite_function("t_eomonth", 2)
def _eomonth(days: int, months: int) -> int:
    moved = date_of(add("month", months, days * TICKS_PER_DAY) // TICKS_PER_DAY)
    last = calendar.monthrange(moved.year, moved.month)[1]
    return min(days_of(moved.year, moved.month, last), DAYS_MAX)


__all__ = ["add", "replace"]
