"""Result types: what SQL Server says an expression is.

A client trusts these to the digit: a wrong precision is a wrong column at the client. So they
follow "Data type precedence", "Precision, scale, and length" and the pages of the functions.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache, reduce
from typing import Final

from tailrace_emulator import messages
from tailrace_emulator.tsql.conversions.families import INTEGER_DIGITS, Family, family, is_national
from tailrace_emulator.values.types import (
    DEFAULT_COLLATION,
    FLOAT,
    INT,
    MAX,
    MONEY,
    SqlType,
    nvarchar,
    varbinary,
    varchar,
)

_PRECEDENCE: Final = {
    name: rank
    for rank, name in enumerate(
        (
            "binary", "varbinary", "char", "varchar", "nchar", "nvarchar", "uniqueidentifier",
            "timestamp", "image", "text", "ntext", "bit", "tinyint", "smallint", "int", "bigint",
            "smallmoney", "money", "numeric", "decimal", "real", "float", "time", "date",
            "smalldatetime", "datetime", "datetime2", "datetimeoffset", "xml", "sql_variant",
            "hierarchyid", "geometry", "geography",
        )
    )
}  # fmt: skip
"""Lowest first; the operand of lower precedence is converted to the type of the other."""

_MAX_PRECISION: Final = 38
_MIN_KEPT_SCALE: Final = 6


def precedence(sql_type: SqlType) -> int:
    """Rank of a type; the higher one wins."""
    return _PRECEDENCE[sql_type.name]


def as_decimal(sql_type: SqlType) -> SqlType:
    """The decimal that a number counts as when it meets a decimal."""
    if family(sql_type) is Family.INTEGER:
        return SqlType("numeric", precision=INTEGER_DIGITS[sql_type.name])
    if sql_type.name in {"money", "smallmoney"}:
        return SqlType("numeric", precision=sql_type.precision, scale=sql_type.scale)
    return sql_type


def _numeric(precision: int, scale: int, *operands: SqlType) -> SqlType:
    """Decimal when an operand is declared so, else numeric."""
    name = "decimal" if any(t.name == "decimal" for t in operands) else "numeric"
    return SqlType(name, precision=precision, scale=scale)


@lru_cache(maxsize=4096)
def decimal_result(operator: str, left: SqlType, right: SqlType) -> SqlType:
    """Type of an arithmetic operator over two exact decimals."""
    p1, s1, p2, s2 = left.precision, left.scale, right.precision, right.scale
    whole = max(p1 - s1, p2 - s2)
    if operator in {"+", "-"}:
        scale = max(s1, s2)
        precision = scale + whole + 1
        if precision > _MAX_PRECISION:
            scale = max(0, min(scale, _MAX_PRECISION - whole))
            precision = _MAX_PRECISION
    elif operator == "%":
        scale = max(s1, s2)
        precision = min(p1 - s1, p2 - s2) + scale
    else:
        if operator == "*":
            precision, scale = p1 + p2 + 1, s1 + s2
        else:
            scale = max(_MIN_KEPT_SCALE, s1 + p2 + 1)
            precision = p1 - s1 + s2 + scale
        if precision > _MAX_PRECISION:
            integral = precision - scale
            if integral < _MAX_PRECISION - _MIN_KEPT_SCALE:
                scale = min(scale, _MAX_PRECISION - integral)
            elif scale > _MIN_KEPT_SCALE:
                scale = _MIN_KEPT_SCALE
            precision = _MAX_PRECISION
    return _numeric(min(precision, _MAX_PRECISION), scale, left, right)


def decimal_union(left: SqlType, right: SqlType) -> SqlType:
    """The decimal that holds values of both (CASE, UNION, comparisons)."""
    scale = max(left.scale, right.scale)
    whole = max(left.precision - left.scale, right.precision - right.scale)
    if whole + scale > _MAX_PRECISION:
        scale = max(0, _MAX_PRECISION - whole)
    return _numeric(min(whole + scale, _MAX_PRECISION), scale, left, right)


@lru_cache(maxsize=4096)
def common_type(left: SqlType, right: SqlType) -> SqlType:
    """The type in which two values are compared or united.

    Raises:
        SqlError: 206 when neither converts to the other.
    """
    if left == right:
        return left
    high, low = (left, right) if precedence(left) >= precedence(right) else (right, left)
    high_family, low_family = family(high), family(low)
    if high_family is Family.DECIMAL:
        if high.name in {"money", "smallmoney"}:
            return high
        if low_family in {Family.INTEGER, Family.DECIMAL}:
            return decimal_union(as_decimal(high), as_decimal(low))
        return high
    if high_family is Family.TEXT:
        return _common_text(high, low)
    if high_family is Family.BINARY and low_family is Family.BINARY and high.name != "image":
        name = "binary" if high.name == low.name == "binary" else "varbinary"
        return SqlType(name, length=_longer(binary_length(high), binary_length(low)))
    if high_family in {Family.TIME, Family.MOMENT, Family.OFFSET} and low_family in {
        Family.TIME, Family.MOMENT, Family.OFFSET,
    }:  # fmt: skip
        if high.name in {"datetime2", "datetimeoffset", "time"}:
            return SqlType(high.name, scale=max(high.scale, low.scale))
        return high
    return high


def _common_text(high: SqlType, low: SqlType) -> SqlType:
    """Text of both."""
    if family(low) is not Family.TEXT:
        if family(low) is Family.BINARY:
            low = SqlType("varchar", length=low.length)
        else:
            return high
    if high.name in {"xml", "ntext", "text"}:
        return high
    length = _longer(high.length, low.length)
    fixed = high.name == low.name and high.name in {"char", "nchar"}
    national = is_national(high) or is_national(low)
    name = ("nchar" if national else "char") if fixed else ("nvarchar" if national else "varchar")
    if national and length > 4000:
        length = 4000
    return SqlType(name, length=length, collation=high.collation or low.collation)


def _longer(left: int, right: int) -> int:
    """The longer of two lengths."""
    return MAX if MAX in {left, right} else max(left, right)


def binary_length(sql_type: SqlType) -> int:
    """Length of a binary type; rowversion has 8 bytes."""
    if sql_type.name == "timestamp":
        return 8
    return MAX if sql_type.name == "image" else sql_type.length


def unite(types: Iterable[SqlType]) -> SqlType:
    """The common type of several values; int when there are none (all of them NULL)."""
    collected = list(types)
    return reduce(common_type, collected) if collected else INT


def arithmetic_type(operator: str, left: SqlType, right: SqlType) -> SqlType:
    """Type of a binary operator over numbers; text operands are read as the other's type.

    Raises:
        SqlError: 402, 8117 or 206 when the operator does not take these types.
    """
    left_family, right_family = family(left), family(right)
    if left_family is Family.TEXT and right_family is not Family.TEXT:
        left, left_family = right, right_family
    elif right_family is Family.TEXT and left_family is not Family.TEXT:
        right, right_family = left, left_family
    numbers = {Family.INTEGER, Family.DECIMAL, Family.FLOAT}
    for operand, kind in ((left, left_family), (right, right_family)):
        if kind not in numbers:
            raise messages.invalid_operator_type(operand.name, _OPERATIONS[operator])
    if Family.FLOAT in {left_family, right_family}:
        if operator == "%":
            raise messages.incompatible_types(left.name, right.name, "modulo")
        return FLOAT if "float" in {left.name, right.name} else _real_result(left, right)
    if Family.DECIMAL in {left_family, right_family}:
        return _decimal_or_money(operator, left, right)
    if left.name == right.name == "bit":
        raise messages.incompatible_types("bit", "bit", _OPERATIONS[operator])
    return left if precedence(left) >= precedence(right) else right


_OPERATIONS: Final = {
    "+": "add",
    "-": "subtract",
    "*": "multiply",
    "/": "divide",
    "%": "modulo",
    "&": "'&'",
    "|": "'|'",
    "^": "'^'",
}


def operation_name(operator: str) -> str:
    """The word that error texts use for an operator."""
    return _OPERATIONS[operator]


def _real_result(left: SqlType, right: SqlType) -> SqlType:
    """Real with an integer or real stays real; with a decimal it is float's precision of real."""
    return left if left.name == "real" else right


