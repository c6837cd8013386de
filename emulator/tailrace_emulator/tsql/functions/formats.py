"""FORMAT: the format strings of .NET for numbers and moments, in English (US) and invariant.

https://learn.microsoft.com/sql/t-sql/functions/format-transact-sql
"""

from __future__ import annotations

import re
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import TYPE_CHECKING, Any, Final

from tailrace_emulator import messages
from tailrace_emulator.messages.errors import SqlError, not_supported
from tailrace_emulator.tsql.compile.values import Value
from tailrace_emulator.tsql.conversions.families import Family, family
from tailrace_emulator.tsql.functions.date_parts import local_ticks
from tailrace_emulator.tsql.functions.moment_formats import format_moment, format_time
from tailrace_emulator.tsql.functions.operators import scaled_of
from tailrace_emulator.tsql.functions.registry import builtin
from tailrace_emulator.tsql.functions.sqlite_functions import sqlite_function
from tailrace_emulator.values.types import nvarchar, unpack_offset

if TYPE_CHECKING:
    from tailrace_emulator.tsql.compile.compilers import Expressions

_CONTEXT: Final = Context(prec=60, rounding=ROUND_HALF_UP)
_CULTURES: Final = {"en-us": "en-US", "": ""}
_STANDARD: Final = re.compile(r"([A-Za-z])(\d{0,2})")
_FLOAT_DIGITS: Final = 15


@builtin("FORMAT", 2, 3)
def format_value(compiler: Expressions, arguments: list[Value]) -> Value:
    """FORMAT(value, format [, culture])."""
    value = arguments[0]
    layout = compiler.as_text(arguments[1]).sql
    if len(arguments) <= 2 and compiler.compilation.semantics.language != "us_english":
        raise not_supported("FORMAT without a culture in a language other than us_english")
    culture = compiler.as_text(arguments[2]).sql if len(arguments) > 2 else "'en-US'"
    kind = family(value.type)
    result = nvarchar(4000)
    if kind in {Family.INTEGER, Family.FLOAT} and value.type.name != "bit":
        whole = int(kind is Family.INTEGER)
        return Value(f"t_format_number({value.sql}, {layout}, {culture}, 0, {whole})", result)
    if kind is Family.DECIMAL:
        scale = value.type.scale
        return Value(f"t_format_number({value.sql}, {layout}, {culture}, {scale}, 0)", result)
    if kind in {Family.DATE, Family.MOMENT}:
        ticks = local_ticks(value)
        return Value(f"t_format_moment({ticks}, {layout}, {culture}, NULL)", result)
    if kind is Family.OFFSET:
        return Value(f"t_format_offset({value.sql}, {layout}, {culture})", result)
    if kind is Family.TIME:
        return Value(f"t_format_time({value.sql}, {layout}, {culture})", result)
    raise messages.error(8116, value.type.name, 1, "format")


def _culture(name: str) -> str:
    """One of the two cultures.

    Raises:
        SqlError: 50900 for another one.
    """
    found = _CULTURES.get(name.strip().casefold())
    if found is None:
        raise not_supported(f"FORMAT in culture '{name}' (en-US and '' are)")
    return found


@sqlite_function("t_format_moment", 4, takes_null=True)
def _moment(ticks: int | None, layout: str | None, culture: str | None, offset: Any) -> str | None:
    if ticks is None or layout is None or culture is None:
        return None
    return format_moment(ticks, layout, invariant=not _culture(culture), offset=offset)


@sqlite_function("t_format_offset", 3)
def _offset(value: str, layout: str, culture: str) -> str | None:
    ticks, offset = unpack_offset(value)
    local = ticks + offset * 600_000_000
    return format_moment(local, layout, invariant=not _culture(culture), offset=offset)


@sqlite_function("t_format_time", 3)
def _time(ticks: int, layout: str, culture: str) -> str | None:
    _culture(culture)
    return format_time(ticks, layout)


