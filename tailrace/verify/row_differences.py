"""How one row differs, by the canonical texts of its columns. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from tailrace.verify.table_shape import Key, TableShape

HIDDEN: Final = "(hidden)"
"""In the place of values that the options mask, cut or hash: the lake may hold older ones."""


class Kind(StrEnum):
    """How a row differs."""

    MISSING = "missing"
    SURPLUS = "surplus"
    VALUE = "value"


@dataclass(frozen=True, slots=True)
class RowDifference:
    """A row that differs.

    Attributes:
        key: canonical texts of its key columns by name; of a keyless table, the row's hash.
        columns: of a changed value by column: the texts of source and lake.
        rows: how many more rows one of the sides has; 1 unless the table is keyless.
    """

    kind: Kind
    key: Mapping[str, str | None]
    columns: Mapping[str, tuple[str | None, str | None]] = field(default_factory=dict)
    rows: int = 1


def row_difference(
    shape: TableShape,
    key: Key,
    source: Sequence[str | None] | None,
    lake: Sequence[Sequence[str | None]],
) -> RowDifference | None:
    """Return how a row differs; None if both sides have the same row, or none.

    Args:
        source: the texts of its columns; None if the source has no such row.
        lake: those of each row with the key.
    """
    named = {column.name: text for column, text in zip(shape.key, key, strict=True)}
    if source is None:
        return RowDifference(Kind.SURPLUS, named, rows=len(lake)) if lake else None
    if not lake:
        return RowDifference(Kind.MISSING, named)
    if len(lake) > 1:
        return RowDifference(Kind.SURPLUS, named, rows=len(lake) - 1)
    columns: dict[str, tuple[str | None, str | None]] = {}
    for column, ours, theirs in zip(shape.columns, source, lake[0], strict=True):
        if ours != theirs:
            columns[column.name] = (HIDDEN, HIDDEN) if column.is_hidden else (ours, theirs)
    return RowDifference(Kind.VALUE, named, columns) if columns else None
