"""Where NEXT VALUE FOR may stand.

https://learn.microsoft.com/sql/t-sql/functions/next-value-for-transact-sql
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tailrace_emulator import messages
from tailrace_emulator.messages.errors import SqlError
from tailrace_emulator.tsql.functions.aggregates import AGGREGATE_NAMES
from tailrace_emulator.tsql.syntax.nodes import (
    Call,
    Case,
    NextValue,
    Query,
    Select,
)
from tailrace_emulator.tsql.syntax.walk import walk

_CONDITIONAL: Final = frozenset({"CHOOSE", "COALESCE", "IIF", "ISNULL", "NULLIF"})


def not_in_subqueries(line: int) -> SqlError:
    """11719."""
    return messages.error(11719, line=line)


def refuse_next_values(query: Query) -> None:
    """Of a query that uses NEXT VALUE FOR: it must be in the query's select list.

    Raises:
        SqlError: 11719 in a query inside, 11720 in another clause, 11725 in an aggregate, 11741 in
            CASE and its like; 11721 with DISTINCT or a set operation, 11723 with ORDER BY and
            without OVER. The error is 11739 with TOP or OFFSET.
    """
    for node in next_values((query.common_tables,)):
        raise not_in_subqueries(node.line)
    select = query.body
    if not isinstance(select, Select) or select.distinct:
        for node in next_values(query.body):
            raise messages.error(11721, line=node.line)
        return
    for node in next_values(select.source):
        raise not_in_subqueries(node.line)
    for node in next_values(
        (select.where, select.group_by, select.having, query.order_by, select.top)
    ):
        raise messages.error(11720, line=node.line)
    for node in next_values(select.items):
        if query.order_by and node.over is None:
            raise messages.error(11723, line=node.line)
        if select.top is not None or query.offset is not None:
            raise messages.error(11739, line=node.line)
    _refuse_inside(select.items)


def _refuse_inside(items: object) -> None:
    """11725 and 11741."""
    for node in walk(items):
        names = {node.name[-1].upper()} if isinstance(node, Call) else set()
        if isinstance(node, Case) or names & _CONDITIONAL:
            for found in next_values(node):
                raise messages.error(11741, line=found.line)
        if names & AGGREGATE_NAMES:
            for found in next_values(node):
                raise messages.error(11725, line=found.line)


def next_values(tree: object) -> Iterator[NextValue]:
    """Every NEXT VALUE FOR in a tree."""
    return (node for node in walk(tree) if isinstance(node, NextValue))
