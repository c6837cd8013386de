"""A cut read with Spark and without: the same columns, types and rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import tailrace_sink
from tailrace import lake as without_spark
from tailrace_schemas.topics.topic_names import TableName
from tailrace_sink.errors import ChangesUnknown
from tailrace_sink.reading.cut import Cut


def assert_same_cut(
    cut: Cut, table: TableName | str, store: Mapping[str, Any] | None = None, **companion: bool
) -> pa.Table:
    """Read a table of a cut with both readers and compare.

    Args:
        store: options of ``sink.s3``.
    """
    other = without_spark.open(cut.lake, **(store or {})).as_of(lsn=cut.id)
    assert (other.closed_lsn, other.tables) == (cut.closed_lsn, cut.tables)
    found = other.read(table, **companion)
    assert_same(cut.read(table, **companion), found)
    return found


def changes(spark: SparkSession, lake: str, table: TableName | str, **points: Any) -> DataFrame:
    """The changes by Spark, and the same changes or error without it."""
    without = without_spark.open(lake)
    try:
        found = tailrace_sink.changes(spark, lake, table, **points)
    except ChangesUnknown:
        with pytest.raises(ChangesUnknown):
            without.changes(table, **points)
        raise
    assert_same(found, without.changes(table, **points))
    return found


def assert_same(by_spark: DataFrame, found: pa.Table) -> None:
    """Compare names, types and rows in any order."""
    expected = by_spark.toArrow()
    assert found.column_names == expected.column_names
    types = {
        of.name: (_plain(of.type), _plain(found.schema.field(of.name).type))
        for of in expected.schema
    }
    assert {name: pair for name, pair in types.items() if pair[0] != pair[1]} == {}
    assert _rows(found) == _rows(expected)


def _plain(type_: pa.DataType) -> pa.DataType:
    """Instants are in the session's zone with Spark, and in UTC without; the same moments."""
    if pa.types.is_timestamp(type_) and type_.tz is not None:
        return pa.timestamp(type_.unit, "UTC")
    if pa.types.is_list(type_):
        return pa.list_(pa.field("element", type_.value_type))
    return type_


def _rows(table: pa.Table) -> Counter[str]:
    plain = table.cast(pa.schema([of.with_type(_plain(of.type)) for of in table.schema]))
    rows: list[dict[str, Any]] = plain.to_pylist()
    return Counter(repr(list(row.values())) for row in rows)
