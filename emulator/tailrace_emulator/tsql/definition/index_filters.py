"""The WHERE clause of CREATE INDEX, checked and brought into the form that storage keeps.

https://learn.microsoft.com/sql/t-sql/statements/create-index-transact-sql
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tailrace_emulator import messages
from tailrace_emulator.messages.errors import SqlError, not_supported
from tailrace_emulator.storage.model import Column, FilterTerm
from tailrace_emulator.tsql.compile.arithmetic import negated
from tailrace_emulator.tsql.compile.values import Value, constant, converted
from tailrace_emulator.tsql.syntax.definition_statements import CreateIndex
from tailrace_emulator.tsql.syntax.nodes import (
    ColumnName,
    Comparison,
    Expression,
    InList,
    IsNull,
    Literal,
    Logical,
    Unary,
)
from tailrace_emulator.values.types import varchar

_MIRRORED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def index_filter(
    node: CreateIndex, columns: Sequence[Column]
) -> tuple[str, tuple[FilterTerm, ...]]:
    """The definition as sys.indexes shows it, and its terms; both empty without a filter.

    Raises:
        SqlError: 10735 when it is more than a conjunction of simple comparisons. An unknown column
            gives 1911, a computed one 10609, a clustered index 10620.
    """
    where = node.where
    if where is None:
        return "", ()
    if node.clustered:
        raise messages.error(10620)
    operands = (
        where.operands if isinstance(where, Logical) and where.operator == "AND" else (where,)
    )
    texts, terms = [], []
    for operand in operands:
        text, term = _term(node, operand, columns)
        texts.append(text)
        terms.append(term)
    return f"({' AND '.join(texts)})", tuple(terms)


def _term(
    node: CreateIndex, operand: Expression | None, columns: Sequence[Column]
) -> tuple[str, FilterTerm]:
    """One comparison."""
    if isinstance(operand, IsNull) and isinstance(operand.operand, ColumnName):
        column = _column(node, operand.operand, columns)
        sign = "IS NOT NULL" if operand.negated else "IS NULL"
        return f"[{column.name}] {sign}", FilterTerm(column.column_id, sign)
    if isinstance(operand, Comparison):
        sign, left, right = operand.operator, operand.left, operand.right
        if not isinstance(left, ColumnName):
            sign, left, right = _MIRRORED.get(sign, sign), right, left
        if isinstance(left, ColumnName):
            column = _column(node, left, columns)
            shown, value = _constant(node, right, column)
            return f"[{column.name}]{sign}{shown}", FilterTerm(column.column_id, sign, (value,))
    if (
        isinstance(operand, InList)
        and not operand.negated
        and isinstance(operand.operand, ColumnName)
    ):
        column = _column(node, operand.operand, columns)
        pairs = [_constant(node, item, column) for item in operand.items]
        shown = ", ".join(text for text, _ in pairs)
        values = tuple(value for _, value in pairs)
        return f"[{column.name}] IN ({shown})", FilterTerm(column.column_id, "IN", values)
    raise _refused(node)


def _refused(node: CreateIndex) -> SqlError:
    """10735."""
    return messages.error(10735, node.name, messages.dotted(node.table), line=node.line)


def _column(node: CreateIndex, name: ColumnName, columns: Sequence[Column]) -> Column:
    """The column of a comparison."""
    folded = name.parts[-1].casefold()
    found = next((c for c in columns if c.name.casefold() == folded), None)
    if found is None:
        raise messages.error(1911, name.parts[-1])
    if found.computed is not None:
        raise messages.error(10609, node.name, messages.dotted(node.table), found.name)
    return found


def _constant(
    node: CreateIndex, expression: Expression, column: Column
) -> tuple[str, int | float | str]:
    """A constant as the catalog shows it, and its value in the column's type."""
    sign = ""
    if isinstance(expression, Unary) and expression.operator == "-":
        sign, expression = "-", expression.operand
    if not isinstance(expression, Literal) or expression.value is None:
        raise _refused(node)
    literal: Value = constant(expression.value, expression.type, literal=True)
    if sign:
        literal = negated(literal)
    value = converted(literal, column.type, explicit=True)
    if value.constant is None or not isinstance(value.constant.value, int | float | str):
        raise not_supported(f"a filtered index on a constant of type {column.type.name}")
    if isinstance(expression.value, str):
        quoted = expression.value.replace("'", "''")
        national = "N" if expression.type.name.startswith("n") else ""
        return f"{national}'{quoted}'", value.constant.value
    shown = converted(literal, varchar(100), explicit=True).constant
    text = shown.value if shown is not None and isinstance(shown.value, str) else ""
    return f"({text})", value.constant.value
