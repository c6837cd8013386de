"""Conversions to integers, exact decimals and floats.

Rounding follows the documentation of CAST: a decimal loses its fraction towards int (money rounds).
It rounds half away from zero towards a smaller scale. A float is cut towards int and rounded
towards decimal.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any, Final

from tailrace_emulator import messages
from tailrace_emulator.messages.errors import Aborts, not_supported
from tailrace_emulator.tsql.conversions.families import (
    INTEGER_BYTES,
    INTEGER_RANGES,
    Family,
    family,
)
from tailrace_emulator.tsql.conversions.temporal import DAYS_1900
from tailrace_emulator.values.types import TICKS_PER_DAY, SqlType, pack_decimal, unpack_decimal

Number = Callable[[Any], Any]

_INTEGER_TEXT: Final = re.compile(r"\s*([+-]?)\s*(\d*)\s*\Z")
_DECIMAL_TEXT: Final = re.compile(r"\s*([+-]?)\s*(\d*)(?:\.(\d*))?\s*\Z")
_FLOAT_TEXT: Final = re.compile(r"\s*[+-]?(\d+(\.\d*)?|\.\d+)([dDeE][+-]?\d+)?\s*\Z")
_WIDE: Final = Context(prec=80, rounding=ROUND_HALF_UP)
_EPOCH_TICKS: Final = DAYS_1900 * TICKS_PER_DAY


def round_half_away(value: int, divisor: int) -> int:
    """``value / divisor`` rounded to the nearest, halves away from zero."""
    quotient, rest = divmod(abs(value), divisor)
    if rest * 2 >= divisor:
        quotient += 1
    return -quotient if value < 0 else quotient


def rescale(scaled: int, source_scale: int, target_scale: int) -> int:
    """A scaled integer moved to another scale."""
    if target_scale >= source_scale:
        return int(scaled * 10 ** (target_scale - source_scale))
    return round_half_away(scaled, 10 ** (source_scale - target_scale))


def _days(ticks: int) -> float:
    """A moment as days since 1900."""
    return (ticks - _EPOCH_TICKS) / TICKS_PER_DAY


# Integers ---------------------------------------------------------------------------------------


def to_integer(source: SqlType, target: SqlType) -> Number | None:
    """To bit and the integers."""
    name = target.name
    if name == "bit":
        return _to_bit(source)
    low, high = INTEGER_RANGES[name]
    kind = family(source)
    if kind is Family.INTEGER:
        source_low, source_high = INTEGER_RANGES[source.name]
        if low <= source_low and source_high <= high:
            return None

        def narrow(value: int) -> int:
            if low <= value <= high:
                return value
            if name == "int":
                raise messages.arithmetic_overflow("int")
            raise messages.value_overflow(name, value)

        return narrow
    if kind is Family.TEXT:
        return _text_to_integer(source, name, low, high)
    if kind is Family.BINARY:
        return _integer_of_bytes(name)
    whole = _whole(source, kind)

    def checked(value: Any) -> int:
        number = whole(value)
        if low <= number <= high:
            return number
        if kind is Family.FLOAT:
            raise messages.error(232, name, f"{value:.6f}")
        raise messages.numeric_overflow("numeric" if kind is Family.DECIMAL else source.name, name)

    return checked


def _whole(source: SqlType, kind: Family) -> Callable[[Any], int]:
    """The whole number of a non-integer value, before the range check."""
    if kind is Family.DECIMAL:
        divisor = int(10**source.scale)
        if source.name in {"money", "smallmoney"}:
            return lambda value: round_half_away(unpack_decimal(value), divisor)
        if source.scale == 0:
            return unpack_decimal

        def truncated(value: int | bytes) -> int:
            scaled = unpack_decimal(value)
            return -(-scaled // divisor) if scaled < 0 else scaled // divisor

        return truncated
    if kind is Family.FLOAT:
        return lambda value: math.trunc(value) if math.isfinite(value) else 2**80
    if kind is Family.MOMENT:
        return lambda value: math.floor(_days(value) + 0.5)
    raise not_supported(f"the conversion of {source.name} to an integer")


def _integer_of_bytes(name: str) -> Callable[[bytes], int]:
    """The last bytes, as many as the type has; fewer are padded with zeros on the left."""
    size = INTEGER_BYTES[name]
    signed = name != "tinyint"

    def read(value: bytes) -> int:
        return int.from_bytes(value[-size:].rjust(size, b"\0"), "big", signed=signed)

    return read


def _to_bit(source: SqlType) -> Number | None:
    """Anything but zero is 1; 'true' and 'false' are words for them."""
    kind = family(source)
    if source.name == "bit":
        return None
    if kind is Family.DECIMAL:
        return lambda value: int(unpack_decimal(value) != 0)
    if kind is Family.TEXT:

        def from_text(value: str) -> int:
            word = value.strip().lower()
            if word in {"true", "false"}:
                return int(word == "true")
            match = _INTEGER_TEXT.match(value)
            if match is None:
                raise messages.conversion_failed(source.name, value, "bit")
            return int(bool(match[2].strip("0")))

        return from_text
    if kind is Family.BINARY:
        return lambda value: int(any(value))
    return lambda value: int(value != 0)


def _text_to_integer(source: SqlType, name: str, low: int, high: int) -> Number:
    """Text to an integer; an empty string is 0."""

    def parse(value: str) -> int:
        match = _INTEGER_TEXT.match(value)
        if match is None or (match[1] and not match[2]):
            if name == "bigint":
                raise messages.error_converting(source.name, "bigint")
            raise messages.conversion_failed(source.name, value, name)
        number = int(match[2] or "0")
        if match[1] == "-":
            number = -number
        if not low <= number <= high:
            if name == "bigint":
                raise messages.numeric_overflow(source.name, "bigint")
            raise messages.text_overflow(source.name, value, name)
        return number

    return parse


# Decimals ---------------------------------------------------------------------------------------


def to_decimal(source: SqlType, target: SqlType) -> Number | None:
    """To decimal, numeric, money and smallmoney."""
    kind = family(source)
    limit = _limit(target)
    scale = target.scale
    shown = "numeric" if target.name == "decimal" else target.name
    if kind is Family.DECIMAL:
        return _decimal_to_decimal(source, target, limit, shown)
    if kind is Family.INTEGER:
        factor = 10**scale
        digits_fit = INTEGER_RANGES[source.name][1] * factor < limit

        def from_integer(value: int) -> int | bytes:
            scaled = value * factor
            if not digits_fit and not -limit < scaled < limit:
                raise messages.numeric_overflow(source.name, shown)
            return pack_decimal(scaled, target)

        return None if factor == 1 and digits_fit and target.precision <= 18 else from_integer
    if kind is Family.TEXT:
        return _text_to_decimal(source, target, limit, shown)
    if kind is Family.BINARY:
        scaled_of = _scaled_of_binary(source, target)
        return lambda value: pack_decimal(
            _checked(scaled_of(value), limit, source.name, shown), target
        )
    number = _days if kind is Family.MOMENT else float

    def from_float(value: Any) -> int | bytes:
        real = number(value)
        if not math.isfinite(real):
            raise messages.numeric_overflow("float", shown)
        scaled = int(
            _WIDE.multiply(Decimal(repr(real)), Decimal(10) ** scale).to_integral_value(
                ROUND_HALF_UP
            )
        )
        return pack_decimal(_checked(scaled, limit, "float", shown), target)

    return from_float


def _limit(target: SqlType) -> int:
    """The first scaled integer that does not fit."""
    if target.name == "money":
        return 2**63
    if target.name == "smallmoney":
        return 2**31
    return int(10**target.precision)


def _checked(scaled: int, limit: int, source: str, target: str) -> int:
    """The number, or 8115."""
    # money and smallmoney are two's complement: their lowest value has no positive counterpart.
    lowest = -limit if limit in {2**63, 2**31} else 1 - limit
    if not lowest <= scaled < limit:
        raise messages.numeric_overflow(source, target)
    return scaled


def _decimal_to_decimal(source: SqlType, target: SqlType, limit: int, shown: str) -> Number | None:
    """Between decimals."""
    same_scale = source.scale == target.scale
    fits = source.precision - source.scale <= target.precision - target.scale
    money = target.name in {"money", "smallmoney"} or source.name in {"money", "smallmoney"}
    if same_scale and fits and source.is_wide_decimal == target.is_wide_decimal and not money:
        return None
    if source == target:
        return None
    source_scale, target_scale = source.scale, target.scale

    def between(value: int | bytes) -> int | bytes:
        scaled = rescale(unpack_decimal(value), source_scale, target_scale)
        return pack_decimal(_checked(scaled, limit, "numeric", shown), target)

    return between


def _text_to_decimal(source: SqlType, target: SqlType, limit: int, shown: str) -> Number:
    """Text to a decimal; money also takes a currency sign and commas."""
    scale = target.scale
    money = target.name in {"money", "smallmoney"}

    def parse(value: str) -> int | bytes:
        text = re.sub(r"[$£€¥,]", "", value) if money else value
        match = _DECIMAL_TEXT.match(text)
        if match is None or not (match[2] or match[3] or (money and not match[1])):
            if money:
                raise messages.error(235)
            raise messages.error_converting(source.name, shown)
        fraction = match[3] or ""
        scaled = rescale(int((match[2] or "") + fraction or "0"), len(fraction), scale)
        if match[1] == "-":
            scaled = -scaled
        return pack_decimal(_checked(scaled, limit, source.name, shown), target)

    return parse


# Floats -----------------------------------------------------------------------------------------


def to_float(source: SqlType, target: SqlType) -> Number | None:
    """To float and real."""
    number = _float_of(source)
    if target.name == "float":
        return number
    if source.name == "real":
        return None
    if number is None:
        return _to_single
    first = number
    return lambda value: _to_single(first(value))


def _to_single(value: float) -> float:
    """A float rounded to 24 bits."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError as error:
        raise messages.error(232, "real", f"{value:.6f}", state=2) from error


