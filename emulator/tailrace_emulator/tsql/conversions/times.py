"""Conversions to date, time, datetime, smalldatetime, datetime2 and datetimeoffset."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tailrace_emulator import messages
from tailrace_emulator.messages.errors import not_supported
from tailrace_emulator.tsql.conversions.binary import moment_of
from tailrace_emulator.tsql.conversions.families import Family, family
from tailrace_emulator.tsql.conversions.temporal import (
    DAYS_1900,
    DAYS_MAX,
    TICKS_MAX,
    TICKS_PER_MINUTE,
    expand_datetime,
    is_iso_of_utc,
    parse_moment,
    round_fraction,
    round_moment,
)
from tailrace_emulator.values.types import (
    TICKS_PER_DAY,
    SqlType,
    pack_offset,
    unpack_decimal,
    unpack_offset,
)

_Local = Callable[[Any], tuple[int, int | None]]
_DAY_FIRST_STYLES = frozenset({3, 4, 5, 103, 104, 105})
_YEAR_FIRST_STYLES = frozenset({2, 11})


def to_temporal(source: SqlType, target: SqlType, style: int | None) -> Callable[[Any], Any] | None:
    """To any date or time type."""
    if source == target:
        return None
    if family(source) is Family.BINARY:
        return moment_of(target)
    local = _local_ticks(source, target, style)
    name = target.name
    if name == "date":
        if source.name == "date":
            return None
        return lambda value: min(local(value)[0] // TICKS_PER_DAY, DAYS_MAX)
    if name == "time":
        scale = target.scale
        return lambda value: _round_time(local(value)[0] % TICKS_PER_DAY, scale)
    if name == "datetimeoffset":
        return _to_offset(local, target)
    if source.name == "datetime2" and name == "datetime2" and source.scale <= target.scale:
        return None
    shown = source.name
    return lambda value: round_moment(local(value)[0], target, shown)


def _round_time(ticks: int, scale: int) -> int:
    """A time of day rounded to its scale; midnight is not crossed."""
    rounded = round_fraction(ticks, scale)
    if rounded < TICKS_PER_DAY:
        return rounded
    unit = int(10 ** (7 - scale))
    return ticks // unit * unit


def _to_offset(local: _Local, target: SqlType) -> Callable[[Any], str]:
    """Local ticks and an offset, kept as UTC."""

    def to_offset(value: Any) -> str:
        ticks, offset = local(value)
        utc = round_fraction(ticks, target.scale) - (offset or 0) * TICKS_PER_MINUTE
        if not 0 <= utc <= TICKS_MAX:
            raise messages.date_out_of_range("datetimeoffset", "datetimeoffset")
        return pack_offset(utc, offset or 0)

    return to_offset


def _local_ticks(source: SqlType, target: SqlType, style: int | None) -> _Local:
    """Local ticks and offset of a value of another type."""
    kind = family(source)
    if kind is Family.DATE:
        return lambda value: (value * TICKS_PER_DAY, None)
    if kind is Family.TIME:
        return lambda value: (DAYS_1900 * TICKS_PER_DAY + value, None)
    if source.name == "datetime":
        return lambda value: (expand_datetime(value), None)
    if kind is Family.MOMENT:
        return lambda value: (value, None)
    if kind is Family.OFFSET:

        def from_offset(value: str) -> tuple[int, int | None]:
            ticks, offset = unpack_offset(value)
            return ticks + offset * TICKS_PER_MINUTE, offset

        return from_offset
    if kind is Family.TEXT:
        return _from_text(source, target, style)
    if kind is Family.INTEGER:
        return _from_days
    if kind is Family.DECIMAL:
        divisor = 10**source.scale
        return lambda value: _from_days(unpack_decimal(value) / divisor)
    if kind is Family.FLOAT:
        return _from_days
    raise not_supported(f"the conversion of {source.name} to {target.name}")


def _from_days(days: float) -> tuple[int, int | None]:
    """Days since 1900, as datetime reads a number."""
    ticks = DAYS_1900 * TICKS_PER_DAY + round(days * TICKS_PER_DAY)
    if not 0 <= ticks <= TICKS_MAX:
        raise messages.arithmetic_overflow("datetime")
    return ticks, None


def _from_text(source: SqlType, target: SqlType, style: int | None) -> _Local:
    """Text in a style; datetime reads at most three digits of a fraction."""
    legacy = target.name in {"datetime", "smalldatetime"}
    order = _order_of(style)

    def parse(value: str) -> tuple[int, int | None]:
        try:
            moment = parse_moment(value, order=order, legacy=legacy)
        except ValueError as error:
            if legacy and _looks_out_of_range(value):
                raise messages.date_out_of_range(source.name, target.name) from error
            raise messages.date_conversion_failed(target.name) from error
        if legacy and (
            moment.fraction_digits > 3 or (moment.offset is not None and not is_iso_of_utc(value))
        ):
            raise messages.date_conversion_failed(target.name)
        if moment.offset is not None and target.name in {"datetime2", "date", "time"}:
            return moment.ticks, None
        return moment.ticks, moment.offset

    return parse


def _order_of(style: int | None) -> str:
    """The order of day, month and year in a style of CONVERT; the session's without one."""
    if style in _DAY_FIRST_STYLES:
        return "dmy"
    if style in _YEAR_FIRST_STYLES:
        return "ymd"
    return "" if style in {None, 0, 100} else "mdy"


def _looks_out_of_range(value: str) -> bool:
    """Whether text has a date's form, so that error 242 rather than 241 fits."""
    digits = "".join(character for character in value if character.isdigit())
    return len(digits) >= 6 and not any(character.isalpha() for character in value.replace("T", ""))
