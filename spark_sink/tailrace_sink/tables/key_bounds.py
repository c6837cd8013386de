"""Least and greatest keys of a batch, by which Delta skips files without any of them.

Delta compares literals of a column's own type with each file's statistics. So only types with such
literals are bounded. No NULL lies between bounds, so a column with a NULL is not bounded.

In statements bounds are rounded outwards: numbers to about a fiftieth of the greatest, times to a
month. Spark has the numbers of a statement in the code that it generates. Exact ones would compile
all of it again for every batch (ADR 0033).
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
"""Significant bits of a rounded bound."""
_FIRST: Final = dt.datetime(1, 1, 1)  # noqa: DTZ001 - a time without zone
_LAST: Final = dt.datetime.max  # noqa: DTZ901 - as above
_TRUNCATED: Final = dt.timedelta(milliseconds=1)
_TEXT_MAX: Final = 200
"""Characters of a text literal in a statement; longer texts are not bounded."""


def bounded_columns(table: LakeTable) -> list[LakeColumn]:
    """The key columns whose values can be bounded."""
    return [column for column in table.columns if column.key_ordinal and column.type in _BOUNDED]


@dataclass(frozen=True, slots=True)
class KeyBound:
    """The least and the greatest value of a key column in a batch, or values outside of them."""

    column: LakeColumn
    least: Any
    greatest: Any

    @property
    def conditions(self) -> list[str]:
        """Conditions on the target ``t``; empty if a bound has no literal."""
        first, last = (sql_literal(v, self.column.type) for v in (self.least, self.greatest))
        if first is None or last is None:
            return []
        name = f"t.{quote(self.column.name)}"
        return [f"{name} >= {first}", f"{name} <= {last}"]

    def meets(self, lowest: Any, highest: Any) -> bool:
        """Whether a file may have a key between the bounds.

        Args:
            lowest: the file's ``minValues`` of the column, as a JSON value.
            highest: its ``maxValues``. A text that was cut is rounded up, a time is rounded down to
                a millisecond (Delta's protocol, per-file statistics).
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
            return True  # The statistics were written for another type of the column.

    def _comparable(self, value: Any) -> Any:
        return _of_json(value, self.column.type)


def _of_json(value: Any, type_: str) -> Any:
    """Convert a value of a column, or the JSON value of a statistic, to one that compares."""
    if isinstance(value, str) and type_ == "DATE":
        return dt.date.fromisoformat(value)
    if isinstance(value, str) and type_ == "TIMESTAMP_NTZ":
        return dt.datetime.fromisoformat(value)
    # Python orders texts by code points. Spark orders them by UTF-8 bytes, which is the same.
    return value


def bounds_of_statistics(
    column: LakeColumn, extremes: Iterable[tuple[Any, Any]]
) -> KeyBound | None:
    """Compute the bound of one of :func:`bounded_columns`, not rounded.

    Args:
        extremes: ``minValues`` and ``maxValues`` of each file, as JSON values.

    Returns:
        None if a file has no statistics.
    """
    try:
        values = [tuple(_of_json(value, column.type) for value in both) for both in extremes]
        least, greatest = min(low for low, _ in values), max(high for _, high in values)
    except (TypeError, ValueError):
        return None
    if isinstance(greatest, dt.datetime):
        greatest += min(_TRUNCATED, _LAST - greatest)
    return KeyBound(column, least, greatest)


def conditions_of(bounds: Iterable[KeyBound]) -> list[str]:
    """All conditions on the target ``t``."""
    return [condition for bound in bounds for condition in bound.conditions]


def bounds_in(rows: pa.Table, table: LakeTable) -> list[KeyBound]:
    """Compute the bounds of the keys of rows in memory."""
    found = {bound.column.name: (bound.least, bound.greatest) for bound in exact_in(rows, table)}
    return _rounded(bounded_columns(table), found)


def exact_in(rows: pa.Table, table: LakeTable) -> list[KeyBound]:
    """Compute the bounds of the keys of rows in memory, not rounded."""
    bounds = []
    for column in bounded_columns(table):
        values = rows[column.name]
        if rows.num_rows and not values.null_count:
            extremes = pc.min_max(values).as_py()
            bounds.append(KeyBound(column, extremes["min"], extremes["max"]))
    return bounds


def bounds_by_spark(rows: DataFrame, table: LakeTable) -> tuple[int, list[KeyBound]]:
    """Count the rows of a DataFrame and compute the bounds of their keys, in one pass."""
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
    return total, _rounded(columns, found)


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
    """Round bounds outwards, so that they seldom change from one batch to the next."""
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
    """Format a literal of exactly a type; None if there is none."""
    if value is None:
        return None
    if type_ in _SUFFIXES:
        return f"{value}{_SUFFIXES[type_]}"
    if type_ == "STRING":
        return literal(value) if len(value) <= _TEXT_MAX else None
    if type_ == "DATE" and isinstance(value, dt.date):
        return f"DATE'{value.isoformat()}'"
    if type_ == "TIMESTAMP_NTZ" and isinstance(value, dt.datetime):
        return f"TIMESTAMP_NTZ'{value.isoformat(sep=' ')}'"
    return None
