"""Mathematical functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tailrace_emulator import messages
from tailrace_emulator.messages.errors import SqlError
from tailrace_emulator.tsql.compile import types_of
from tailrace_emulator.tsql.compile.values import Value, converted
from tailrace_emulator.tsql.conversions.families import Family, family
from tailrace_emulator.tsql.conversions.numbers import round_half_away
from tailrace_emulator.tsql.functions.operators import decimal_of, scaled_of
from tailrace_emulator.tsql.functions.registry import builtin
from tailrace_emulator.tsql.functions.sqlite_functions import sqlite_function
from tailrace_emulator.values.types import BIGINT, FLOAT, INT, MONEY, SqlType, StorageValue

if TYPE_CHECKING:
    from tailrace_emulator.tsql.compile.compilers import Expressions


def _number(value: Value) -> Value:
    """An argument that must be a number; text reads as float, small integers as int."""
    kind = family(value.type)
    if kind is Family.TEXT:
        return converted(value, FLOAT)
    if kind is Family.INTEGER and value.type.name not in {"int", "bigint"}:
        return converted(value, INT)
    if value.type.name == "smallmoney":
        return converted(value, MONEY)
    if value.type.name == "real":
        return converted(value, FLOAT)
    if kind not in {Family.INTEGER, Family.DECIMAL, Family.FLOAT}:
        raise messages.error(8116, value.type.name, 1, "this")
    return value


@builtin("ABS", 1)
def absolute(_: Expressions, arguments: list[Value]) -> Value:
    """ABS keeps the type."""
    value = _number(arguments[0])
    if family(value.type) is Family.DECIMAL:
        text = f"t_decimal_absolute({value.sql}, {value.type.precision})"
    elif family(value.type) is Family.INTEGER:
        text = f"t_{value.type.name}(t_absolute({value.sql}))"
    else:
        text = f"t_absolute({value.sql})"
    return Value(text, value.type, value.nullable)


@sqlite_function("t_absolute", 1)
def _absolute(value: float) -> float:
    return abs(value)


@sqlite_function("t_decimal_absolute", 2)
def _decimal_absolute(value: int | bytes, precision: int) -> int | bytes:
    return decimal_of(abs(scaled_of(value)), max(precision, 1))


@builtin("SIGN", 1)
def sign(_: Expressions, arguments: list[Value]) -> Value:
    """-1, 0 or 1 in the argument's type."""
    value = _number(arguments[0])
    scale = value.type.scale if family(value.type) is Family.DECIMAL else 0
    precision = value.type.precision if family(value.type) is Family.DECIMAL else 0
    is_float = int(family(value.type) is Family.FLOAT)
    return Value(
        f"t_sign({value.sql}, {precision}, {scale}, {is_float})", value.type, value.nullable
    )


@sqlite_function("t_sign", 4)
def _sign(value: Any, precision: int, scale: int, is_float: int) -> Any:
    number = value if is_float else scaled_of(value)
    result = (number > 0) - (number < 0)
    if is_float:
        return float(result)
    return decimal_of(result * 10**scale, precision) if precision else result


def _whole(name: str, direction: int) -> None:
    """Registers CEILING (1) and FLOOR (-1)."""

    @builtin(name, 1)
    def build(_: Expressions, arguments: list[Value]) -> Value:
        value = _number(arguments[0])
        kind = family(value.type)
        if kind is Family.INTEGER:
            return value
        if kind is Family.FLOAT:
            return Value(f"t_float_whole({value.sql}, {direction})", FLOAT, value.nullable)
        if value.type.name == "money":
            target, scale = value.type, value.type.scale
        else:
            target, scale = (
                SqlType(value.type.name, precision=value.type.precision),
                0,
            )
        return Value(
            f"t_decimal_whole({value.sql}, {value.type.scale}, {direction}, {target.precision},"
            f" {scale})",
            target,
            value.nullable,
        )


_whole("CEILING", 1)
_whole("FLOOR", -1)


@sqlite_function("t_float_whole", 2)
def _float_whole(value: float, direction: int) -> float:
    return float(math.ceil(value) if direction > 0 else math.floor(value))


