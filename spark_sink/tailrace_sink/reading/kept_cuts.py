"""The oldest cut that a lake has: retention removed those before it."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tailrace_sink.log.oldest_cut import OldestCutFile
from tailrace_sink.options.retention import retention_path
from tailrace_sink.plan.oldest_cut import OldestCut
from tailrace_sink.reading.cut_errors import CutForgotten


def require_kept(spark: SparkSession, lake: str, batch: int) -> None:
    """Raise :class:`CutForgotten` for a cut that is older than the oldest kept one."""
    oldest = oldest_cut(spark, lake)
    if batch < oldest.batch:
        raise CutForgotten(lake, f" of batch {batch}", oldest)


def oldest_cut(spark: SparkSession, lake: str) -> OldestCut:
    """Read the oldest kept cut of a lake."""
    commits = f"{lake}/_tailrace/commits"
    return OldestCutFile(spark, retention_path(lake), commits).read()
