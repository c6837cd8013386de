"""Damage to a lake that no commit shows: for what only a comparison of rows can find."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from tailrace_sink.iceberg.stamp import Stamp
from tailrace_sink.plan.scopes import sink_scope

_TRANSACTION = "spark.databricks.delta.write"
_SUMMARY = "spark.sql.iceberg.snapshot-property"


def run_as_the_sink(spark: SparkSession, prefix: str, statement: str) -> None:
    """Run a statement on a Delta table, whose commit looks like the sink's own."""
    scope = f"{sink_scope(prefix)}-{uuid.uuid4().hex}"
    with _settings(spark, {f"{_TRANSACTION}.txnAppId": scope, f"{_TRANSACTION}.txnVersion": "0"}):
        spark.sql(statement)


def run_as_an_iceberg_sink(spark: SparkSession, table: str, statement: str) -> None:
    """Run a statement on an Iceberg table, whose snapshot looks like the sink's own."""
    newest = spark.sql(f"SELECT summary FROM {table}.snapshots ORDER BY committed_at DESC LIMIT 1")
    stamp = Stamp.of(newest.collect()[0]["summary"])
    assert stamp is not None
    own = Stamp(stamp.log, stamp.epoch).summary
    with _settings(spark, {f"{_SUMMARY}.{name}": text for name, text in own.items()}):
        spark.sql(statement)


@contextmanager
def _settings(spark: SparkSession, settings: dict[str, str]) -> Iterator[None]:
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in settings:
            spark.conf.unset(name)
