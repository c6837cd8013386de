"""Comparisons: both sides brought to one type, so that SQLite's order is SQL Server's.

Text compares under its collation (trailing blanks do not count). Binary values of different length
compare as if padded with zeros.
"""

from __future__ import annotations

from typing import Final

from tailrace_emulator import messages
from tailrace_emulator.storage.collation import sqlite_collation
from tailrace_emulator.tsql.compile import types_of
from tailrace_emulator.tsql.compile.values import Value, constant, converted
from tailrace_emulator.tsql.conversions.families import Family, family, is_national
from tailrace_emulator.tsql.syntax.nodes import (
    Case,
    Comparison,
    Expression,
    InList,
    Literal,
    Variable,
)
from tailrace_emulator.values.types import DEFAULT_COLLATION, INCOMPARABLE_TYPES, MAX

EQUALITY: Final = frozenset({"=", "<>", "!="})
"""The comparisons that ANSI_NULLS concerns."""
_EQUALITIES: Final = EQUALITY | {"IS", "IS NOT"}


def compared(operator: str, left: Value, right: Value) -> str:
    """``left operator right`` as a condition."""
    left_text, right_text = comparable(left, right, equality=operator in _EQUALITIES)
    return f"({left_text} {operator} {right_text})"


def is_bare(node: Expression) -> bool:
    """Whether ANSI_NULLS concerns a comparison with an operand: a variable, or NULL as written."""
    return isinstance(node, Variable) or (isinstance(node, Literal) and node.value is None)


def compares_to_null(node: object) -> bool:
    """Whether ``= NULL`` or its like occurs in an expression."""
    if isinstance(node, tuple):
        return any(compares_to_null(item) for item in node)
    if not isinstance(node, Expression):
        return False
    parts = [getattr(node, slot) for slot in getattr(node, "__slots__", ())]
    if isinstance(node, Comparison | InList | Case) and any(
        isinstance(part, Literal) and part.value is None
        for group in parts
        for part in (group if isinstance(group, tuple) else (group,))
    ):
        return not isinstance(node, Case) or node.operand is not None
    return any(compares_to_null(part) for part in parts)


def compared_to_null(
    operator: str, left: Value, right: Value, left_bare: bool, right_bare: bool
) -> str:
    """``left = right`` or ``left <> right`` under ANSI_NULLS OFF.

    Args:
        operator: one of those in ``EQUALITY``.
        left_bare: whether the left side is a variable or NULL as written. Only such a side, and
            only if it is NULL, is compared otherwise than under ANSI_NULLS ON.
        right_bare: the same of the right side.
    """
    texts = comparable(left, right, equality=True)
    negation = "" if operator == "=" else "NOT "
    if left_bare and right_bare:
        return f"({texts[0]} IS {negation}{texts[1]})"
    if not (left_bare or right_bare):
        return f"({texts[0]} {operator} {texts[1]})"
    bare, other = (left, right) if left_bare else (right, left)
    is_null = f"{other.sql} IS {negation}NULL"
    if bare.is_null:
        return f"({is_null})"
    usual = f"{texts[0]} {operator} {texts[1]}"
    return f"(CASE WHEN {bare.sql} IS NULL THEN {is_null} ELSE {usual} END)"


def comparable(left: Value, right: Value, *, equality: bool = False) -> tuple[str, str]:
    """Texts of both sides, ready for a comparison operator of SQLite.

    Args:
        equality: whether only that they are equal matters, and not which comes first.

    Raises:
        SqlError: 206 or 402 when the types do not compare; 468 for two collations.
    """
    if left.is_null or right.is_null:
        for value, other in ((left, right), (right, left)):
            if value.learn is not None and not other.is_null:
                value.learn(other.type)
        return left.sql, right.sql
    left_family, right_family = family(left.type), family(right.type)
    for value in (left, right):
        if value.type.name in {"geometry", "geography"}:
            raise messages.error(403, "equal to", value.type.name)
        if value.type.name in INCOMPARABLE_TYPES:
            raise messages.incompatible_types(left.type.name, right.type.name, "equal to")
    if left_family is Family.TEXT and right_family is Family.TEXT:
        return f"{left.sql} COLLATE {_shared_collation(left, right, equality)}", right.sql
    if left_family is Family.BINARY and right_family is Family.BINARY:
        return _binary(left, right)
    target = types_of.common_type(left.type, right.type)
    if target.is_character:  # of bytes beside text
        sides = converted(left, target), converted(right, target)
        return comparable(*sides, equality=equality)
    if target.name in {"sql_variant", "datetimeoffset"}:
        return converted(left, target).collated, converted(right, target).sql
    return converted(left, target).sql, converted(right, target).sql


def _shared_collation(left: Value, right: Value, equality: bool) -> str:
    """The collation of a comparison: an explicit or column one beats the database's.

    Text next to Unicode text is compared as that. For equality, which is the same in either order,
    it is that of the one column, in which SQLite may find an index.
    """
    first, second = (v.type.collation or DEFAULT_COLLATION for v in (left, right))
    if first != second:
        ranks = _rank(left), _rank(right)
        if ranks[0] == ranks[1] and ranks[0] != _COERCIBLE:
            raise messages.error(468, second, first, "equal to")
        first = first if ranks[0] >= ranks[1] else second
    national = is_national(left.type) or is_national(right.type)
    if equality and left.stored != right.stored:
        national = is_national(left.type if left.stored else right.type)
    return sqlite_collation(first, national=national)


_COERCIBLE: Final = 0


def _rank(value: Value) -> int:
    """Precedence of a collation: COLLATE, then a column's, then the database's.

    https://learn.microsoft.com/sql/t-sql/statements/collation-precedence-transact-sql
    """
    if value.explicit:
        return 2
    if value.stored:
        return 1
    is_variable = value.constant is not None or value.sql.startswith("?")
    if is_variable or value.type.collation in {None, DEFAULT_COLLATION}:
        return _COERCIBLE
    return 1


def _binary(left: Value, right: Value) -> tuple[str, str]:
    """Binary sides: padded to the fixed length of one of them, or both without trailing zeros."""
    for value in (left, right):
        if value.type.name in {"binary", "timestamp"}:
            length = types_of.binary_length(value.type)
            return _padded(left, length), _padded(right, length)
    return _trimmed(left), _trimmed(right)


def _padded(value: Value, length: int) -> str:
    """Text of a binary value with exactly ``length`` bytes, unless more of them count."""
    if value.type.name in {"binary", "timestamp"} and types_of.binary_length(value.type) == length:
        return value.sql
    if value.constant is not None and isinstance(value.constant.value, bytes):
        return constant(value.constant.value.rstrip(b"\0").ljust(length, b"\0"), value.type).sql
    return f"t_padded({value.sql}, {length if length != MAX else 0})"


def _trimmed(value: Value) -> str:
    """Text of a binary value without trailing zeros."""
    if value.constant is not None and isinstance(value.constant.value, bytes):
        return constant(value.constant.value.rstrip(b"\0"), value.type).sql
    return f"t_padded({value.sql}, 0)"