@sqlite_function("t_format_number", 5)
def _number(value: Any, layout: str, culture: str, scale: int, whole: int) -> str | None:
    invariant = not _culture(culture)
    if isinstance(value, float):
        number = Decimal(repr(value))
    else:
        number = Decimal(scaled_of(value)).scaleb(-scale, _CONTEXT)
    match = _STANDARD.fullmatch(layout)
    if match is None:
        return custom_number(number, layout)
    letter, digits = match[1], int(match[2]) if match[2] else None
    return _standard(number, letter, digits, invariant=invariant, whole=bool(whole))


def _fixed(number: Decimal, digits: int, *, grouped: bool) -> str:
    """The absolute value with exactly that many decimals."""
    rounded = abs(number).quantize(Decimal(1).scaleb(-digits), context=_CONTEXT)
    return f"{rounded:,f}" if grouped else f"{rounded:f}"


def _is_negative(number: Decimal, digits: int) -> bool:
    """Whether the rounded number is below zero."""
    return number.quantize(Decimal(1).scaleb(-digits), context=_CONTEXT) < 0


def _standard(
    number: Decimal, letter: str, digits: int | None, *, invariant: bool, whole: bool
) -> str | None:
    """A standard format: one letter and perhaps a number of digits; NULL for one that is none."""
    kind = letter.upper()
    places = 2 if digits is None else digits
    if kind in {"N", "F"}:
        sign = "-" if _is_negative(number, places) else ""
        return sign + _fixed(number, places, grouped=kind == "N")
    if kind == "C":
        text = ("\u00a4" if invariant else "$") + _fixed(number, places, grouped=True)
        if not _is_negative(number, places):
            return text
        return f"({text})" if invariant else f"-{text}"
    if kind == "P":
        percent = number * 100
        sign = "-" if _is_negative(percent, places) else ""
        text = sign + _fixed(percent, places, grouped=True)
        return f"{text} %" if invariant else f"{text}%"
    if kind == "E":
        return _scientific(number, letter, 6 if digits is None else digits)
    if kind in {"D", "X", "B"}:
        return _integral(int(number), letter, digits or 0) if whole else None
    if kind in {"G", "R"}:
        return _general(number, digits, whole=whole)
    return None


def _scientific(number: Decimal, letter: str, digits: int) -> str:
    mantissa, exponent = f"{number:.{digits}e}".split("e")
    return f"{mantissa}{letter}{exponent[0]}{abs(int(exponent)):03d}"


def _integral(number: int, letter: str, digits: int) -> str:
    """Decimal or hexadecimal digits, filled up with zeros."""
    if letter in "Xx":
        text = f"{number & 0xFFFF_FFFF_FFFF_FFFF if number < -(2**31) else number & 0xFFFF_FFFF:x}"
        if number >= 2**32:
            text = f"{number:x}"
        text = text.zfill(digits)
        return text.upper() if letter == "X" else text
    if letter in "Bb":
        raise not_supported(f"FORMAT with '{letter}'")
    return ("-" if number < 0 else "") + str(abs(number)).zfill(digits)


def _general(number: Decimal, digits: int | None, *, whole: bool) -> str:
    """The shortest text."""
    if digits:
        number = Context(prec=digits, rounding=ROUND_HALF_UP).plus(number)
    exponent = number.adjusted()
    limit = digits or (19 if whole else 29)
    if number and (exponent >= limit or exponent < -5):
        mantissa = f"{number.scaleb(-exponent, _CONTEXT):f}"
        if "." in mantissa:
            mantissa = mantissa.rstrip("0").rstrip(".")
        return f"{mantissa}E{'+' if exponent >= 0 else '-'}{abs(exponent):02d}"
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text and digits else text


# Custom formats ---------------------------------------------------------------------------------

_TOKENS: Final = re.compile(
    r"""\\.|'[^']*'|"[^"]*"|[0#]|\.|,|%|\u2030|[eE][+-]?0+|[^0#.,%\u2030]"""
)
_DIGIT: Final = re.compile(r"[0#]")