def _float_of(source: SqlType) -> Number | None:
    """A value as float; None when it is one."""
    kind = family(source)
    if kind is Family.FLOAT:
        return None
    if kind is Family.INTEGER:
        return float
    if kind is Family.DECIMAL:
        divisor = 10**source.scale
        return lambda value: unpack_decimal(value) / divisor
    if kind is Family.MOMENT:
        return _days

    def parse(value: str) -> float:
        if not value.strip():
            return 0.0
        if not _FLOAT_TEXT.match(value):
            raise messages.error_converting(source.name, "float")
        try:
            number = float(Decimal(value.strip().upper().replace("D", "E")))
        except (InvalidOperation, OverflowError) as error:
            raise messages.error_converting(source.name, "float") from error
        if math.isinf(number):
            raise messages.numeric_overflow(source.name, "float")
        return number

    return parse


_MAX_PRECISION: Final = 38
_BINARY_HEAD: Final = 4
"""Precision, scale, zero and sign, before the magnitude of a decimal's bytes."""


def _scaled_of_binary(source: SqlType, target: SqlType) -> Callable[[bytes], int]:
    """The scaled integer of bytes: big-endian for money, for decimals as CAST wrote them."""
    if target.name in {"money", "smallmoney"}:
        size = 8 if target.name == "money" else 4
        return lambda value: int.from_bytes(value[-size:].rjust(size, b"\0"), "big", signed=True)

    def read(value: bytes) -> int:
        magnitude = int.from_bytes(value[_BINARY_HEAD:], "little")
        if len(value) <= _BINARY_HEAD or not (
            value[1] <= value[0] <= _MAX_PRECISION and magnitude < 10 ** value[0]
        ):
            raise messages.error(8114, source.name, "numeric", aborts=Aborts.STATEMENT)
        return rescale(magnitude if value[3] else -magnitude, value[1], target.scale)

    return read
