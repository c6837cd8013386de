"""Dates and times as numbers: reading them from text, rounding them to a type, taking them apart.

A moment is ticks of 100 ns since 0001-01-01, a date is days since then, a time of day is ticks
since midnight (values/types.py).
"""

from __future__ import annotations

import datetime
import re
from typing import Final, NamedTuple

from tailrace_emulator import messages
from tailrace_emulator.storage.values import round_datetime
from tailrace_emulator.values.date_order import CURRENT, arranged
from tailrace_emulator.values.types import TICKS_PER_DAY, SqlType

TICKS_PER_SECOND: Final = 10_000_000
TICKS_PER_MINUTE: Final = 60 * TICKS_PER_SECOND
TICKS_PER_HOUR: Final = 60 * TICKS_PER_MINUTE
DAYS_1900: Final = datetime.date(1900, 1, 1).toordinal() - 1
DAYS_1753: Final = datetime.date(1753, 1, 1).toordinal() - 1
DAYS_MAX: Final = datetime.date(9999, 12, 31).toordinal() - 1
TICKS_MAX: Final = (DAYS_MAX + 1) * TICKS_PER_DAY - 1
DAYS_2079: Final = datetime.date(2079, 6, 6).toordinal() - 1

MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
MONTH_NAMES: Final = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip
DAY_NAMES: Final = (
    "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday",
)  # fmt: skip


def days_of(year: int, month: int, day: int) -> int:
    """Days since 0001-01-01 of a date.

    Raises:
        ValueError: there is no such date.
    """
    return datetime.date(year, month, day).toordinal() - 1


def date_of(days: int) -> datetime.date:
    """The date of a day number."""
    return datetime.date.fromordinal(days + 1)


