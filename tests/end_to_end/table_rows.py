"""Rows of a source table against those of a lake table, as values."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

EXAMPLES_MAX: Final = 5

Row = tuple[Any, ...]


@dataclass(slots=True)
class TableComparison:
    """Source rows against lake rows of one table; examples are at most five each."""

    table: str
    source_rows: int
    lake_rows: int
    missing: list[Row] = field(default_factory=list)
    unexpected: list[Row] = field(default_factory=list)
    differing: list[tuple[Row, Row]] = field(default_factory=list)
    differences: int = 0

    @property
    def equal(self) -> bool:
        """Whether every row equals its counterpart."""
        return self.differences == 0


def compare_rows(
    table: str, source: Iterable[Row], lake: Iterable[Row], key_columns: int
) -> TableComparison:
    """Compare two sets of rows whose first ``key_columns`` values are the key.

    Values compare by their exact value; a uniqueidentifier is its lower-case text in the lake.
    """
    left = {row[:key_columns]: row for row in map(_normalised, source)}
    lake_list = [_normalised(row) for row in lake]
    right = {row[:key_columns]: row for row in lake_list}
    result = TableComparison(table, len(left), len(lake_list))
    result.differences += len(lake_list) - len(right)  # a key twice in the lake
    for key, row in left.items():
        other = right.pop(key, None)
        if other is None:
            _note(result, result.missing, row)
        elif other != row:
            _note(result, result.differing, (row, other))
    for row in right.values():
        _note(result, result.unexpected, row)
    return result


def _note(result: TableComparison, examples: list[Any], example: Any) -> None:
    result.differences += 1
    if len(examples) < EXAMPLES_MAX:
        examples.append(example)


def _normalised(row: Iterable[Any]) -> Row:
    return tuple(_value(value) for value in row)


def _value(value: Any) -> Any:
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    return value
