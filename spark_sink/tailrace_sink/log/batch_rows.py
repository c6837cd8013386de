"""Rows of one batch in a table of the sink's own, read from as few files as possible.

For a read with a condition Delta computes a table's whole state in a job, again for each version.
That was a large part of opening a lake (ADR 0052). A version's checksum file lists the files if
they are few. Then their statistics show which to read.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession

from tailrace_sink.delta.classes import has_delta_log, log_of
from tailrace_sink.delta.file_log import current_snapshot, frame_of, listed_files
from tailrace_sink.tables.lake_table import literal


def rows_of_batch(spark: SparkSession, path: str, batch: int) -> DataFrame:
    """Read the rows with a value of the column ``batch``.

    Args:
        path: of a Delta table with statistics of that column.
    """
    return rows_with(spark, path, "batch", batch)


def rows_with(spark: SparkSession, path: str, column: str, value: int | str) -> DataFrame:
    """Read the rows with a value of a column.

    Args:
        path: of a Delta table with statistics of that column.
    """
    rows = spark.read.format("delta").load(path)
    if has_delta_log(spark):
        snapshot = current_snapshot(spark, path)
        files = listed_files(spark, path, snapshot)
        if files is not None:
            chosen = [file for file in files if _may_have(file, column, value)]
            seq = log_of(spark, path)[0].python.toSeq(chosen)
            rows = frame_of(spark, path, (snapshot, seq))
    return rows.where(f"{column} = {literal(value) if isinstance(value, str) else value}")


def newest_row(
    spark: SparkSession, path: str, condition: str, may_have: Callable[[Mapping[str, Any]], bool]
) -> Row | None:
    """Read the row with the greatest ``batch`` among those that meet a condition; None without one.

    Files are read from the newest to the oldest, until none can have a newer row.

    Args:
        path: of a Delta table with statistics of the column ``batch``.
        may_have: whether a file with such least values of its columns may have a row.
    """
    rows = spark.read.format("delta").load(path).where(condition)
    if not has_delta_log(spark):
        return rows.orderBy(rows["batch"].desc()).first()
    snapshot = current_snapshot(spark, path)
    files = listed_files(spark, path, snapshot)
    found: Row | None = None
    for file in sorted(files or snapshot.allFiles().collect(), key=_newest_batch, reverse=True):
        if found is not None and found["batch"] >= _newest_batch(file):
            break
        if not may_have(json.loads(file.stats() or "{}").get("minValues", {})):
            continue
        chosen = log_of(spark, path)[0].python.toSeq([file])
        rows = frame_of(spark, path, (snapshot, chosen)).where(condition)
        row = rows.orderBy(rows["batch"].desc()).first()
        if row is not None and (found is None or row["batch"] > found["batch"]):
            found = row
    return found


def _newest_batch(file: Any) -> float:
    highest = json.loads(file.stats() or "{}").get("maxValues", {}).get("batch")
    return math.inf if highest is None else int(highest)


def _may_have(file: Any, column: str, value: int | str) -> bool:
    statistics = json.loads(file.stats() or "{}")
    lowest, highest = (statistics.get(of, {}).get(column) for of in ("minValues", "maxValues"))
    return lowest is None or highest is None or bool(lowest <= value <= highest)
