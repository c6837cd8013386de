"""A Spark session that reads a lake: for notebooks and programs that have none of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tailrace_sink.options.config import SinkConfig


def lake_session(
    settings: Mapping[str, str] | None = None, *, s3: Mapping[str, Any] | None = None
) -> SparkSession:
    """Start Spark with the locked jars, which are downloaded once, or return the running session.

    Args:
        settings: of Spark, e.g. ``{"spark.driver.memory": "4g"}``; they override ours.
        s3: options of a lake in S3, as in ``sink.s3``; ``{}`` for AWS with the credentials that its
            libraries find. Without ``s3`` the session has no jars of S3.

    Raises:
        LocalStackError: the jars are not available, or there is no Java 17.
        ConfigError: ``s3`` has a wrong option, or the file of a secret cannot be read.
    """
    from tailrace_compose.local.jars import spark_jars
    from tailrace_sink.options.s3_options import HADOOP_SCHEME, S3Options
    from tailrace_sink.spark.session import session_with

    store = None if s3 is None else S3Options.load(s3)
    jars = spark_jars("" if store is None else HADOOP_SCHEME)
    return session_with(settings or {}, jars, store)


def configured_session(
    config: SinkConfig, settings: Mapping[str, str] | None = None
) -> SparkSession:
    """Start Spark with the store and the catalog of a configured lake, or return the running one.

    Args:
        settings: of Spark; they override those of the section ``sink.spark``.

    Raises:
        LocalStackError: the jars are not available, or there is no Java 17.
        ConfigError: the file of a secret cannot be read.
    """
    from tailrace_compose.local.jars import spark_jars
    from tailrace_sink.iceberg.session import set_catalog
    from tailrace_sink.spark.session import session_with

    overrides = config.spark | config.catalog.spark_settings() | dict(settings or {})
    spark = session_with(overrides, spark_jars(config.lake, config.format), config.store)
    if config.iceberg is not None:
        set_catalog(spark, config.iceberg)
    return spark
