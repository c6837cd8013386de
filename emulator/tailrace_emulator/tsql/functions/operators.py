"""What the arithmetic operators call: overflow checks, division, decimals wider than 64 bits."""

from __future__ import annotations

import json
import math
from typing import Any, Final

from tailrace_emulator import messages
from tailrace_emulator.storage.values import round_datetime
from tailrace_emulator.tsql.conversions.numbers import round_half_away
from tailrace_emulator.tsql.conversions.temporal import DAYS_1753, TICKS_MAX
from tailrace_emulator.tsql.functions.sqlite_functions import sqlite_function
from tailrace_emulator.values.types import DECIMAL_BIAS, TICKS_PER_DAY

_LIMIT: Final = 10**38


def _range_check(name: str, low: int, high: int) -> None:
    """Registers ``t_<integer type>(x)``: x, or an overflow."""

    @sqlite_function(f"t_{name}", 1)
    def check(value: Any) -> Any:
        if low <= value <= high and not isinstance(value, float):
            return value
        raise messages.arithmetic_overflow(name)


_range_check("bit", 0, 1)
_range_check("tinyint", 0, 255)
_range_check("smallint", -(2**15), 2**15 - 1)
_range_check("int", -(2**31), 2**31 - 1)
_range_check("bigint", -(2**63), 2**63 - 1)


@sqlite_function("t_integer_divide", 2)
def integer_divide(left: int, right: int) -> int:
    """Quotient cut towards zero."""
    if right == 0:
        raise messages.divide_by_zero()
    quotient = abs(left) // abs(right)
    quotient = quotient if (left < 0) == (right < 0) else -quotient
    if quotient > 2**63 - 1:
        raise messages.arithmetic_overflow("bigint")
    return quotient


@sqlite_function("t_integer_modulo", 2)
def integer_modulo(left: int, right: int) -> int:
    """Remainder with the sign of the dividend."""
    if right == 0:
        raise messages.divide_by_zero()
    return int(math.copysign(1, left)) * (abs(left) % abs(right))


@sqlite_function("t_xor", 2)
def xor(left: int, right: int) -> int:
    """``^``."""
    return left ^ right


@sqlite_function("t_float", 1)
def float_result(value: float) -> float:
    """A float result; infinity is an overflow."""
    if math.isinf(value):
        raise messages.arithmetic_overflow("float")
    return value


@sqlite_function("t_float_divide", 2)
def float_divide(left: float, right: float) -> float:
    """``/`` over floats."""
    if right == 0:
        raise messages.divide_by_zero()
    quotient = left / right
    if math.isinf(quotient):
        raise messages.arithmetic_overflow("float")
    return quotient


# Decimals ---------------------------------------------------------------------------------------


def scaled_of(value: int | bytes) -> int:
    """The scaled integer of a decimal, narrow or wide."""
    if isinstance(value, bytes):
        return int.from_bytes(value, "big") - DECIMAL_BIAS
    return value


def decimal_of(scaled: int, precision: int, *, raw: int = 0) -> int | bytes:
    """A decimal's storage value.

    Args:
        precision: of its type: 8115 when it does not fit.
        raw: 1 keeps wide results of money unchecked against decimal's own limits.
    """
    if not -(10**precision) < scaled < 10**precision:
        raise messages.arithmetic_overflow("numeric")
    if precision > 18 or raw:
        return (scaled + DECIMAL_BIAS).to_bytes(16, "big")
    return scaled


@sqlite_function("t_decimal_add", 7)
def decimal_add(
    a: int | bytes, b: int | bytes, sa: int, sb: int, precision: int, scale: int, raw: int
) -> int | bytes:
    """``+``."""
    inner = max(sa, sb)
    total = scaled_of(a) * 10 ** (inner - sa) + scaled_of(b) * 10 ** (inner - sb)
    return decimal_of(_rescaled(total, inner, scale), precision, raw=raw)


@sqlite_function("t_decimal_subtract", 7)
def decimal_subtract(
    a: int | bytes, b: int | bytes, sa: int, sb: int, precision: int, scale: int, raw: int
) -> int | bytes:
    """``-``."""
    inner = max(sa, sb)
    total = scaled_of(a) * 10 ** (inner - sa) - scaled_of(b) * 10 ** (inner - sb)
    return decimal_of(_rescaled(total, inner, scale), precision, raw=raw)


@sqlite_function("t_decimal_multiply", 7)
def decimal_multiply(
    a: int | bytes, b: int | bytes, sa: int, sb: int, precision: int, scale: int, raw: int
) -> int | bytes:
    """``*``: digits that do not fit the scale are rounded away."""
    return decimal_of(_rescaled(scaled_of(a) * scaled_of(b), sa + sb, scale), precision, raw=raw)


