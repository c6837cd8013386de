"""Statistics of a Parquet file, from its footer, in the form of Delta's log.

Source: Delta's protocol, "Per-file statistics". Texts are cut to 32 characters; a greatest one that
was cut is rounded up. Times are cut to milliseconds.
"""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

_TEXT_MAX: Final = 32
_LAST: Final = "\U0010ffff"
"""The greatest character."""


def statistics_json(footer: pq.FileMetaData, schema: pa.Schema, indexed: int) -> str:
    """Format the statistics of a file.

    Args:
        schema: with the names of the footer.
        indexed: number of columns, from the first on, that get them.
    """
    by_name: dict[str, list[Any]] = {name: [] for name in schema.names[:indexed]}
    for group in range(footer.num_row_groups):
        columns = footer.row_group(group)
        for place in range(columns.num_columns):
            column = columns.column(place)
            if column.path_in_schema in by_name:
                by_name[column.path_in_schema].append(column.statistics)
    least, greatest, nulls = [], [], []
    for name, groups in by_name.items():
        if not groups or any(found is None or not found.has_null_count for found in groups):
            continue
        count = sum(found.null_count for found in groups)
        nulls.append((name, str(count)))
        format_ = _format_of(schema.field(name).type)
        bounds = None if format_ is None else _bounds(groups, footer.num_rows > count)
        if format_ is not None and bounds is not None:
            low, high = format_(bounds[0], False), format_(bounds[1], True)
            if low is not None and high is not None:
                least.append((name, low))
                greatest.append((name, high))
    return _object(
        [
            ("numRecords", str(footer.num_rows)),
            ("minValues", _object(least)),
            ("maxValues", _object(greatest)),
            ("nullCount", _object(nulls)),
            ("tightBounds", "true"),
        ]
    )


def _bounds(groups: list[Any], has_values: bool) -> tuple[Any, Any] | None:
    """Return the least and the greatest value; None if a group does not say."""
    valued = [found for found in groups if found.num_values]
    if not has_values or any(not found.has_min_max for found in valued):
        return None
    try:
        return min(found.min for found in valued), max(found.max for found in valued)
    except (OverflowError, ValueError):
        return None  # A date outside of Python's years.


Format = Callable[[Any, bool], str | None]


def _format_of(type_: pa.DataType) -> Format | None:
    """Return how a bound of a type is written; None if there are none.

    deltalake's filters on a column without bounds find no row. SQL Server has no NaN, which a
    footer's bounds would ignore. See: float and real (Transact-SQL)
    """
    if pa.types.is_boolean(type_):
        return lambda value, _: json.dumps(value)
    if pa.types.is_floating(type_):
        return _number
    if pa.types.is_integer(type_):
        return lambda value, _: str(value)
    if pa.types.is_decimal(type_):
        return lambda value, _: format(value, "f") if isinstance(value, Decimal) else None
    if pa.types.is_string(type_):
        return _text
    if pa.types.is_date(type_):
        return lambda value, _: json.dumps(value.isoformat())
    if pa.types.is_timestamp(type_):
        return _time
    return None


def _number(value: float, is_greatest: bool) -> str | None:
    """Zeros of both signs are equal, so a bound that is one holds for the other."""
    if not math.isfinite(value):
        return None
    return json.dumps(value or (0.0 if is_greatest else -0.0))


def _text(value: str, is_greatest: bool) -> str:
    cut = value[:_TEXT_MAX]
    if is_greatest and len(value) > _TEXT_MAX:
        # No character is greater than the last one, so such a text is written whole.
        cut = value if cut.endswith(_LAST) else cut + _LAST
    # A pair of escapes for one character is read as a smaller one by Arrow's JSON reader in Rust.
    return json.dumps(cut, ensure_ascii=False)


def _time(value: dt.datetime, _: bool) -> str:
    text = value.replace(tzinfo=None).isoformat(timespec="milliseconds")
    return json.dumps(text if value.tzinfo is None else f"{text}Z")


def _object(fragments: Iterable[tuple[str, str]]) -> str:
    return "{" + ",".join(f"{json.dumps(name)}:{text}" for name, text in fragments) + "}"
