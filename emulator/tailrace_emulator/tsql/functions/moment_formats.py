"""The format strings of .NET for dates and times, in English (US) and invariant.

https://learn.microsoft.com/dotnet/standard/base-types/custom-date-and-time-format-strings
"""

from __future__ import annotations

import re
from typing import Final

from tailrace_emulator.tsql.conversions.temporal import (
    DAY_NAMES,
    MONTH_NAMES,
    TICKS_PER_HOUR,
    TICKS_PER_MINUTE,
    TICKS_PER_SECOND,
    date_of,
)
from tailrace_emulator.values.types import TICKS_PER_DAY

_ENGLISH: Final = {
    "d": "M/d/yyyy",
    "D": "dddd, MMMM d, yyyy",
    "t": "h:mm tt",
    "T": "h:mm:ss tt",
    "f": "dddd, MMMM d, yyyy h:mm tt",
    "F": "dddd, MMMM d, yyyy h:mm:ss tt",
    "g": "M/d/yyyy h:mm tt",
    "G": "M/d/yyyy h:mm:ss tt",
    "m": "MMMM d",
    "M": "MMMM d",
    "y": "MMMM yyyy",
    "Y": "MMMM yyyy",
}
_INVARIANT: Final = {
    "d": "MM/dd/yyyy",
    "D": "dddd, dd MMMM yyyy",
    "t": "HH:mm",
    "T": "HH:mm:ss",
    "f": "dddd, dd MMMM yyyy HH:mm",
    "F": "dddd, dd MMMM yyyy HH:mm:ss",
    "g": "MM/dd/yyyy HH:mm",
    "G": "MM/dd/yyyy HH:mm:ss",
    "m": "MMMM dd",
    "M": "MMMM dd",
    "y": "yyyy MMMM",
    "Y": "yyyy MMMM",
}
_SHARED: Final = {
    "s": "yyyy'-'MM'-'dd'T'HH':'mm':'ss",
    "u": "yyyy'-'MM'-'dd HH':'mm':'ss'Z'",
    "R": "ddd, dd MMM yyyy HH':'mm':'ss 'GMT'",
    "r": "ddd, dd MMM yyyy HH':'mm':'ss 'GMT'",
    "o": "yyyy'-'MM'-'dd'T'HH':'mm':'ss'.'fffffffK",
    "O": "yyyy'-'MM'-'dd'T'HH':'mm':'ss'.'fffffffK",
}
_TOKENS: Final = re.compile(
    r"""\\.|'[^']*'|"[^"]*"|%|y+|M+|d+|H+|h+|m+|s+|f+|F+|t+|z+|K|g+|.""", re.DOTALL
)


def format_moment(
    ticks: int, layout: str, *, invariant: bool, offset: int | None = None
) -> str | None:
    """A moment in a format; NULL for a format that is none.

    Args:
        ticks: the moment in local time.
        layout: one letter, or a custom format.
        invariant: the invariant culture rather than English (US).
        offset: minutes from UTC of a datetimeoffset.
    """
    if len(layout) == 1:
        found = _SHARED.get(layout) or (_INVARIANT if invariant else _ENGLISH).get(layout)
        if found is None:
            return None
        layout = found
    out: list[str] = []
    for piece in _TOKENS.findall(layout):
        text = _token(piece, ticks, offset)
        if text is None:
            return None
        if piece[0] == "F" and not text and out and out[-1].endswith("."):
            out[-1] = out[-1][:-1]
        out.append(text)
    return "".join(out)


def _token(piece: str, ticks: int, offset: int | None) -> str | None:
    """One element of a custom format."""
    first = piece[0]
    if first == "\\":
        return piece[1:]
    if first in "'\"":
        return piece[1:-1] if len(piece) > 1 else None
    if first in "yMdg":
        return _date_token(piece, ticks // TICKS_PER_DAY)
    if first in "Hhmsft" or first == "F":
        return _time_token(piece, ticks % TICKS_PER_DAY)
    if first == "z" or first == "K":
        return _offset_token(piece, offset)
    return "" if first == "%" else piece


def _date_token(piece: str, days: int) -> str:
    date = date_of(days)
    first, count = piece[0], len(piece)
    if first == "g":
        return "A.D."
    if first == "y":
        return str(date.year % 100).zfill(count) if count < 3 else str(date.year).zfill(count)
    if first == "M":
        if count < 3:
            return str(date.month).zfill(count)
        name = MONTH_NAMES[date.month - 1]
        return name[:3] if count == 3 else name
    if count < 3:
        return str(date.day).zfill(count)
    name = DAY_NAMES[date.weekday()]
    return name[:3] if count == 3 else name


def _time_token(piece: str, within: int) -> str | None:
    first, count = piece[0], len(piece)
    hour = within // TICKS_PER_HOUR
    if first == "H":
        return str(hour).zfill(min(count, 2))
    if first == "h":
        return str(hour % 12 or 12).zfill(min(count, 2))
    if first == "m":
        return str(within // TICKS_PER_MINUTE % 60).zfill(min(count, 2))
    if first == "s":
        return str(within // TICKS_PER_SECOND % 60).zfill(min(count, 2))
    if first == "t":
        half = "AM" if hour < 12 else "PM"
        return half[0] if count == 1 else half
    if count > 7:
        return None
    digits = f"{within % TICKS_PER_SECOND:07d}"[:count]
    return digits if first == "f" else digits.rstrip("0")


def _offset_token(piece: str, offset: int | None) -> str:
    """``z``, ``zz``, ``zzz`` and ``K``; the server's own zone is UTC."""
    if piece == "K" and offset is None:
        return ""
    minutes = offset or 0
    sign, minutes = "-" if minutes < 0 else "+", abs(minutes)
    if piece == "z":
        return f"{sign}{minutes // 60}"
    if piece == "zz":
        return f"{sign}{minutes // 60:02d}"
    return f"{sign}{minutes // 60:02d}:{minutes % 60:02d}"


_SPAN_TOKENS: Final = re.compile(r"""\\.|'[^']*'|"[^"]*"|%|d+|h+|m+|s+|f+|F+|.""", re.DOTALL)


def format_time(ticks: int, layout: str) -> str | None:
    """A time of day in a format for time spans: other characters must be escaped, or it is NULL."""
    fraction = f"{ticks % TICKS_PER_SECOND:07d}"
    hours, minutes, seconds = (
        ticks // TICKS_PER_HOUR,
        ticks // TICKS_PER_MINUTE % 60,
        ticks // TICKS_PER_SECOND % 60,
    )
    clock = f"{minutes:02d}:{seconds:02d}"
    if layout in {"c", "t", "T"}:
        return f"{hours:02d}:{clock}" + (f".{fraction}" if int(fraction) else "")
    if layout == "g":
        rest = fraction.rstrip("0")
        return f"{hours}:{clock}" + (f".{rest}" if rest else "")
    if layout == "G":
        return f"0:{hours:02d}:{clock}.{fraction}"
    out = []
    numbers = {"d": 0, "h": hours, "m": minutes, "s": seconds}
    for piece in _SPAN_TOKENS.findall(layout):
        first = piece[0]
        if first == "\\":
            out.append(piece[1:])
        elif first in "'\"" and len(piece) > 1:
            out.append(piece[1:-1])
        elif first in numbers and len(piece) <= (8 if first == "d" else 2):
            out.append(str(numbers[first]).zfill(len(piece)))
        elif first in "fF" and len(piece) <= 7:
            digits = fraction[: len(piece)]
            out.append(digits if first == "f" else digits.rstrip("0"))
        elif first != "%":
            return None
    return "".join(out)
