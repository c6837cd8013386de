"""Where NEXT VALUE FOR may stand.

https://learn.microsoft.com/sql/t-sql/functions/next-value-for-transact-sql
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from emulator.errors import SqlError
from emulator.tsql import messages
from emulator.tsql.functions.aggregates import AGGREGATE_NAMES
from emulator.tsql.syntax.nodes import (
    Call,
    Case,
    NextValue,
    Query,
    Select,
)
from emulator.tsql.syntax.walk import walk

_CONDITIONAL: Final = frozenset({"CHOOSE", "COALESCE", "IIF", "ISNULL", "NULLIF"})

_NOT_ALLOWED: Final = (
    "NEXT VALUE FOR function is not allowed in check constraints, default objects, computed"
    " columns, views, user-defined functions, user-defined aggregates, user-defined table types,"
    " sub-queries, common table expressions, derived tables or return statements."
)


def not_in_subqueries(line: int) -> SqlError:
    """11719."""
    return messages.compile_error(11719, _NOT_ALLOWED, severity=15, line=line)


def refuse_next_values(query: Query) -> None:
    """Of a query in which NEXT VALUE FOR stands somewhere: it must stand in its select list.

    Raises:
        SqlError: 11719 in a query inside, 11720 in another clause, 11721 with DISTINCT or a set
            operation, 11723 with ORDER BY and without OVER, 11725 in an aggregate, 11739 with TOP
            or OFFSET, 11741 in CASE and its like.
    """
    for node in next_values((query.common_tables,)):
        raise not_in_subqueries(node.line)
    select = query.body
    if not isinstance(select, Select) or select.distinct:
        for node in next_values(query.body):
            raise _refused(
                11721,
                "NEXT VALUE FOR function cannot be used directly in a statement that uses a"
                " DISTINCT, UNION, UNION ALL, EXCEPT or INTERSECT operator.",
                node,
            )
        return
    for node in next_values(select.source):
        raise not_in_subqueries(node.line)
    for node in next_values(
        (select.where, select.group_by, select.having, query.order_by, select.top)
    ):
        raise _refused(
            11720,
            "NEXT VALUE FOR function is not allowed in the TOP, OVER, OUTPUT, ON, WHERE, GROUP BY,"
            " HAVING, or ORDER BY clauses.",
            node,
        )
    for node in next_values(select.items):
        if query.order_by and node.over is None:
            raise _refused(
                11723,
                "NEXT VALUE FOR function cannot be used directly in a statement that contains an"
                " ORDER BY clause unless the OVER clause is specified.",
                node,
            )
        if select.top is not None or query.offset is not None:
            raise _refused(
                11739,
                "NEXT VALUE FOR function cannot be used if ROWCOUNT option has been set, or the"
                " query contains TOP or OFFSET.",
                node,
                severity=16,
            )
    _refuse_inside(select.items)


def _refuse_inside(items: object) -> None:
    """11725 and 11741."""
    for node in walk(items):
        names = {node.name[-1].upper()} if isinstance(node, Call) else set()
        if isinstance(node, Case) or names & _CONDITIONAL:
            for found in next_values(node):
                raise _refused(
                    11741,
                    "NEXT VALUE FOR function cannot be used within CASE, CHOOSE, COALESCE, IIF,"
                    " ISNULL and NULLIF.",
                    found,
                    severity=16,
                )
        if names & AGGREGATE_NAMES:
            for found in next_values(node):
                raise _refused(
                    11725,
                    "An expression that contains a NEXT VALUE FOR function cannot be passed as an"
                    " argument to an aggregate.",
                    found,
                )


def next_values(tree: object) -> Iterator[NextValue]:
    """Every NEXT VALUE FOR in a tree."""
    return (node for node in walk(tree) if isinstance(node, NextValue))


def _refused(number: int, text: str, node: NextValue, *, severity: int = 15) -> SqlError:
    return messages.compile_error(number, text, severity=severity, line=node.line)
