"""The clock functions, and moments composed of parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tailrace_emulator import messages
from tailrace_emulator.messages.errors import SqlError
from tailrace_emulator.storage.values import round_datetime
from tailrace_emulator.tsql.compile.plan import Execution
from tailrace_emulator.tsql.compile.values import Value, constant, converted
from tailrace_emulator.tsql.conversions import try_convert
from tailrace_emulator.tsql.conversions.temporal import (
    DAYS_1753,
    TICKS_PER_HOUR,
    TICKS_PER_MINUTE,
    TICKS_PER_SECOND,
    days_of,
    round_fraction,
)
from tailrace_emulator.tsql.functions.registry import builtin
from tailrace_emulator.tsql.functions.sqlite_functions import sqlite_function
from tailrace_emulator.tsql.functions.strings import constant_int
from tailrace_emulator.values import time_zones
from tailrace_emulator.values.types import (
    DATE,
    DATETIME,
    INT,
    SMALLDATETIME,
    TICKS_PER_DAY,
    SqlType,
    pack_offset,
    unpack_offset,
    varchar,
)

if TYPE_CHECKING:
    from tailrace_emulator.tsql.compile.compilers import Expressions

# The server's time zone is UTC, so local time and UTC are one.
_DATETIME2: Final = SqlType("datetime2", scale=7)
_OFFSET: Final = SqlType("datetimeoffset", scale=7)


def _now_datetime(execution: Execution) -> int:
    return round_datetime(execution.now_ticks())


def _now_offset(execution: Execution) -> str:
    return pack_offset(execution.now_ticks(), 0)


def _clock(name: str, key: str, function: Any, sql_type: SqlType) -> None:
    """Registers a function that returns the time, the same within a statement."""

    @builtin(name, 0)
    def build(compiler: Expressions, _: list[Value]) -> Value:
        return Value(compiler.compilation.slot(("clock", key), function), sql_type, nullable=False)


for _name in ("GETDATE", "GETUTCDATE", "CURRENT_TIMESTAMP"):
    _clock(_name, "datetime", _now_datetime, DATETIME)
for _name in ("SYSDATETIME", "SYSUTCDATETIME"):
    _clock(_name, "datetime2", Execution.now_ticks, _DATETIME2)
_clock("SYSDATETIMEOFFSET", "offset", _now_offset, _OFFSET)
_clock("CURRENT_DATE", "date", lambda execution: execution.now_ticks() // TICKS_PER_DAY, DATE)


@builtin("SWITCHOFFSET", 2)
def switchoffset(compiler: Expressions, arguments: list[Value]) -> Value:
    """The same instant at another offset."""
    value = converted(arguments[0], _offset_type(arguments[0].type))
    return Value(f"t_switchoffset({value.sql}, {_offset(compiler, arguments[1])})", value.type)


@builtin("TODATETIMEOFFSET", 2)
def todatetimeoffset(compiler: Expressions, arguments: list[Value]) -> Value:
    """A local time with an offset."""
    source = arguments[0]
    value = converted(source, _offset_type(source.type), explicit=True)
    return Value(f"t_todatetimeoffset({value.sql}, {_offset(compiler, arguments[1])})", value.type)


def _offset_type(source: SqlType) -> SqlType:
    """Datetimeoffset with the scale of the argument."""
    if source.name in {"datetime2", "datetimeoffset", "time"}:
        return SqlType("datetimeoffset", scale=source.scale)
    if source.name == "datetime":
        return SqlType("datetimeoffset", scale=3)
    return _OFFSET


def _offset(compiler: Expressions, value: Value) -> str:
    """An offset argument in minutes: a number, or text such as '+02:00'."""
    if value.type.is_character:
        return f"t_offset({value.sql})"
    return compiler.as_int(value).sql


@sqlite_function("t_offset", 1)
def _parse_offset(text: str) -> int:
    try:
        hours, minutes = text[1:].split(":")
        offset = int(hours) * 60 + int(minutes)
    except ValueError as error:
        raise _bad_offset() from error
    if text[0] not in "+-" or offset > 840:
        raise _bad_offset()
    return -offset if text[0] == "-" else offset


def _bad_offset() -> SqlError:
    """9812."""
    return messages.error(9812)


@sqlite_function("t_switchoffset", 2)
def _switch(value: str, offset: int) -> str:
    if not -840 <= offset <= 840:
        raise _bad_offset()
    return pack_offset(unpack_offset(value)[0], offset)


@sqlite_function("t_todatetimeoffset", 2)
def _to_offset(value: str, offset: int) -> str:
    if not -840 <= offset <= 840:
        raise _bad_offset()
    utc, before = unpack_offset(value)
    local = utc + before * TICKS_PER_MINUTE
    return pack_offset(local - offset * TICKS_PER_MINUTE, offset)


# From parts -------------------------------------------------------------------------------------


def _bad_parts(sql_type: str) -> SqlError:
    """289."""
    return messages.error(289, sql_type)


@builtin("DATEFROMPARTS", 3)
def datefromparts(compiler: Expressions, arguments: list[Value]) -> Value:
    """A date of year, month, day."""
    parts = ", ".join(compiler.as_int(a).sql for a in arguments)
    return Value(f"t_datefromparts({parts})", DATE)


@sqlite_function("t_datefromparts", 3)
def _datefromparts(year: int, month: int, day: int) -> int:
    try:
        return days_of(year, month, day)
    except ValueError as error:
        raise _bad_parts("date") from error


@builtin("DATETIMEFROMPARTS", 7)
def datetimefromparts(compiler: Expressions, arguments: list[Value]) -> Value:
    """A datetime of seven parts."""
    parts = ", ".join(compiler.as_int(a).sql for a in arguments)
    return Value(f"t_momentfromparts('datetime', 3, {parts})", DATETIME)


@builtin("SMALLDATETIMEFROMPARTS", 5)
def smalldatetimefromparts(compiler: Expressions, arguments: list[Value]) -> Value:
    """A smalldatetime of five parts."""
    parts = ", ".join(compiler.as_int(a).sql for a in arguments)
    return Value(f"t_momentfromparts('smalldatetime', 0, {parts}, 0, 0)", SMALLDATETIME)


@builtin("DATETIME2FROMPARTS", 8)
def datetime2fromparts(compiler: Expressions, arguments: list[Value]) -> Value:
    """A datetime2 of eight parts, the last its scale."""
    scale = constant_int(arguments[7])
    if scale is None or not 0 <= scale <= 7:
        raise messages.error(10760, "datetime2")
    parts = ", ".join(compiler.as_int(a).sql for a in arguments[:7])
    target = SqlType("datetime2", scale=scale)
    return Value(f"t_momentfromparts('datetime2', {scale}, {parts})", target)


@builtin("DATETIMEOFFSETFROMPARTS", 10)
def datetimeoffsetfromparts(compiler: Expressions, arguments: list[Value]) -> Value:
    """A datetimeoffset of ten parts: seven, hours and minutes of the offset, the scale."""
    scale = constant_int(arguments[9])
    if scale is None or not 0 <= scale <= 7:
        raise messages.error(10760, "datetimeoffset")
    parts = ", ".join(compiler.as_int(a).sql for a in arguments[:7])
    hours, minutes = (compiler.as_int(a).sql for a in arguments[7:9])
    local = f"t_momentfromparts('datetimeoffset', {scale}, {parts})"
    target = SqlType("datetimeoffset", scale=scale)
    return Value(f"t_offsetfromparts({local}, {hours}, {minutes})", target)


@sqlite_function("t_offsetfromparts", 3)
def _offsetfromparts(local: int, hours: int, minutes: int) -> str:
    offset = hours * 60 + minutes
    if hours * minutes < 0 or abs(minutes) > 59 or not -840 <= offset <= 840:
        raise _bad_parts("datetimeoffset")
    return pack_offset(local - offset * TICKS_PER_MINUTE, offset)


@builtin("CURRENT_TIMEZONE", 0)
def current_timezone(_: Expressions, __: list[Value]) -> Value:
    """The server's zone."""
    return constant("(UTC) Coordinated Universal Time", varchar(8000))


