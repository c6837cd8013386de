"""Keys of files by Delta's per-file statistics."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

from pyspark.sql.types import StructType

from tailrace_sink.tables.key_bounds import KeyBound, bounded_columns, bounds_of_statistics
from tailrace_sink.tables.lake_table import LakeTable

_PHYSICAL_NAME: Final = "delta.columnMapping.physicalName"


def files_meeting(
    files: Iterable[Any], bounds: Sequence[KeyBound], columns: StructType
) -> list[Any]:
    """Select the files that may have a key between some bounds; without bounds, all files."""
    if not bounds:
        return list(files)
    physical = _physical_names(columns)
    meeting = []
    for file in files:
        lowest, highest, _ = _statistics(file)
        names = ((bound, physical[bound.column.name]) for bound in bounds)
        if all(bound.meets(lowest.get(name), highest.get(name)) for bound, name in names):
            meeting.append(file)
    return meeting


def bounds_of(files: Iterable[Any], table: LakeTable, columns: StructType) -> list[KeyBound]:
    """Compute the bounds of the keys in some files.

    A column has no bound if a key is NULL or a file lacks statistics of it.
    """
    physical = _physical_names(columns)
    statistics = [_statistics(file) for file in files]
    bounds = []
    for column in bounded_columns(table):
        name = physical[column.name]
        if any(nulls.get(name) != 0 for _, _, nulls in statistics):
            continue
        extremes = [(lowest.get(name), highest.get(name)) for lowest, highest, _ in statistics]
        bound = bounds_of_statistics(column, extremes)
        bounds += [] if bound is None else [bound]
    return bounds


def _physical_names(columns: StructType) -> dict[str, str]:
    return {field.name: field.metadata.get(_PHYSICAL_NAME, field.name) for field in columns}


def _statistics(file: Any) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Read least values, greatest values and NULL counts by physical column name."""
    statistics = json.loads(file.stats() or "{}")
    least, greatest, nulls = (
        statistics.get(name, {}) for name in ("minValues", "maxValues", "nullCount")
    )
    return least, greatest, nulls
