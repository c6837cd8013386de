"""Reads lakes beside Spark: a table in 10 ms, for which Spark runs four jobs.

With deltalake's query engine, which opens what the lake's tables have but for widened columns
(docs/readers.md); those are Spark's. What Spark makes of a lake is seen in every MERGE, and in the
tests of the sink's own readers.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaError
from pyspark.sql import SparkSession

Rows = list[dict[str, Any]]


Store = dict[str, str] | None
"""What deltalake opens an object store with; nothing for a local folder."""


def read_delta(
    spark: SparkSession, path: str, version: int | None = None, store: Store = None
) -> Rows:
    """All rows of a Delta table, newest or at a version, in a fixed order.

    Raises:
        AnalysisException: there is no such table or version.
    """
    try:
        rows = query_delta(path, "SELECT * FROM t", version, store)
    except DeltaError:
        options = {} if version is None else {"versionAsOf": version}
        frame = spark.read.format("delta").options(**options).load(path)
        rows = [row.asDict() for row in frame.collect()]
    return sorted(rows, key=lambda row: str(list(row.values())))


def query_delta(path: str, query: str, version: int | None = None, store: Store = None) -> Rows:
    """What a query over a Delta table ``t`` finds.

    Raises:
        DeltaError: it cannot be opened.
    """
    table = DeltaTable(path, version=version, storage_options=store)
    found: Any = QueryBuilder().register("t", table).execute(query)
    rows = pa.table(found.read_all()).to_pylist()
    return [{name: _as_spark_has_it(value) for name, value in row.items()} for row in rows]


def _as_spark_has_it(value: Any) -> Any:
    """Spark's rows have instants without their zone, in the process' own."""
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return value.astimezone().replace(tzinfo=None)
    return value
