"""A Spark session that reads a lake: for notebooks and programs that have none of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def lake_session(settings: Mapping[str, str] | None = None) -> SparkSession:
    """Start Spark with the locked jars, which are downloaded once, or return the running session.

    Args:
        settings: of Spark, e.g. ``{"spark.hadoop.fs.s3a.endpoint": "..."}``; they override ours.

    Raises:
        LocalStackError: the jars are not available, or there is no Java 17.
    """
    from tailrace_compose.local.jars import spark_jars
    from tailrace_sink.spark.session import session_with

    return session_with(settings or {}, spark_jars())