def _decimal_or_money(operator: str, left: SqlType, right: SqlType) -> SqlType:
    """Money keeps itself unless a decimal is there."""
    names = {left.name, right.name}
    if not names & {"decimal", "numeric"}:
        return MONEY if "money" in names else left if left.name == "smallmoney" else right
    return decimal_result(operator, as_decimal(left), as_decimal(right))


def concatenation_type(left: SqlType, right: SqlType) -> SqlType:
    """Type of text + text."""
    national = is_national(left) or is_national(right)
    length = MAX
    if MAX not in {left.length, right.length}:
        length = min(left.length + right.length, 4000 if national else 8000)
    fixed = {left.name, right.name} <= {"char", "nchar"}
    if fixed and length != MAX:
        name = "nchar" if national else "char"
        return SqlType(name, length=length, collation=left.collation or DEFAULT_COLLATION)
    result = nvarchar(length) if national else varchar(length)
    return SqlType(
        result.name, length=length, collation=left.collation or right.collation or result.collation
    )


def binary_concatenation_type(left: SqlType, right: SqlType) -> SqlType:
    """Type of binary + binary."""
    lengths = (binary_length(left), binary_length(right))
    return varbinary(MAX if MAX in lengths else min(sum(lengths), 8000))


def sum_type(argument: SqlType) -> SqlType:
    """Type of SUM.

    Raises:
        SqlError: 8117 when it is not a number.
    """
    kind = family(argument)
    if kind is Family.INTEGER and argument.name != "bit":
        return argument if argument.name in {"int", "bigint"} else INT
    if argument.name in {"money", "smallmoney"}:
        return MONEY
    if kind is Family.DECIMAL:
        return SqlType(argument.name, precision=_MAX_PRECISION, scale=argument.scale)
    if kind is Family.FLOAT:
        return FLOAT
    raise messages.error(8117, argument.name, "sum")


def average_type(argument: SqlType) -> SqlType:
    """Type of AVG.

    Raises:
        SqlError: 8117 when it is not a number.
    """
    kind = family(argument)
    if kind is Family.DECIMAL and argument.name not in {"money", "smallmoney"}:
        scale = max(argument.scale, _MIN_KEPT_SCALE)
        return SqlType(argument.name, precision=_MAX_PRECISION, scale=scale)
    if argument.name == "bit" or kind not in {Family.INTEGER, Family.DECIMAL, Family.FLOAT}:
        raise messages.error(8117, argument.name, "avg")
    return sum_type(argument)
