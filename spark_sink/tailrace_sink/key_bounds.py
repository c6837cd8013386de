"""Between which keys a MERGE's changes lie, so that Delta leaves out files without any of them.

Delta compares literals of a column's own type with each file's statistics, so only types with such
literals are bounded; the others match as before. A NULL is not between anything, so a column with
one is not bounded.

Bounds are rounded outwards, numbers to a fiftieth or so of the greatest, times to a month: numbers
of a statement are in the text of the code that Spark generates for it, and exact ones would let
every batch compile all of it anew (ADR 0033).
"""

from __future__ import annotations

import datetime as dt
from calendar import monthrange
from collections.abc import Iterable, Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from tailrace_sink.lake_table import LakeColumn, LakeTable, literal, quote

_SUFFIXES: Final[Mapping[str, str]] = {"SMALLINT": "S", "INT": "", "BIGINT": "L"}
_BOUNDED: Final = frozenset({*_SUFFIXES, "DATE", "TIMESTAMP_NTZ", "STRING"})
_BITS: Final = 7
"""Of the greatest number: how finely bounds are drawn."""
_TEXT_MAX: Final = 200
"""Characters of a text up to which it stands in a statement."""


def bounded_columns(table: LakeTable) -> list[LakeColumn]:
    """The key columns whose values can be bounded."""
    return [column for column in table.columns if column.key_ordinal and column.type in _BOUNDED]


def bounds_in(rows: pa.Table, table: LakeTable) -> list[str]:
    """Conditions on the target ``t`` that hold for every key of some rows in memory."""
    found = {}
    for column in bounded_columns(table):
        values = rows[column.name]
        if rows.num_rows and not values.null_count:
            extremes = pc.min_max(values).as_py()
            found[column.name] = (extremes["min"], extremes["max"])
    return _conditions(bounded_columns(table), found)


def bounds_by_spark(rows: DataFrame, table: LakeTable) -> tuple[int, list[str]]:
    """The same for rows in a DataFrame, and how many they are: one pass."""
    columns = bounded_columns(table)
    aggregates = [F.count(F.lit(1))]
    for column in columns:
        name = quote(column.name)
        aggregates += [F.min(name), F.max(name), F.count(name)]
    total, *values = rows.agg(*aggregates).collect()[0]
    found = {}
    for index, column in enumerate(columns):
        least, greatest, counted = values[3 * index : 3 * index + 3]
        if total and counted == total:
            found[column.name] = (least, greatest)
    return total, _conditions(columns, found)


def _conditions(
    columns: Iterable[LakeColumn], extremes: Mapping[str, tuple[Any, Any]]
) -> list[str]:
    conditions = []
    for column in columns:
        least, greatest = rounded(*extremes.get(column.name, (None, None)))
        first, last = sql_literal(least, column.type), sql_literal(greatest, column.type)
        if first is not None and last is not None:
            name = f"t.{quote(column.name)}"
            conditions += [f"{name} >= {first}", f"{name} <= {last}"]
    return conditions


def rounded(least: Any, greatest: Any) -> tuple[Any, Any]:
    """Bounds at or outside of some, which seldom are others from one batch to the next."""
    if isinstance(least, int) and isinstance(greatest, int):
        step = 1 << max(0, max(abs(least), abs(greatest)).bit_length() - _BITS)
        return least // step * step, (greatest // step + 1) * step - 1
    if isinstance(least, dt.datetime) and isinstance(greatest, dt.datetime):
        midnight, last = dt.time.min, dt.time.max
        first_day, last_day = rounded(least.date(), greatest.date())
        return dt.datetime.combine(first_day, midnight), dt.datetime.combine(last_day, last)
    if isinstance(least, dt.date) and isinstance(greatest, dt.date):
        return least.replace(day=1), greatest.replace(day=monthrange(*_month(greatest))[1])
    return least, greatest


def _month(day: dt.date) -> tuple[int, int]:
    return day.year, day.month


def sql_literal(value: Any, type_: str) -> str | None:
    """A literal of exactly a type, None where there is none."""
    if value is None:
        return None
    if type_ in _SUFFIXES:
        return f"{value}{_SUFFIXES[type_]}"
    if type_ == "STRING":
        # Spark puts settings in the place of ${...}, wherever it stands in a statement.
        return literal(value) if len(value) <= _TEXT_MAX and "$" not in value else None
    if type_ == "DATE" and isinstance(value, dt.date):
        return f"DATE'{value.isoformat()}'"
    if type_ == "TIMESTAMP_NTZ" and isinstance(value, dt.datetime):
        return f"TIMESTAMP_NTZ'{value.isoformat(sep=' ')}'"
    return None
