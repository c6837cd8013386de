"""A streaming DataFrame of changes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from tailrace.lake.change_rows import OWN
from tailrace.spark.options import CLOSED_ROWS
from tailrace.spark.rows import CLOSED, TABLE
from tailrace.spark.source import FORMAT, ChangeSource
from tailrace_sink.tables.lake_table import COMMIT_TIME, OPERATION, literal, quote

_IS_CHANGE = f"NOT ({OPERATION} = '{CLOSED}' AND spark_partition_id() >= 0)"
"""Spark moves no filter below a nondeterministic one. So the rows of closed LSNs reach the
watermark. With ``rand() >= 0`` Spark would see that it is always true."""


def register(spark: SparkSession) -> None:
    """Make the format ``tailrace`` known to a session, for ``spark.read`` and ``readStream``."""
    spark.dataSource.register(ChangeSource)


def changes_stream(
    spark: SparkSession,
    lake: str,
    tables: str | Sequence[str],
    *,
    after: str | datetime | None = None,
    s3: Mapping[str, Any] | None = None,
    late: str = "10 seconds",
) -> DataFrame:
    """Return a stream of every change of some tables, from the lake's log.

    Each micro-batch is the changes between two closed LSNs: whole transactions of all tables. A
    query with a checkpoint continues where it stopped, and repeats the same micro-batch after a
    failure.

    Args:
        spark: no jars are needed.
        lake: the lake's address, as in the sink's configuration.
        tables: ``"dbo.orders"``, in any case; or with the database first.
        after: id of a cut, LSN or commit time (UTC without a zone) after which a new query starts;
            ``latest``: the newest cut; None: the start of the log. A checkpoint takes precedence.
        s3: options of a lake in S3, as in ``sink.s3``; the driver and the executors use them.
        late: how far the watermark is from the commit time of the closed LSN, as Spark writes
            intervals. The source's clock may step back so far.

    Returns:
        The columns of ``tailrace_sink.changes``. Of several tables: ``table`` with the name, and
        for each table a struct of that name, in its own rows, with ``before`` and ``after``
        (``of_table`` selects one). The columns are those of the newest schema versions when the
        DataFrame is loaded. The watermark is on ``_cdc_commit_time``; it also moves if only other
        tables of the lake change.

    Raises:
        ConfigError: an option is wrong.
        ChangesUnknown: the lake has no log, or no such table.
    """
    register(spark)
    names = [tables] if isinstance(tables, str) else list(tables)
    options = {"path": lake, "tables": json.dumps(names), CLOSED_ROWS: "true"}
    if after is not None:
        options["after"] = after if isinstance(after, str) else after.isoformat()
    given = {name: value for name, value in (s3 or {}).items() if value is not None}
    options |= {f"s3.{name}": _text(value) for name, value in given.items()}
    try:
        stream = spark.readStream.format(FORMAT).options(**options).load()
    except AnalysisException:
        ChangeSource(options).schema()  # Spark's error has this one's stack trace as its text.
        raise
    return stream.withWatermark(COMMIT_TIME, late).where(_IS_CHANGE)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def of_table(changes: DataFrame, table: str) -> DataFrame:
    """Select one table of a stream of several, with the columns of a stream of it alone.

    Args:
        table: its name in the column ``table``, e.g. ``dbo.orders``.

    Raises:
        LookupError: the stream has no such table.
    """
    if TABLE not in changes.columns:
        raise LookupError("the stream is of one table. Fix: use it without of_table")
    if table not in changes.columns:
        there = ", ".join(name for name in changes.columns if name not in (TABLE, *OWN))
        raise LookupError(f"the stream has no table {table}. Fix: name one of {there}")
    own = [quote(name) for name in OWN]
    return changes.where(f"{TABLE} = {literal(table)}").selectExpr(f"{quote(table)}.*", *own)
