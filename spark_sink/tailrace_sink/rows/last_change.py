"""The last change of each key. Pure.

The maximum of a struct that starts with the position is the last change. It is faster than a window
and than ``max_by`` (measured). Positions are unique within a table, so no later field is compared.

A large column that a change lacks (``unavailable``) gets its last available value in the batch. If
there is none, the MERGE keeps the lake's value.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from tailrace_sink.rows.decode import UNAVAILABLE
from tailrace_sink.tables.lake_table import CDC_COLUMNS, OPERATION, POSITION, LakeTable, quote

_LAST = "_cdc_last"


def available_flag(index: int) -> str:
    """Name of the flag whether the n-th large column has a value in this batch."""
    return f"_cdc_available_{index}"


def large_columns(table: LakeTable) -> list[str]:
    """Names of the columns that a change table may not hold, in the table's order."""
    return [column.name for column in table.columns if column.is_large and not column.key_ordinal]


def latest_changes(changes: DataFrame, table: LakeTable, large: Sequence[str]) -> DataFrame:
    """Reduce changes to the last one of each key.

    Args:
        changes: as returned by :func:`tailrace_sink.rows.decode.change_rows`.
        large: names of the large columns.

    Returns:
        The table's columns, the ``_cdc_*`` columns, and one flag for each large column.
    """
    key = [F.col(quote(name)) for name in table.key]
    rest = [name for name in [c.name for c in table.columns] if name not in set(table.key)]
    payload = [POSITION, *(name for name in CDC_COLUMNS if name != POSITION)]
    payload += [name for name in rest if name not in set(large)]
    aggregates = [F.max(F.struct(*map(_column, payload))).alias(_LAST)]
    aggregates += [
        F.max(F.when(_is_available(name), F.struct(POSITION, _column(name)))).alias(
            available_flag(index)
        )
        for index, name in enumerate(large)
    ]
    reduced = changes.groupBy(*key).agg(*aggregates)
    large_index = {name: index for index, name in enumerate(large)}
    selected = []
    for column in table.columns:
        if column.name in set(table.key):
            selected.append(_column(column.name))
        elif column.name in large_index:
            flag = available_flag(large_index[column.name])
            selected.append(F.col(flag).getField(column.name).alias(column.name))
        else:
            selected.append(F.col(_LAST).getField(column.name).alias(column.name))
    selected += [F.col(_LAST).getField(name).alias(name) for name in CDC_COLUMNS]
    selected += [
        F.col(available_flag(index)).isNotNull().alias(available_flag(index))
        for index in range(len(large))
    ]
    return reduced.select(*selected)


def _is_available(name: str) -> Column:
    return ~F.array_contains(UNAVAILABLE, name) & (F.col(OPERATION) != "d")


def _column(name: str) -> Column:
    return F.col(quote(name))