def round_fraction(ticks: int, scale: int) -> int:
    """Ticks rounded half up to ``scale`` digits of a second."""
    if scale >= 7:
        return ticks
    unit = int(10 ** (7 - scale))
    return (ticks + unit // 2) // unit * unit


def datetime_milliseconds(ticks_of_day: int) -> int:
    """The milliseconds that a datetime shows: .000, .003, .007 and so on."""
    units = (ticks_of_day * 300 + TICKS_PER_SECOND // 2) // TICKS_PER_SECOND
    return (units % 300 * 10 + 1) // 3


def expand_datetime(ticks: int) -> int:
    """A datetime's ticks (whole milliseconds) with the thirds that a datetime2(7) gets of it."""
    days, within = divmod(ticks, TICKS_PER_DAY)
    units = (within * 300 + TICKS_PER_SECOND // 2) // TICKS_PER_SECOND
    return days * TICKS_PER_DAY + (units * TICKS_PER_SECOND + 150) // 300


def round_moment(ticks: int, target: SqlType, source: str) -> int:
    """Ticks rounded to and checked against datetime2, datetime or smalldatetime.

    Args:
        target: one of those types.
        source: type name of where it comes from, for the error.

    Raises:
        SqlError: 242 or 517 out of range.
    """
    if target.name == "datetime2":
        rounded = round_fraction(ticks, target.scale)
        if not 0 <= rounded <= TICKS_MAX:
            if 0 <= ticks <= TICKS_MAX:
                unit = int(10 ** (7 - target.scale))
                return ticks // unit * unit
            raise messages.date_out_of_range(source, "datetime2")
        return rounded
    if target.name == "datetime":
        rounded = round_datetime(ticks)
        if not DAYS_1753 * TICKS_PER_DAY <= rounded <= TICKS_MAX:
            raise messages.date_out_of_range(source, "datetime")
        return rounded
    # By way of a datetime: 29.998 s is 29.997 there and rounds down, 29.999 s is 30 and rounds up.
    ticks = round_datetime(ticks)
    rounded = (ticks + TICKS_PER_MINUTE // 2) // TICKS_PER_MINUTE * TICKS_PER_MINUTE
    if not DAYS_1900 * TICKS_PER_DAY <= rounded < (DAYS_2079 + 1) * TICKS_PER_DAY:
        raise messages.date_out_of_range(source, "smalldatetime")
    return rounded


class Moment(NamedTuple):
    """What a text said: local ticks, and an offset in minutes where it named one."""

    ticks: int
    offset: int | None
    fraction_digits: int


_TIME: Final = r"""
    (?P<hour>\d{1,2})
    (?: :(?P<minute>\d{1,2}) (?: :(?P<second>\d{1,2}) (?:[.:](?P<fraction>\d{1,9}))? )? )?
    \s* (?P<half>[AaPp][Mm])?
"""
_ZONE: Final = r"\s*(?P<zone>[Zz]|[+-]\d{1,2}:\d{2})?"
_DATES: Final = (
    r"(?P<year>\d{4})(?P<mark>[-/.])(?P<month>\d{1,2})(?P=mark)(?P<day>\d{1,2})",
    r"(?P<one>\d{1,4})(?P<mark>[-/.])(?P<two>\d{1,4})(?P<other>[-/.])(?P<three>\d{1,4})",
    r"(?P<year>\d{4})(?P<month>\d{2})(?P<day>\d{2})",
    r"(?P<year>\d{2})(?P<month>\d{2})(?P<day>\d{2})",
    r"(?P<name>[A-Za-z]{3,9})\.?\s+(?P<day>\d{1,2})(?:\s*,\s*|\s+)(?P<year>\d{4})",
    r"(?P<day>\d{1,2})[\s-]+(?P<name>[A-Za-z]{3,9})[\s,-]+(?P<year>\d{4}|\d{2})",
    r"(?P<year>\d{4})[\s-]+(?P<name>[A-Za-z]{3,9})[\s-]+(?P<day>\d{1,2})",
)
_MOMENT_PATTERNS: Final = tuple(
    re.compile(rf"\s*{date}(?:(?:[Tt]|\s+){_TIME}{_ZONE})?\s*\Z", re.VERBOSE) for date in _DATES
)
_MONTH_FIRST: Final = frozenset({"mdy", "ymd", "myd"})
"""Orders under which every type reads a year in front as year, month, day: the first pattern."""
_TIME_PATTERN: Final = re.compile(rf"\s*{_TIME}{_ZONE}\s*\Z", re.VERBOSE)
_YEAR_PATTERN: Final = re.compile(r"\s*(\d{4})\s*\Z")


_ISO_OF_UTC: Final = re.compile(
    r"\s*\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d{1,3})?Z\s*\Z", re.IGNORECASE
)


def is_iso_of_utc(text: str) -> bool:
    """Whether text is ``yyyy-mm-ddThh:mi:ss[.mmm]Z``, the only zone that datetime reads."""
    return _ISO_OF_UTC.match(text) is not None


def parse_moment(text: str, *, order: str = "", legacy: bool = False) -> Moment:
    """A date, a time or both, in the forms that English languages accept.

    A time without a date is on 1900-01-01, a date without a time at midnight.

    Args:
        order: of day, month and year, where a style of CONVERT gives it; else the session's.
        legacy: whether it is read as datetime or smalldatetime.

    Raises:
        ValueError: the text is none of them, or no such moment exists.
    """
    if not text.strip():
        return Moment(DAYS_1900 * TICKS_PER_DAY, None, 0)
    plain = not legacy or order or CURRENT.order in _MONTH_FIRST
    for pattern in _MOMENT_PATTERNS if plain else _MOMENT_PATTERNS[1:]:
        match = pattern.match(text)
        if match:
            parts = match.groupdict()
            if parts.get("one"):
                parts = _arranged(parts, order, text, legacy=legacy)
            return _with_time(_days(parts), parts)
    year = _YEAR_PATTERN.match(text)
    if year:
        return Moment(days_of(int(year[1]), 1, 1) * TICKS_PER_DAY, None, 0)
    match = _TIME_PATTERN.match(text)
    if match and (match["minute"] or match["half"]):
        return _with_time(DAYS_1900, match.groupdict())
    raise ValueError(text)


def _arranged(
    parts: dict[str, str | None], order: str, text: str, *, legacy: bool
) -> dict[str, str | None]:
    """A numeric date with its parts under their names."""
    if not legacy and parts["mark"] != parts["other"]:
        raise ValueError(text)
    digits = (parts["one"] or "", parts["two"] or "", parts["three"] or "")
    has_dashes = parts["mark"] == parts["other"] == "-"
    is_iso = bool(order) or (has_dashes and bool(parts.get("zone") or "T" in text.upper()))
    year, month, day = arranged(digits, order or CURRENT.order, legacy=legacy, is_iso=is_iso)
    return {**parts, "year": year, "month": month, "day": day}


def _days(parts: dict[str, str | None]) -> int:
    """The date of a match."""
    year_text = parts["year"] or ""
    year = int(year_text)
    if len(year_text) <= 2:
        year += 2000 if year < 50 else 1900
    if parts.get("name"):
        word = str(parts["name"]).lower()
        month = next(
            (
                index
                for index, full in enumerate(MONTH_NAMES, 1)
                if full.lower() == word or full[:3].lower() == word
            ),
            0,
        )
    else:
        month = int(parts["month"] or 0)
    return days_of(year, month, int(parts["day"] or 0))


def _with_time(days: int, parts: dict[str, str | None]) -> Moment:
    """A date joined with the time of a match."""
    hour = int(parts.get("hour") or 0)
    minute = int(parts.get("minute") or 0)
    second = int(parts.get("second") or 0)
    fraction = parts.get("fraction") or ""
    half = (parts.get("half") or "").lower()
    if half:
        if not 0 <= hour <= 12:
            raise ValueError(half)
        hour = hour % 12 + (12 if half == "pm" else 0)
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError(hour)
    ticks = hour * TICKS_PER_HOUR + minute * TICKS_PER_MINUTE + second * TICKS_PER_SECOND
    ticks += int((fraction + "0000000")[:7])
    if len(fraction) > 7 and fraction[7] >= "5":
        ticks += 1
    zone = parts.get("zone")
    offset = None
    if zone:
        offset = 0
        if zone not in {"Z", "z"}:
            hours, minutes = zone[1:].split(":")
            offset = int(hours) * 60 + int(minutes)
            if offset > 14 * 60 or int(minutes) > 59:
                raise ValueError(zone)
            offset = -offset if zone[0] == "-" else offset
    return Moment(days * TICKS_PER_DAY + ticks, offset, len(fraction))
