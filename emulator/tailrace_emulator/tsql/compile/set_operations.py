"""Parts of compiling UNION, INTERSECT and EXCEPT."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tailrace_emulator.tsql.compile import types_of
from tailrace_emulator.tsql.compile.values import Value
from tailrace_emulator.tsql.functions.masking import DEFAULT
from tailrace_emulator.tsql.syntax.nodes import ColumnName, OrderItem, Query, SetOperation

_COMPOUND_MAX: Final = 200


def unqualified(item: OrderItem, columns: list[Value]) -> OrderItem:
    """``t.c`` in ORDER BY of a set operation means the output column c."""
    node = item.expression
    if not isinstance(node, ColumnName) or len(node.parts) == 1:
        return item
    folded = node.parts[-1].casefold()
    if all(column.name.casefold() != folded for column in columns):
        return item
    return replace(item, expression=ColumnName(node.parts[-1:], node.line))


def chain(node: SetOperation) -> list[Query]:
    """The queries of a set operation: two, or all of a chain of UNION ALL, first to last."""
    parts = [node.right]
    left = node.left
    while node.operator == "UNION ALL":
        body = left.body
        plain = not (left.order_by or left.common_tables or left.offset)
        if not plain or not isinstance(body, SetOperation) or body.operator != "UNION ALL":
            break
        parts.append(body.right)
        left = body.left
    parts.append(left)
    return parts[::-1]


def united_column(position: int, values: list[Value]) -> Value:
    """A column of a set operation, named by the first query, in the type of all."""
    untyped = all(value.is_null for value in values)
    return replace(
        values[0],
        sql=f"v{position}",
        type=types_of.unite(value.type for value in values if not value.is_null),
        nullable=any(value.nullable for value in values),
        constant=values[0].constant if untyped else None,
        identity=False,
        stored=False,
        mask=_united_mask(values),
    )


def _united_mask(values: list[Value]) -> str:
    """The mask of a column of a set operation: that of all queries, or default()."""
    masks = {value.mask for value in values}
    return masks.pop() if len(masks) == 1 else DEFAULT


def joined(texts: list[str], operator: str, width: int) -> str:
    """The queries joined; SQLite takes at most 500 at once, so long chains are nested."""
    names = ", ".join(f"v{n}" for n in range(width))
    while len(texts) > _COMPOUND_MAX:
        texts = [
            f"SELECT {names} FROM ({f' {operator} '.join(texts[n : n + _COMPOUND_MAX])})"
            for n in range(0, len(texts), _COMPOUND_MAX)
        ]
    return f" {operator} ".join(texts)


def united_rows(rows: list[list[str]], *, correlated: bool) -> str:
    """Rows of texts as a query; SQLite's VALUES cannot name columns of the query around it."""
    width = len(rows[0])
    if correlated:
        named = (", ".join(f"{text} AS v{n}" for n, text in enumerate(row)) for row in rows)
        return joined([f"SELECT {texts}" for texts in named], "UNION ALL", width)
    names = ", ".join(f"column{n + 1} AS v{n}" for n in range(width))
    values = ", ".join(f"({', '.join(row)})" for row in rows)
    return f"SELECT {names} FROM (VALUES {values})"
