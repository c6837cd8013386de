"""Changes that the executors' Python wrote into files (``columns.task_files``), as rows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession

from tailrace_sink.columns.change_columns import AVAILABLE
from tailrace_sink.rows.last_change import available_flag, large_columns
from tailrace_sink.tables.lake_table import LakeTable, quote


def changes_in_files(
    spark: SparkSession,
    table: LakeTable,
    physical: Mapping[str, str],
    files: Sequence[str],
    rest: Sequence[str],
) -> DataFrame:
    """Read changes from Parquet files.

    Args:
        physical: by column its name in Parquet.
        files: addresses of those with rows, which have all their values if they are reduced.
        rest: addresses of those with other reduced changes.

    Returns:
        The columns of :func:`tailrace_sink.rows.last_change.latest_changes`.
    """
    types = table.types
    schema = ", ".join(f"{quote(physical[name])} {type_}" for name, type_ in types.items())
    columns = [f"{quote(physical[name])} AS {quote(name)}" for name in types]
    places = range(len(large_columns(table)))
    flags = "".join(f", {AVAILABLE.format(place)} BINARY" for place in places)
    names = [available_flag(place) for place in places]
    rows = _read(spark, schema, files).selectExpr(*columns, *(f"true AS {name}" for name in names))
    if not rest:
        return rows
    values = [f"{AVAILABLE.format(p)} IS NOT NULL AS {name}" for p, name in enumerate(names)]
    others = _read(spark, schema + flags, rest).selectExpr(*columns, *values)
    return rows.unionByName(others) if files else others


def _read(spark: SparkSession, schema: str, files: Sequence[str]) -> DataFrame:
    if not files:
        return spark.createDataFrame([], schema)
    # Spark reads an address as a pattern.
    return spark.read.schema(schema).parquet(*(re.sub(r"([][{}*?\\])", r"\\\1", f) for f in files))
