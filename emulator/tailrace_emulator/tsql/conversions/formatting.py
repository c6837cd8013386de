"""Text of values: the styles of CONVERT, and how numbers print."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from tailrace_emulator import messages
from tailrace_emulator.messages.errors import SqlError
from tailrace_emulator.tsql.conversions.temporal import (
    MONTHS,
    TICKS_PER_HOUR,
    TICKS_PER_MINUTE,
    TICKS_PER_SECOND,
    date_of,
    datetime_milliseconds,
)
from tailrace_emulator.values.types import TICKS_PER_DAY, SqlType

_Template = str
_STYLES: Final[dict[int, _Template]] = {
    0: "{mon} {d:>2} {yyyy} {h12:>2}:{mi}{half}",
    1: "{mm}/{dd}/{yy}",
    2: "{yy}.{mm}.{dd}",
    3: "{dd}/{mm}/{yy}",
    4: "{dd}.{mm}.{yy}",
    5: "{dd}-{mm}-{yy}",
    6: "{dd} {mon} {yy}",
    7: "{mon} {dd}, {yy}",
    8: "{hh}:{mi}:{ss}",
    9: "{mon} {d:>2} {yyyy} {h12:>2}:{mi}:{ss}{colon_fraction}{half}",
    10: "{mm}-{dd}-{yy}",
    11: "{yy}/{mm}/{dd}",
    12: "{yy}{mm}{dd}",
    13: "{dd} {mon} {yyyy} {hh}:{mi}:{ss}{colon_fraction}",
    14: "{hh}:{mi}:{ss}{colon_fraction}",
    20: "{yyyy}-{mm}-{dd} {hh}:{mi}:{ss}",
    21: "{yyyy}-{mm}-{dd} {hh}:{mi}:{ss}{fraction}",
    22: "{mm}/{dd}/{yy} {h12:>2}:{mi}:{ss} {half}",
    23: "{yyyy}-{mm}-{dd}",
    24: "{hh}:{mi}:{ss}",
    101: "{mm}/{dd}/{yyyy}",
    102: "{yyyy}.{mm}.{dd}",
    103: "{dd}/{mm}/{yyyy}",
    104: "{dd}.{mm}.{yyyy}",
    105: "{dd}-{mm}-{yyyy}",
    106: "{dd} {mon} {yyyy}",
    107: "{mon} {dd}, {yyyy}",
    110: "{mm}-{dd}-{yyyy}",
    111: "{yyyy}/{mm}/{dd}",
    112: "{yyyy}{mm}{dd}",
    126: "{yyyy}-{mm}-{dd}T{hh}:{mi}:{ss}{short_fraction}",
    127: "{yyyy}-{mm}-{dd}T{hh}:{mi}:{ss}{short_fraction}",
}
_SAME: Final = {100: 0, 108: 8, 109: 9, 113: 13, 114: 14, 120: 20, 121: 21, 25: 21}
_TIME_ONLY: Final = {
    0: "{h12:>2}:{mi}{half}",
    9: "{h12:>2}:{mi}:{ss}{colon_fraction}{half}",
    13: "{hh}:{mi}:{ss}{colon_fraction}",
    20: "{hh}:{mi}:{ss}",
    21: "{hh}:{mi}:{ss}{fraction}",
    126: "{hh}:{mi}:{ss}{short_fraction}",
    127: "{hh}:{mi}:{ss}{short_fraction}",
}
_DATE_ONLY: Final = {
    0: "{mon} {d:>2} {yyyy}",
    9: "{mon} {d:>2} {yyyy}",
    13: "{dd} {mon} {yyyy}",
    20: "{yyyy}-{mm}-{dd}",
    21: "{yyyy}-{mm}-{dd}",
    126: "{yyyy}-{mm}-{dd}",
    127: "{yyyy}-{mm}-{dd}",
}


def invalid_style(style: int, source: str) -> SqlError:
    """281."""
    return messages.error(281, style, source)


def moment_formatter(source: SqlType, style: int | None) -> Callable[[int, int], str]:
    """How a date or time of type ``source`` becomes text.

    Args:
        source: date, time, datetime, smalldatetime, datetime2 or datetimeoffset.
        style: of CONVERT; None is the type's own default (0 for datetime, 121 for the others).

    Returns:
        A function of (local ticks, offset in minutes).

    Raises:
        SqlError: 281 for a style that does not exist.
    """
    legacy = source.name in {"datetime", "smalldatetime"}
    number = (0 if legacy else 21) if style is None else style
    number = _SAME.get(number, number)
    templates = {"time": _TIME_ONLY, "date": _DATE_ONLY}.get(source.name, _STYLES)
    template = templates.get(number) or _STYLES.get(number)
    if template is None:
        raise invalid_style(number, source.name)
    fraction_of = _milliseconds if legacy else _digits(source.scale)
    with_offset = source.name == "datetimeoffset" and number in {0, 9, 13, 20, 21, 126}
    utc = source.name == "datetimeoffset" and number == 127

    def text(ticks: int, offset: int) -> str:
        if utc:
            ticks -= offset * TICKS_PER_MINUTE
        days, within = divmod(ticks, TICKS_PER_DAY)
        date = date_of(days)
        hour, rest = divmod(within, TICKS_PER_HOUR)
        minute, rest = divmod(rest, TICKS_PER_MINUTE)
        second = rest // TICKS_PER_SECOND
        fraction = fraction_of(within)
        formatted = template.format(
            yyyy=f"{date.year:04d}", yy=f"{date.year % 100:02d}", mm=f"{date.month:02d}",
            dd=f"{date.day:02d}", d=date.day, mon=MONTHS[date.month - 1], hh=f"{hour:02d}",
            h12=(hour + 11) % 12 + 1, mi=f"{minute:02d}", ss=f"{second:02d}",
            half="AM" if hour < 12 else "PM",
            fraction=f".{fraction}" if fraction else "",
            colon_fraction=(":" if legacy else ".") + fraction if fraction else "",
            short_fraction=f".{fraction}" if fraction.strip("0") else "",
        )  # fmt: skip
        if with_offset:
            separator = "" if number == 126 else " "
            return formatted + separator + offset_text(offset)
        return formatted + ("Z" if utc else "")

    return text


def _milliseconds(within: int) -> str:
    """Three digits of a datetime's fraction."""
    return f"{datetime_milliseconds(within):03d}"