def custom_number(number: Decimal, layout: str) -> str:
    """A custom format such as ``#,##0.00;(0.00);zero``."""
    sections = _sections(layout)
    negative = number < 0
    section = sections[0]
    if number == 0 and len(sections) > 2 and sections[2]:
        section = sections[2]
    elif negative and len(sections) > 1 and sections[1]:
        section, number, negative = sections[1], -number, False
    pieces = _TOKENS.findall(section)
    if any(piece[0] in "eE" and len(piece) > 1 for piece in pieces):
        raise not_supported("FORMAT with an exponent in a custom format")
    number = abs(number)
    number *= 100 ** pieces.count("%")
    if "\u2030" in pieces:
        number *= 1000
    point = pieces.index(".") if "." in pieces else len(pieces)
    grouped, number = _commas(pieces, point, number)
    integral = [t for t in pieces[:point] if t in {"0", "#"}]
    decimals = [t for t in pieces[point + 1 :] if t in {"0", "#"}]
    rounded = number.quantize(Decimal(1).scaleb(-len(decimals)), context=_CONTEXT)
    whole, _, fraction = f"{rounded:f}".partition(".")
    whole = whole.lstrip("0")
    least = len(integral) - integral.index("0") if "0" in integral else 0
    whole = whole.zfill(least)
    kept = max((n + 1 for n, t in enumerate(decimals) if t == "0"), default=0)
    fraction = fraction[:kept] + fraction[kept:].rstrip("0")
    sign = "-" if negative and rounded != 0 else ""
    return sign + _laid_out(pieces, point, whole, fraction, len(integral), grouped=grouped)


def _sections(layout: str) -> list[str]:
    """Parts between semicolons that are not quoted."""
    parts, current = [], ""
    for piece in re.findall(r"""\\.|'[^']*'|"[^"]*"|.""", layout, re.DOTALL):
        if piece == ";":
            parts.append(current)
            current = ""
        else:
            current += piece
    return [*parts, current]


def _commas(pieces: list[str], point: int, number: Decimal) -> tuple[bool, Decimal]:
    """Commas between digits group; those right before the point divide by 1000 each."""
    digits = [n for n in range(point) if pieces[n] in {"0", "#"}]
    if not digits:
        return False, number
    grouped = any(pieces[n] == "," for n in range(digits[0], digits[-1]))
    trailing = sum(pieces[n] == "," for n in range(digits[-1] + 1, point))
    return grouped, number.scaleb(-3 * trailing, _CONTEXT)


def _laid_out(
    pieces: list[str], point: int, whole: str, fraction: str, places: int, *, grouped: bool
) -> str:
    """The digits put into the places of a format."""
    out: list[str] = []
    seen = 0
    if grouped and whole:
        groups = f"{int(whole):,}" if not whole.startswith("0") else whole
        shown = groups if not whole.startswith("0") else _grouped(whole)
    else:
        shown = whole
    digits = list(shown)
    plain = [n for n, c in enumerate(digits) if c != ","]
    for n, piece in enumerate(pieces):
        if piece in {"0", "#"} and n < point:
            seen += 1
            left = places - seen
            # The first place takes every digit that is left of the others.
            end = len(plain) - left
            start = 0 if seen == 1 else max(0, end - 1)
            if end > 0 and plain:
                first = plain[start] if seen > 1 else 0
                last = plain[end] if end < len(plain) else len(digits)
                out.append("".join(digits[first:last]))
        elif piece in {"0", "#"}:
            out.append(fraction[:1])
            fraction = fraction[1:]
        elif piece == ".":
            out.append("." if fraction else "")
        elif piece != ",":
            out.append(_literal(piece))
    return "".join(out)


def _literal(piece: str) -> str:
    """A character that stands for itself, or text in quotation marks."""
    if piece[0] == "\\":
        return piece[1:]
    return piece[1:-1] if piece[0] in "'\"" and len(piece) > 1 else piece


def _grouped(whole: str) -> str:
    """Digits with leading zeros, in groups of three."""
    head = len(whole) % 3
    parts = [whole[:head]] if head else []
    parts += [whole[n : n + 3] for n in range(head, len(whole), 3)]
    return ",".join(parts)


__all__ = ["SqlError", "custom_number", "format_value"]
