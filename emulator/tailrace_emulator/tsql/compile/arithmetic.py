"""Operators over numbers, text, binary values and moments."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tailrace_emulator import messages
from tailrace_emulator.messages.errors import not_supported
from tailrace_emulator.tsql.compile import types_of
from tailrace_emulator.tsql.compile.values import NULL_VALUE, Constant, Value, constant, converted
from tailrace_emulator.tsql.conversions.families import INTEGER_RANGES, Family, family
from tailrace_emulator.tsql.conversions.temporal import DAYS_1900
from tailrace_emulator.values.types import (
    DATETIME,
    FLOAT,
    MAX,
    SMALLDATETIME,
    TICKS_PER_DAY,
    SqlType,
    pack_decimal,
    unpack_decimal,
)

if TYPE_CHECKING:
    from tailrace_emulator.catalog.set_options import Semantics

_EPOCH: Final = DAYS_1900 * TICKS_PER_DAY
_DECIMAL_FUNCTIONS: Final = {
    "+": "t_decimal_add",
    "-": "t_decimal_subtract",
    "*": "t_decimal_multiply",
    "/": "t_decimal_divide",
    "%": "t_decimal_modulo",
}


def arithmetic(operator: str, left: Value, right: Value, semantics: Semantics) -> Value:
    """``left operator right`` under the session's SET options.

    Raises:
        SqlError: 206, 402 or 8117 for types that the operator does not take.
    """
    if left.is_null and right.is_null:
        return NULL_VALUE
    if left.is_null:
        left = converted(left, right.type)
    if right.is_null:
        right = converted(right, left.type)
    left, right = _binary_as_integer(left, right)
    left_family, right_family = family(left.type), family(right.type)
    families = {left_family, right_family}
    nullable = left.nullable or right.nullable
    if operator in {"&", "|", "^"}:
        return _bits(operator, left, right, nullable=nullable)
    if operator == "+" and families == {Family.TEXT}:
        if not semantics.concat_null_yields_null:
            left, right = _empty_if_null(left), _empty_if_null(right)
            nullable = False
        return _concatenation(left, right, nullable=nullable)
    if operator == "+" and families == {Family.BINARY}:
        if nullable and not semantics.concat_null_yields_null:
            raise not_supported("binary + binary under SET CONCAT_NULL_YIELDS_NULL OFF")
        return _binary_concatenation(left, right, nullable=nullable)
    if families & {Family.MOMENT, Family.DATE, Family.TIME, Family.OFFSET}:
        return _moments(operator, left, right, nullable=nullable)
    target = types_of.arithmetic_type(operator, left.type, right.type)
    kind = family(target)
    if kind is Family.INTEGER:
        return _integers(
            operator, converted(left, target), converted(right, target), target, nullable=nullable
        )
    if kind is Family.FLOAT:
        return _floats(operator, left, right, target, nullable=nullable)
    return _decimals(operator, left, right, target, nullable=nullable)


def _binary_as_integer(left: Value, right: Value) -> tuple[Value, Value]:
    """A binary operand next to an integer is one too: ``COLUMNS_UPDATED() & 4``."""
    families = family(left.type), family(right.type)
    if families == (Family.BINARY, Family.INTEGER) and right.type.name != "bit":
        return converted(left, right.type, explicit=True), right
    if families == (Family.INTEGER, Family.BINARY) and left.type.name != "bit":
        return left, converted(right, left.type, explicit=True)
    return left, right


def _integers(
    operator: str, left: Value, right: Value, target: SqlType, *, nullable: bool
) -> Value:
    """Integers: the result has the wider type and must fit it."""
    if operator in {"/", "%"}:
        divisor = right.constant.value if right.constant else None
        if isinstance(divisor, int) and divisor not in {0, -1}:
            return Value(f"({left.sql} {operator} {right.sql})", target, nullable)
        function = "t_integer_divide" if operator == "/" else "t_integer_modulo"
        return Value(f"t_{target.name}({function}({left.sql}, {right.sql}))", target, nullable)
    return Value(f"t_{target.name}({left.sql} {operator} {right.sql})", target, nullable)


def _floats(operator: str, left: Value, right: Value, target: SqlType, *, nullable: bool) -> Value:
    """Floats: infinity is an overflow."""
    left, right = converted(left, FLOAT), converted(right, FLOAT)
    if operator == "/":
        text = f"t_float_divide({left.sql}, {right.sql})"
    else:
        text = f"t_float({left.sql} {operator} {right.sql})"
    if target.name == "real":
        return converted(Value(text, FLOAT, nullable), target)
    return Value(text, FLOAT, nullable)


def _as_decimal(value: Value) -> Value:
    """An operand as decimal: an integer constant counts its own digits, text reads as the other."""
    known = value.constant.value if value.literal and value.constant is not None else None
    if isinstance(known, int) and family(value.type) is Family.INTEGER:
        sql_type = SqlType("numeric", precision=len(str(abs(known))))
        return constant(pack_decimal(known, sql_type), sql_type)
    return converted(value, types_of.as_decimal(value.type))


def _decimals(
    operator: str, left: Value, right: Value, target: SqlType, *, nullable: bool
) -> Value:
    """Exact decimals and money."""
    if family(left.type) is Family.TEXT:
        left = converted(left, right.type)
    if family(right.type) is Family.TEXT:
        right = converted(right, left.type)
    if target.name in {"money", "smallmoney"}:
        left, right = converted(left, target), converted(right, target)
        function = _DECIMAL_FUNCTIONS[operator]
        scale = target.scale
        return Value(
            f"t_money({function}({left.sql}, {right.sql}, {scale}, {scale}, 38, {scale}, 1),"
            f" {target.precision})",
            target,
            nullable,
        )
    left, right = _as_decimal(left), _as_decimal(right)
    target = types_of.decimal_result(operator, left.type, right.type)
    native = _native_decimals(operator, left, right, target, nullable=nullable)
    if native is not None:
        return native
    text = (
        f"{_DECIMAL_FUNCTIONS[operator]}({left.sql}, {right.sql}, {left.type.scale},"
        f" {right.type.scale}, {target.precision}, {target.scale}, 0)"
    )
    return Value(text, target, nullable)


def _native_decimals(
    operator: str, left: Value, right: Value, target: SqlType, *, nullable: bool
) -> Value | None:
    """Sums and products that stay within 18 digits are sums and products of 64-bit integers."""
    if target.precision > 18 or left.type.is_wide_decimal or right.type.is_wide_decimal:
        return None
    if operator == "*" and target.scale == left.type.scale + right.type.scale:
        return Value(f"({left.sql} * {right.sql})", target, nullable)
    if operator not in {"+", "-"}:
        return None
    sides = []
    for side in (left, right):
        factor = 10 ** (target.scale - side.type.scale)
        sides.append(side.sql if factor == 1 else f"({side.sql} * {factor})")
    return Value(f"({sides[0]} {operator} {sides[1]})", target, nullable)


def _empty_if_null(value: Value) -> Value:
    """Text of which NULL counts as none."""
    if not value.nullable:
        return value
    return replace(value, sql=f"ifnull({value.sql}, '')", nullable=False, constant=None)


def _concatenation(left: Value, right: Value, *, nullable: bool) -> Value:
    """Text + text, cut at 8000 bytes unless one of them is (max)."""
    sql_type = types_of.concatenation_type(left.type, right.type)
    text = f"({left.sql} || {right.sql})"
    total = left.type.length + right.type.length
    if sql_type.length != MAX and total > sql_type.length:
        text = f"substr({text}, 1, {sql_type.length})"
    return Value(text, sql_type, nullable)


def _binary_concatenation(left: Value, right: Value, *, nullable: bool) -> Value:
    """Binary + binary, cut at 8000 bytes unless one of them is (max)."""
    sql_type = types_of.binary_concatenation_type(left.type, right.type)
    text = f"t_binary_concat({left.sql}, {right.sql})"
    if sql_type.length != MAX:
        text = f"substr({text}, 1, {sql_type.length})"
    return Value(text, sql_type, nullable)


def _bits(operator: str, left: Value, right: Value, *, nullable: bool) -> Value:
    """``& | ^`` over integers."""
    for value in (left, right):
        if family(value.type) is not Family.INTEGER:
            raise messages.incompatible_types(
                left.type.name, right.type.name, types_of.operation_name(operator)
            )
    target = left.type
    if types_of.precedence(right.type) > types_of.precedence(left.type):
        target = right.type
    if operator == "^":
        return Value(f"t_xor({left.sql}, {right.sql})", target, nullable)
    return Value(f"({left.sql} {operator} {right.sql})", target, nullable)


def _moments(operator: str, left: Value, right: Value, *, nullable: bool) -> Value:
    """Datetime and smalldatetime plus or minus days."""
    for value, other in ((left, right), (right, left)):
        if value.type.name in {"date", "time", "datetime2", "datetimeoffset"}:
            if family(other.type) in {Family.INTEGER, Family.DECIMAL, Family.FLOAT}:
                raise messages.operand_clash(value.type.name, other.type.name)
            raise messages.invalid_operator_type(value.type.name, types_of.operation_name(operator))
    if operator not in {"+", "-"}:
        raise messages.invalid_operator_type("datetime", types_of.operation_name(operator))
    target = DATETIME
    if "datetime" not in {left.type.name, right.type.name}:
        target = SMALLDATETIME
    left, right = converted(left, DATETIME), converted(right, DATETIME)
    text = f"({left.sql} {operator} {right.sql} {'-' if operator == '+' else '+'} {_EPOCH})"
    return converted(Value(f"t_datetime({text})", DATETIME, nullable), target)


def negated(operand: Value) -> Value:
    """``-x``."""
    if operand.is_null:
        return operand
    kind = family(operand.type)
    known = operand.constant.value if operand.constant else None
    if operand.type.name == "bit":
        raise messages.invalid_operator_type("bit", "minus")
    if kind is Family.INTEGER:
        if isinstance(known, int) and -known <= INTEGER_RANGES[operand.type.name][1]:
            return constant(-known, operand.type, literal=operand.literal)
        if operand.type.name == "tinyint":
            return Value(f"t_smallint(-{operand.sql})", SqlType("smallint"), operand.nullable)
        return Value(f"t_{operand.type.name}(-{operand.sql})", operand.type, operand.nullable)
    if kind is Family.DECIMAL:
        if isinstance(known, int | bytes):
            scaled = -unpack_decimal(known)
            return constant(pack_decimal(scaled, operand.type), operand.type)
        if operand.type.is_wide_decimal:
            return Value(f"t_decimal_negate({operand.sql})", operand.type, operand.nullable)
        return Value(f"(-{operand.sql})", operand.type, operand.nullable)
    if kind is Family.FLOAT:
        if isinstance(known, float):
            return constant(-known, operand.type)
        return Value(f"(-{operand.sql})", operand.type, operand.nullable)
    raise messages.invalid_operator_type(operand.type.name, "minus")


def complemented(operand: Value) -> Value:
    """``~x``."""
    if family(operand.type) is not Family.INTEGER:
        raise messages.invalid_operator_type(operand.type.name, "'~'")
    if operand.type.name == "bit":
        return Value(f"(1 - {operand.sql})", operand.type, operand.nullable)
    if operand.type.name == "tinyint":
        return Value(f"(255 - {operand.sql})", operand.type, operand.nullable)
    return Value(f"(~{operand.sql})", operand.type, operand.nullable)


__all__ = ["Constant", "arithmetic", "complemented", "negated"]
