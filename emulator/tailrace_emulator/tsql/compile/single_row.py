"""Queries that cannot yield two rows: a scalar subquery of theirs needs no check (512)."""

from __future__ import annotations

from tailrace_emulator.tsql.syntax.nodes import Literal, Query, Select


def at_most_one_row(query: Query) -> bool:
    """Whether a query cannot yield two rows: an aggregate without GROUP BY, or no FROM."""
    from tailrace_emulator.tsql.functions.aggregates import contains_aggregate

    body = query.body
    if query.for_clause is not None:
        return True
    if not isinstance(body, Select) or body.group_by:
        return False
    if body.source is None:
        return True
    if body.top is not None and isinstance(body.top.count, Literal):
        return body.top.count.value == 1 and not body.top.ties
    return any(contains_aggregate(item.expression) for item in body.items)
