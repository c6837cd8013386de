"""Keys as a condition, to find rows of a small table without a join.

A join with a few hundred rows takes one job to send them to the executors and one to compare. A
list of literals is a filter. The driver compares the rows that pass it, as it has the changes in
memory. Only types whose values Spark and Python compare alike are listed.
"""

from __future__ import annotations

from array import array
from math import prod
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from tailrace_sink.tables.key_bounds import sql_literal
from tailrace_sink.tables.lake_table import POSITION, LakeTable, quote

FILE: Final = "_cdc_file"
ROW: Final = "_cdc_row"
_LISTED: Final = frozenset({"SMALLINT", "INT", "BIGINT", "STRING", "DATE"})
_KEYS_MAX: Final = 1_000
_COMBINATIONS_MAX: Final = 10_000
"""Combinations of the values of a key's columns; each may match a row without any of the keys."""


def listed_condition(rows: pa.Table, table: LakeTable) -> str | None:
    """Build a condition that is true for every row with a key of some changes.

    Returns:
        For a key of one column it is false for all other rows and never NULL. None if there are too
        many keys, or keys without literals.
    """
    if not 0 < rows.num_rows <= _KEYS_MAX:
        return None
    conditions, counts = [], []
    types = {column.name: column.type for column in table.columns}
    for name in table.key:
        values = pc.unique(rows[name].combine_chunks()).to_pylist()
        listed = [sql_literal(value, types[name]) for value in values if value is not None]
        if types[name] not in _LISTED or None in listed:
            return None
        parts = [f"{quote(name)} IN ({', '.join(map(str, listed))})"] if listed else []
        if len(listed) < len(values):
            parts.append(f"{quote(name)} IS NULL")
        conditions.append(f"coalesce({' OR '.join(parts)}, false)")
        counts.append(len(values))
    if len(counts) > 1 and prod(counts) > _COMBINATIONS_MAX:
        return None
    return " AND ".join(conditions)


def matches(
    found: pa.Table, rows: pa.Table, table: LakeTable
) -> tuple[dict[str, array[int]], bool]:
    """Find the rows of a table that have a key of some changes.

    Args:
        found: key, position, file (``FILE``) and row index (``ROW``, may be NULL) of rows of the
            table. Rows without such a key may be among them.
        rows: the last change of each key.

    Returns:
        File to the indexes of rows in it, and whether any row is as new as its change.
    """
    keys = zip(*(rows[name].to_pylist() for name in table.key), strict=True)
    changed = dict(zip(keys, rows[POSITION].to_pylist(), strict=True))
    matched: dict[str, array[int]] = {}
    has_newer = False
    columns = [found[name].to_pylist() for name in (POSITION, FILE, ROW, *table.key)]
    for position, file, row, *key in zip(*columns, strict=True):
        change = changed.get(tuple(key))
        if change is not None:
            matched.setdefault(file, array("q")).append(row or 0)
            has_newer = has_newer or (position is not None and change <= position)
    return matched, has_newer
