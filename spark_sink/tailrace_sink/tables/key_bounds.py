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
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from tailrace_sink.tables.lake_table import LakeColumn, LakeTable, literal, quote

_SUFFIXES: Final[Mapping[str, str]] = {"SMALLINT": "S", "INT": "", "BIGINT": "L"}
_BOUNDED: Final = frozenset({*_SUFFIXES, "DATE", "TIMESTAMP_NTZ", "STRING"})
_BITS: Final = 7
"""Of the greatest number: how finely bounds are drawn."""
_FIRST: Final = dt.datetime(1, 1, 1)  # noqa: DTZ001 - a time without zone
_TRUNCATED: Final = dt.timedelta(milliseconds=1)
_TEXT_MAX: Final = 200
"""Characters of a text up to which it stands in a statement."""


def bounded_columns(table: LakeTable) -> list[LakeColumn]:
    """The key columns whose values can be bounded."""
    return [column for column in table.columns if column.key_ordinal and column.type in _BOUNDED]


@dataclass(frozen=True, slots=True)
class KeyBound:
    """Between which values a key column of every change is.

    Attributes:
        column: the column.
        least: the least value, or one below it.
        greatest: the greatest value, or one above it.
    """

    column: LakeColumn
    least: Any
    greatest: Any

    @property
    def conditions(self) -> list[str]:
        """Conditions on the target ``t``; none where a bound has no literal."""
        first, last = (sql_literal(v, self.column.type) for v in (self.least, self.greatest))
        if first is None or last is None:
            return []
        name = f"t.{quote(self.column.name)}"
        return [f"{name} >= {first}", f"{name} <= {last}"]

    def meets(self, lowest: Any, highest: Any) -> bool:
        """Whether a file may have a key between the bounds.

        Args:
            lowest: the file's ``minValues`` of the column, as Delta's statistics have it in JSON.
            highest: its ``maxValues``; one that was cut off is rounded up, times by a millisecond
                down (Delta's protocol, per-file statistics).
        """
        if lowest is None or highest is None:
            return True
        try:
            least, greatest = map(self._comparable, (self.least, self.greatest))
            low, high = map(self._comparable, (lowest, highest))
            if isinstance(high, dt.datetime):
                least = least - min(_TRUNCATED, least - _FIRST)
            return bool(low <= greatest and high >= least)
        except (TypeError, ValueError):
            return True  # statistics of another kind than the column has now

    def _comparable(self, value: Any) -> Any:
        if isinstance(value, str) and self.column.type == "DATE":
            return dt.date.fromisoformat(value)
        if isinstance(value, str) and self.column.type == "TIMESTAMP_NTZ":
            return dt.datetime.fromisoformat(value)
        # As Spark compares them: the order of code points is that of UTF-8.
        return value


def conditions_of(bounds: Iterable[KeyBound]) -> list[str]:
    """All conditions on the target ``t``."""
    return [condition for bound in bounds for condition in bound.conditions]


def bounds_in(rows: pa.Table, table: LakeTable) -> list[KeyBound]:
    """The bounds of the keys of some rows in memory."""
    found = {}
    for column in bounded_columns(table):
        values = rows[column.name]
        if rows.num_rows and not values.null_count:
            extremes = pc.min_max(values).as_py()
            found[column.name] = (extremes["min"], extremes["max"])
    return _rounded(bounded_columns(table), found)


def bounds_by_spark(rows: DataFrame, table: LakeTable) -> tuple[int, list[KeyBound]]:
    """The same for rows in a DataFrame, and how many they are: one pass."""
    total, found = _extremes(rows, table)
    return total, _rounded(bounded_columns(table), found)


def extremes_by_spark(rows: DataFrame, table: LakeTable) -> list[KeyBound]:
    """The bounds of the keys of some rows, not rounded: for statistics, not for statements."""
    _, found = _extremes(rows, table)
    columns = (column for column in bounded_columns(table) if column.name in found)
    return [KeyBound(column, *found[column.name]) for column in columns]


def _extremes(rows: DataFrame, table: LakeTable) -> tuple[int, dict[str, tuple[Any, Any]]]:
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
    return total, found


def _rounded(
    columns: Iterable[LakeColumn], extremes: Mapping[str, tuple[Any, Any]]
) -> list[KeyBound]:
    bounds = (
        KeyBound(column, *rounded(*extremes[column.name]))
        for column in columns
        if column.name in extremes
    )
    return [bound for bound in bounds if bound.conditions]


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