@builtin("CURRENT_TIMEZONE_ID", 0)
def current_timezone_id(_: Expressions, __: list[Value]) -> Value:
    """The server's zone by name."""
    return constant("UTC", varchar(8000))


@sqlite_function("t_at_time_zone", 2)
def _at_time_zone(value: str, name: str) -> str:
    utc = unpack_offset(value)[0]
    return pack_offset(utc, time_zones.offset_at(utc, name))


@sqlite_function("t_in_time_zone", 2)
def _in_time_zone(value: str, name: str) -> str:
    """A local time (as UTC) understood in a zone."""
    utc = time_zones.to_utc(unpack_offset(value)[0], name)
    return pack_offset(utc, time_zones.offset_at(utc, name))


@builtin("TIMEFROMPARTS", 5)
def timefromparts(compiler: Expressions, arguments: list[Value]) -> Value:
    """A time of four parts and its scale."""
    scale = constant_int(arguments[4])
    if scale is None or not 0 <= scale <= 7:
        raise messages.error(10760, "time")
    parts = ", ".join(compiler.as_int(a).sql for a in arguments[:4])
    text = f"t_momentfromparts('time', {scale}, 1, 1, 1, {parts})"
    return Value(text, SqlType("time", scale=scale))


@sqlite_function("t_momentfromparts", 9)
def _momentfromparts(
    name: str,
    scale: int,
    year: int,
    month: int,
    day: int,
    hour: int,
    minute: int,
    second: int,
    fraction: int,
) -> int:
    """A moment of parts; ``fraction`` counts in units of the scale."""
    try:
        days = days_of(year, month, day)
    except ValueError as error:
        raise _bad_parts(name) from error
    within = 0 <= hour < 24 and 0 <= minute < 60 and 0 <= second < 60
    if not within or not 0 <= fraction < 10**scale:
        raise _bad_parts(name)
    if name == "datetime" and days < DAYS_1753:
        raise _bad_parts(name)
    ticks = (
        days * TICKS_PER_DAY
        + hour * TICKS_PER_HOUR
        + minute * TICKS_PER_MINUTE
        + second * TICKS_PER_SECOND
        + fraction * 10 ** (7 - scale)
    )
    return round_datetime(ticks) if name == "datetime" else round_fraction(ticks, 7)


@builtin("ISDATE", 1)
def isdate(compiler: Expressions, arguments: list[Value]) -> Value:
    """1 when the text converts to datetime."""
    return Value(f"t_isdate({compiler.as_text(arguments[0]).sql})", INT)


@sqlite_function("t_isdate", 1, takes_null=True)
def _isdate(text: str | None) -> int:
    if text is None or not text.strip():
        return 0
    return int(try_convert(text, varchar(8000), DATETIME, None) is not None)