def _digits(scale: int) -> Callable[[int], str]:
    """``scale`` digits of a fraction."""

    def digits(within: int) -> str:
        return f"{within % TICKS_PER_SECOND:07d}"[:scale]

    return digits


def offset_text(offset: int) -> str:
    """``+hh:mm``."""
    hours, minutes = divmod(abs(offset), 60)
    return f"{'-' if offset < 0 else '+'}{hours:02d}:{minutes:02d}"


def decimal_text(scaled: int, scale: int) -> str:
    """A scaled integer with its point."""
    if scale == 0:
        return str(scaled)
    digits = f"{abs(scaled):0{scale + 1}d}"
    return f"{'-' if scaled < 0 else ''}{digits[:-scale]}.{digits[-scale:]}"


def money_text(scaled: int, style: int) -> str:
    """money: style 0 two digits, 1 with commas, 2 four digits (all rounded)."""
    if style == 2:
        return decimal_text(scaled, 4)
    hundredths = (abs(scaled) + 50) // 100
    whole, cents = divmod(hundredths, 100)
    sign = "-" if scaled < 0 and hundredths else ""
    return f"{sign}{whole:,}.{cents:02d}" if style == 1 else f"{sign}{whole}.{cents:02d}"


def float_text(value: float, style: int) -> str:
    """float: style 0 six digits, 1 eight in scientific form, 2 sixteen, 3 seventeen."""
    if style in {1, 2}:
        return _scientific(value, {1: 7, 2: 15}[style])
    if style == 3:
        mantissa, separator, power = f"{value:.17g}".partition("e")
        return f"{mantissa}e{power[0]}{int(power[1:]):03d}" if separator else mantissa
    if value == 0:
        return "0"
    exponent = math.floor(math.log10(abs(value)))
    text = f"{value:.6g}"
    if "e" not in text and -5 < exponent < 6:
        return text
    if -5 < exponent < 15 and float(value).is_integer() and abs(value) < 1_000_000:
        return str(int(value))
    mantissa, _, power = f"{value:.5e}".partition("e")
    if "." in mantissa:
        mantissa = mantissa.rstrip("0").rstrip(".")
    return f"{mantissa}e{power[0]}{int(power[1:]):03d}"


def _scientific(value: float, digits: int) -> str:
    """``1.2345678e+005``."""
    mantissa, _, power = f"{value:.{digits}e}".partition("e")
    return f"{mantissa}e{power[0]}{int(power[1:]):03d}"
