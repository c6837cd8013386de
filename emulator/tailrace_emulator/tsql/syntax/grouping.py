"""Grouping sets: what ROLLUP and CUBE stand for.

https://learn.microsoft.com/sql/t-sql/queries/select-group-by-transact-sql
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from tailrace_emulator.tsql.syntax.nodes import Expression

Keys = tuple[Expression, ...]
GroupingSets = tuple[Keys, ...]


def rollup(keys: Sequence[Keys]) -> GroupingSets:
    """(a, b, c), (a, b), (a), ()."""
    return tuple(_flat(keys[:n]) for n in range(len(keys), -1, -1))


def cube(keys: Sequence[Keys]) -> GroupingSets:
    """Every subset, the whole first."""
    choices = product(*((True, False) for _ in keys))
    return tuple(
        _flat([key for key, taken in zip(keys, choice, strict=True) if taken]) for choice in choices
    )


def _flat(keys: Sequence[Keys]) -> Keys:
    return tuple(expression for key in keys for expression in key)
