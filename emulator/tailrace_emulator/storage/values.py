"""Storage values: what may stand for them, and their text as SQL Server's messages show it."""

from __future__ import annotations

import datetime
from types import EllipsisType
from typing import Final

from tailrace_emulator.values.types import (
    TICKS_PER_DAY,
    SqlType,
    StorageValue,
    unpack_decimal,
    unpack_guid,
    unpack_offset,
)
from tailrace_emulator.values.variants import unpacked

GENERATED: Final = ...
"""Given for a column, makes storage fill it: IDENTITY and rowversion columns only."""

GivenValue = StorageValue | EllipsisType
"""A storage value, or GENERATED."""

TICKS_PER_SECOND: Final = 10_000_000
DAYS_TO_1900: Final = 693_595
"""Days from 0001-01-01 to 1900-01-01, datetime's day zero."""


def days_of(date: datetime.date) -> int:
    """The storage value of a date."""
    return date.toordinal() - 1


def date_of(days: int) -> datetime.date:
    """The date of a storage value."""
    return datetime.date.fromordinal(days + 1)


def ticks_of(moment: datetime.datetime) -> int:
    """Ticks of 100 ns of a naive datetime."""
    seconds = moment.hour * 3600 + moment.minute * 60 + moment.second
    return (
        days_of(moment.date()) * TICKS_PER_DAY
        + seconds * TICKS_PER_SECOND
        + moment.microsecond * 10
    )


def datetime_of(ticks: int) -> datetime.datetime:
    """The naive datetime of ticks, cut to microseconds."""
    days, rest = divmod(ticks, TICKS_PER_DAY)
    return datetime.datetime.combine(date_of(days), datetime.time()) + datetime.timedelta(
        microseconds=rest // 10
    )


def round_datetime(ticks: int) -> int:
    """Ticks rounded to what a datetime can hold: 1/300 s, shown as .000, .003 or .007."""
    days, rest = divmod(ticks, TICKS_PER_DAY)
    units = (rest * 300 + TICKS_PER_SECOND // 2) // TICKS_PER_SECOND
    extra_days, units = divmod(units, 24 * 3600 * 300)
    seconds, third = divmod(units, 300)
    milliseconds = (third * 10 + 1) // 3
    return (days + extra_days) * TICKS_PER_DAY + seconds * TICKS_PER_SECOND + milliseconds * 10_000


def clock_text(ticks: int, scale: int) -> str:
    """hh:mm:ss[.fraction] of ticks since midnight."""
    seconds, fraction = divmod(ticks, TICKS_PER_SECOND)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{text}.{fraction:07d}"[: len(text) + 1 + scale] if scale else text


def decimal_text(scaled: int, scale: int) -> str:
    """A decimal's text, with all of its digits after the point."""
    sign = "-" if scaled < 0 else ""
    digits = str(abs(scaled)).rjust(scale + 1, "0")
    return f"{sign}{digits[:-scale]}.{digits[-scale:]}" if scale else sign + digits


def value_text(value: StorageValue, sql_type: SqlType) -> str:
    """A value as SQL Server's messages show it, e.g. in 'The duplicate key value is (...)'."""
    if value is None:
        return "<NULL>"
    if isinstance(value, bytes):
        return _bytes_text(value, sql_type)
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, str):
        if sql_type.name == "sql_variant":
            base_type, base = unpacked(value)
            return value_text(base, base_type)
        return _offset_text(value, sql_type) if sql_type.name == "datetimeoffset" else value
    name = sql_type.name
    if sql_type.is_decimal:
        return decimal_text(value, sql_type.scale)
    if name == "date":
        return date_of(value).isoformat()
    if name == "time":
        return clock_text(value, sql_type.scale)
    if name == "datetime2":
        days, ticks = divmod(value, TICKS_PER_DAY)
        return f"{date_of(days).isoformat()} {clock_text(ticks, sql_type.scale)}"
    if name in {"datetime", "smalldatetime"}:
        return _month_text(value)
    return str(value)


def _bytes_text(value: bytes, sql_type: SqlType) -> str:
    if sql_type.is_decimal:
        return decimal_text(unpack_decimal(value), sql_type.scale)
    if sql_type.name == "uniqueidentifier":
        return str(unpack_guid(value))
    return f"0x{value.hex()}"


def _offset_text(value: str, sql_type: SqlType) -> str:
    utc, minutes = unpack_offset(value)
    days, ticks = divmod(utc + minutes * 60 * TICKS_PER_SECOND, TICKS_PER_DAY)
    sign = "-" if minutes < 0 else "+"
    hours, minutes = divmod(abs(minutes), 60)
    text = f"{date_of(days).isoformat()} {clock_text(ticks, sql_type.scale)}"
    return f"{text} {sign}{hours:02d}:{minutes:02d}"


def _month_text(ticks: int) -> str:
    """Style 0: 'Jan  2 2020  3:04PM'."""
    moment = datetime_of(ticks)
    hour = moment.hour % 12 or 12
    half = "AM" if moment.hour < 12 else "PM"
    return f"{moment:%b} {moment.day:2d} {moment.year} {hour:2d}:{moment.minute:02d}{half}"
