"""The WHERE clause of a filtered index: a conjunction of simple comparisons.

SQL Server takes nothing else there either. The terms are kept as data, so that a row in memory and
a row in SQLite are judged by the same rule.

https://learn.microsoft.com/sql/relational-databases/indexes/create-filtered-indexes
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tailrace_emulator.storage.collation import collation_key, ordering_of
from tailrace_emulator.storage.model import FilterTerm, Table
from tailrace_emulator.values.types import StorageValue

_COMPARE: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def filter_condition(terms: Sequence[FilterTerm], prefix: str = "") -> str:
    """SQLite text of a filter over a table's columns; empty when there is none."""
    return " AND ".join(f"({_term_text(term, prefix)})" for term in terms)


def _term_text(term: FilterTerm, prefix: str) -> str:
    column = f"{prefix}c{term.column_id}"
    if term.operator in {"IS NULL", "IS NOT NULL"}:
        return f"{column} {term.operator}"
    values = [_literal(value) for value in term.values]
    if term.operator == "IN":
        return f"{column} IN ({', '.join(values)})"
    return f"{column} {term.operator} {values[0]}"


def _literal(value: StorageValue) -> str:
    """A constant; text by its bytes, so that no character of it can end the literal."""
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    if isinstance(value, str):
        return f"CAST(x'{value.encode().hex()}' AS TEXT)"
    return repr(value)


@dataclass(frozen=True, slots=True)
class RowFilter:
    """A filter with what judging a row in memory needs."""

    terms: tuple[tuple[int, str, tuple[Any, ...], str], ...]
    """Position, operator, values (as collation keys for text) and collation, or nothing."""

    def covers(self, row: Sequence[StorageValue]) -> bool:
        """Whether the index has the row; a comparison with NULL is not true."""
        for position, sign, values, collation in self.terms:
            value: Any = row[position]
            if sign in {"IS NULL", "IS NOT NULL"}:
                if (value is None) != (sign == "IS NULL"):
                    return False
                continue
            if value is None:
                return False
            if collation:
                value = collation_key(value, collation)
            if sign == "IN":
                if value not in values:
                    return False
            elif not _COMPARE[sign](value, values[0]):
                return False
        return True


def row_filter(table: Table, terms: Sequence[FilterTerm]) -> RowFilter:
    """The filter of an index, ready for rows of its table."""
    at = {column.column_id: position for position, column in enumerate(table.columns)}
    prepared = []
    for term in terms:
        sql_type = table.columns[at[term.column_id]].type
        collation = (ordering_of(sql_type) or "") if sql_type.is_character else ""
        values = tuple(
            collation_key(value, collation) if isinstance(value, str) else value
            for value in term.values
        )
        prepared.append((at[term.column_id], term.operator, values, collation))
    return RowFilter(tuple(prepared))