@sqlite_function("t_decimal_divide", 7)
def decimal_divide(
    a: int | bytes, b: int | bytes, sa: int, sb: int, precision: int, scale: int, raw: int
) -> int | bytes:
    """``/``: the quotient is cut at the result's scale, of money too (2.0/3 is 0.666666)."""
    divisor = scaled_of(b)
    if divisor == 0:
        raise messages.divide_by_zero()
    dividend = scaled_of(a) * 10 ** (scale + sb - sa) if scale + sb >= sa else scaled_of(a)
    if scale + sb < sa:
        divisor *= 10 ** (sa - scale - sb)
    quotient = abs(dividend) // abs(divisor)
    quotient = quotient if (dividend < 0) == (divisor < 0) else -quotient
    return decimal_of(quotient, precision, raw=raw)


@sqlite_function("t_decimal_modulo", 7)
def decimal_modulo(
    a: int | bytes, b: int | bytes, sa: int, sb: int, precision: int, scale: int, raw: int
) -> int | bytes:
    """``%``: the remainder has the sign of the dividend."""
    inner = max(sa, sb)
    left, right = scaled_of(a) * 10 ** (inner - sa), scaled_of(b) * 10 ** (inner - sb)
    if right == 0:
        raise messages.divide_by_zero()
    rest = abs(left) % abs(right)
    return decimal_of(_rescaled(-rest if left < 0 else rest, inner, scale), precision, raw=raw)


def _rescaled(scaled: int, source: int, target: int) -> int:
    """A scaled integer at another scale."""
    if target >= source:
        return int(scaled * 10 ** (target - source))
    return round_half_away(scaled, 10 ** (source - target))


@sqlite_function("t_decimal_negate", 1)
def decimal_negate(value: bytes) -> bytes:
    """``-x`` of a wide decimal."""
    return (2 * DECIMAL_BIAS - int.from_bytes(value, "big")).to_bytes(16, "big")


@sqlite_function("t_money", 2)
def money(value: bytes, precision: int) -> int | bytes:
    """A wide decimal as money (19 digits) or smallmoney (10)."""
    scaled = scaled_of(value)
    limit = 2**63 if precision == 19 else 2**31
    if not -limit <= scaled < limit:
        raise messages.arithmetic_overflow("money" if precision == 19 else "smallmoney")
    return value if precision == 19 else scaled


# Text, binary, moments --------------------------------------------------------------------------


@sqlite_function("t_binary_concat", 2)
def binary_concat(left: bytes, right: bytes) -> bytes:
    """``+`` over binary values."""
    return left + right


@sqlite_function("t_padded", 2)
def padded(value: bytes, length: int) -> bytes:
    """A binary value for comparing: trailing zeros do not count, then padded to ``length``."""
    return value.rstrip(b"\0").ljust(length, b"\0")


@sqlite_function("t_datetime", 1)
def datetime_result(ticks: int) -> int:
    """The result of datetime arithmetic."""
    rounded = round_datetime(ticks)
    if not DAYS_1753 * TICKS_PER_DAY <= rounded <= TICKS_MAX:
        raise messages.arithmetic_overflow("datetime")
    return rounded


# Rows -------------------------------------------------------------------------------------------


@sqlite_function("t_row_count", 1, takes_null=True)
def row_count(value: int | None) -> int:
    """The argument of TOP, OFFSET or FETCH."""
    if value is None or value < 0:
        raise messages.error(1060)
    return value


@sqlite_function("t_percent", 2, takes_null=True)
def percent(count: int, percentage: float | None) -> int:
    """How many of ``count`` rows TOP (p) PERCENT takes: rounded up."""
    if percentage is None or not 0 <= percentage <= 100:
        raise messages.error(1031)
    return math.ceil(count * percentage / 100)


@sqlite_function("t_level", 2)
def level(depth: int, limit: int) -> int:
    """The depth of a row of a recursive query; ``limit`` 0 is none."""
    if limit and depth >= limit:
        raise messages.error(530, limit)
    return depth + 1


@sqlite_function("t_pack", 1, takes_null=True)
def pack(value: Any) -> Any:
    """A value for a JSON array: blobs and floats as tagged text, so that they come back exactly."""
    if isinstance(value, bytes):
        return f"x{value.hex()}"
    if isinstance(value, float):
        return f"f{value.hex()}"
    return f"s{value}" if isinstance(value, str) else value


@sqlite_function("t_unpack", 2)
def unpack(array: str, position: int) -> Any:
    """One element of a packed row."""
    value = json.loads(array)[position]
    if not isinstance(value, str):
        return value
    if value[0] == "x":
        return bytes.fromhex(value[1:])
    return float.fromhex(value[1:]) if value[0] == "f" else value[1:]
