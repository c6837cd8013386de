"""Keyset conditions: ``x > a OR (x = a AND (y > b OR ..))`` as one comparison of row values.

SQL Server has no row values. So every client that pages through a table by a composite key sends
this shape (nested, or as a flat OR of ANDs). SQLite seeks an index for ``(x, y) > (a, b)``, and
scans for the other. With question marks, the a of ``x > ?`` and of ``x = ?`` are two parameters.
The row comparison is right only while they are equal, which each execution checks (``Plan.twins``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from tailrace_emulator.tsql.syntax.nodes import ColumnName, Comparison, Expression, Logical

_SLOT: Final = re.compile(r"\?(\d+)")
_STRICT: Final = {">": ">", ">=": ">", "<": "<", "<=": "<"}


@dataclass(frozen=True, slots=True)
class Keyset:
    """A recognised condition.

    Attributes:
        operator: of the row comparison.
        columns: in the order of the key.
        others: for each column, the expressions that it is compared with, in order of appearance.
    """

    operator: str
    columns: tuple[ColumnName, ...]
    others: tuple[tuple[Expression, ...], ...]


def keyset(node: Expression) -> Keyset | None:
    """The keyset that a condition says, or None."""
    disjuncts = _disjuncts(node)
    if disjuncts is None or len(disjuncts) < 2:
        return None
    disjuncts.sort(key=len)
    if [len(d) for d in disjuncts] != list(range(1, len(disjuncts) + 1)):
        return None
    longest = disjuncts[-1]
    columns = [comparison.left for comparison in longest]
    names = [_name(column) for column in columns]
    others: list[list[Expression]] = [[] for _ in columns]
    direction = _STRICT.get(disjuncts[0][-1].operator, "")
    for disjunct in disjuncts:
        for position, comparison in enumerate(disjunct):
            if _name(comparison.left) != names[position] or not names[position]:
                return None
            last = position == len(disjunct) - 1
            if not last and comparison.operator != "=":
                return None
            if last and not _last_fits(comparison.operator, direction, disjunct is longest):
                return None
            others[position].append(comparison.right)
    return Keyset(
        longest[-1].operator,
        tuple(column for column in columns if isinstance(column, ColumnName)),
        tuple(tuple(o) for o in others),
    )


def _last_fits(operator: str, direction: str, is_longest: bool) -> bool:
    """Whether the last comparison of a disjunct continues the chain; only the longest may be >=."""
    return operator == direction or (is_longest and _STRICT.get(operator) == direction)


def _name(node: Expression) -> str:
    """A column's name for comparing, or empty."""
    return ".".join(node.parts).casefold() if isinstance(node, ColumnName) else ""


def _disjuncts(node: Expression) -> list[list[Comparison]] | None:
    """A condition as a disjunction of conjunctions of comparisons, or None."""
    if isinstance(node, Comparison):
        return [[node]]
    if not isinstance(node, Logical):
        return None
    parts = [_disjuncts(operand) for operand in node.operands]
    if node.operator == "OR":
        joined: list[list[Comparison]] = []
        for part in parts:
            if part is None:
                return None
            joined += part
        return joined
    combined: list[list[Comparison]] = [[]]
    for part in parts:
        if part is None or len(part) * len(combined) > 64:
            return None
        combined = [left + right for left in combined for right in part]
    return combined


def twin_slots(texts: list[str]) -> list[tuple[int, int]] | None:
    """Pairs of parameters (0-based) that make the texts equal, or None when nothing does."""
    shapes = {_SLOT.sub("?", text) for text in texts}
    if len(shapes) != 1:
        return None
    numbers = [[int(n) - 1 for n in _SLOT.findall(text)] for text in texts]
    pairs = []
    for other in numbers[1:]:
        pairs += [(a, b) for a, b in zip(numbers[0], other, strict=True) if a != b]
    return pairs


def lower_bound(first: str, second: str) -> str:
    """A value that is not above either of two, when NULL counts as absent."""
    return f"min(coalesce({first}, {second}), coalesce({second}, {first}))"


def upper_bound(first: str, second: str) -> str:
    """A value that is not below either of two, when NULL counts as absent."""
    return f"max(coalesce({first}, {second}), coalesce({second}, {first}))"