@sqlite_function("t_decimal_whole", 5)
def _decimal_whole(
    value: int | bytes, scale: int, direction: int, precision: int, target_scale: int
) -> int | bytes:
    divisor = 10**scale
    scaled = scaled_of(value)
    whole = -(-scaled // divisor) if direction > 0 else scaled // divisor
    return decimal_of(int(whole * 10**target_scale), precision)


@builtin("ROUND", 2, 3)
def round_number(compiler: Expressions, arguments: list[Value]) -> Value:
    """ROUND(x, digits [, truncate])."""
    value = _number(arguments[0])
    digits = compiler.as_int(arguments[1]).sql
    cut = compiler.as_int(arguments[2]).sql if len(arguments) > 2 else "0"
    kind = family(value.type)
    if kind is Family.FLOAT:
        return Value(f"t_float_round({value.sql}, {digits}, {cut})", FLOAT, value.nullable)
    if kind is Family.INTEGER:
        text = f"t_{value.type.name}(t_integer_round({value.sql}, {digits}, {cut}))"
        return Value(text, value.type, value.nullable)
    text = (
        f"t_decimal_round({value.sql}, {digits}, {cut}, {value.type.precision}, {value.type.scale})"
    )
    return Value(text, value.type, value.nullable)


@sqlite_function("t_float_round", 3)
def _float_round(value: float, digits: int, cut: int) -> float:
    factor = 10.0**digits
    if not math.isfinite(value * factor):
        return value
    if cut:
        return math.trunc(value * factor) / factor
    # Halves go away from zero; repr's shortest digits decide what is a half.
    return math.copysign(math.floor(abs(value) * factor + 0.5), value) / factor


@sqlite_function("t_integer_round", 3)
def _integer_round(value: int, digits: int, cut: int) -> int:
    if digits >= 0:
        return value
    unit = int(10**-digits)
    if cut:
        return value - int(math.copysign(1, value)) * (abs(value) % unit)
    return round_half_away(value, unit) * unit


@sqlite_function("t_decimal_round", 5)
def _decimal_round(
    value: int | bytes, digits: int, cut: int, precision: int, scale: int
) -> int | bytes:
    scaled = scaled_of(value)
    if digits < scale:
        unit = 10 ** (scale - digits)
        if cut:
            scaled = (abs(scaled) // unit * unit) * (1 if scaled >= 0 else -1)
        else:
            scaled = round_half_away(scaled, unit) * unit
    return decimal_of(scaled, precision)


@builtin("POWER", 2)
def power(_: Expressions, arguments: list[Value]) -> Value:
    """POWER has the type of its first argument."""
    base = _number(arguments[0])
    exponent = converted(arguments[1], FLOAT)
    text = f"t_power({converted(base, FLOAT).sql}, {exponent.sql})"
    return converted(Value(text, FLOAT, base.nullable or exponent.nullable), base.type)


@sqlite_function("t_power", 2)
def _power(base: float, exponent: float) -> float:
    try:
        result = math.pow(base, exponent)
    except (ValueError, OverflowError) as error:
        raise _invalid_operation() from error
    return result


def _invalid_operation() -> SqlError:
    """3623."""
    return messages.error(3623)


def _float_function(name: str, function: Callable[[float], float]) -> None:
    """Registers a function from float to float."""
    sqlite_name = f"t_{name.lower()}"

    @sqlite_function(sqlite_name, 1)
    def call(value: float) -> float:
        try:
            result = function(value)
        except (ValueError, OverflowError, ZeroDivisionError) as error:
            raise _invalid_operation() from error
        if not math.isfinite(result):
            raise _invalid_operation()
        return result

    @builtin(name, 1)
    def build(_: Expressions, arguments: list[Value]) -> Value:
        value = converted(arguments[0], FLOAT)
        return Value(f"{sqlite_name}({value.sql})", FLOAT, value.nullable)


for _name, _function in {
    "SQRT": math.sqrt,
    "EXP": math.exp,
    "LOG10": math.log10,
    "SIN": math.sin,
    "COS": math.cos,
    "TAN": math.tan,
    "COT": lambda x: 1 / math.tan(x),
    "ASIN": math.asin,
    "ACOS": math.acos,
    "ATAN": math.atan,
    "SQUARE": lambda x: x * x,
    "DEGREES": math.degrees,
    "RADIANS": math.radians,
}.items():
    _float_function(_name, _function)


@builtin("LOG", 1, 2)
def logarithm(_: Expressions, arguments: list[Value]) -> Value:
    """LOG(x [, base])."""
    values = [converted(a, FLOAT) for a in arguments]
    text = ", ".join(v.sql for v in values)
    return Value(f"t_log({text})", FLOAT)


@sqlite_function("t_log")
def _log(value: float, base: float = math.e) -> float:
    try:
        return math.log(value) if base == math.e else math.log(value, base)
    except (ValueError, ZeroDivisionError) as error:
        raise _invalid_operation() from error


@builtin("ATN2", 2)
def arctangent(_: Expressions, arguments: list[Value]) -> Value:
    """ATN2(y, x)."""
    y, x = (converted(a, FLOAT) for a in arguments)
    return Value(f"t_atn2({y.sql}, {x.sql})", FLOAT)


@sqlite_function("t_atn2", 2)
def _atn2(y: float, x: float) -> float:
    return math.atan2(y, x)


@builtin("PI", 0)
def pi(_: Expressions, __: list[Value]) -> Value:
    """PI()."""
    return Value(repr(math.pi), FLOAT, nullable=False)


@builtin("RAND", 0, 1)
def rand(compiler: Expressions, arguments: list[Value]) -> Value:
    """RAND(): one number per statement; RAND(seed) is fixed by its seed."""
    if arguments:
        generator = compiler.compilation.workspace.random

        def seeded(seed: StorageValue) -> StorageValue:
            if isinstance(seed, int):
                generator.seed(seed)
            return generator.next()

        seed = compiler.as_int(arguments[0])
        known = seed.constant
        if known is not None:  # in its place among the RAND() of the statement
            slot = compiler.compilation.slot(("rand", object()), lambda _: seeded(known.value))
            return Value(slot, FLOAT)
        number = compiler.compilation.workspace.own_function("rand", seeded)
        return Value(f"t_own({number}, {seed.sql})", FLOAT)
    slot = compiler.compilation.slot(
        ("rand", object()), lambda execution: execution.workspace.random.next()
    )
    return Value(slot, FLOAT)


__all__ = ["BIGINT", "types_of"]
