"""Hadoop's settings keep their values, and where they came from is no longer sent."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from tailrace_sink.spark.hadoop_settings import forget_sources

pytestmark = pytest.mark.spark


def sent_bytes(jvm: Any, settings: Any) -> int:
    """Size of a copy of the settings for tasks."""
    out = jvm.java.io.ByteArrayOutputStream()
    settings.write(jvm.java.io.DataOutputStream(out))
    return int(out.size())


def test_copies_for_jobs_have_the_values_alone(spark: SparkSession):
    """Also after Hadoop has read its settings again, and after a job."""
    settings: Any = spark.sparkContext._jsc.hadoopConfiguration()
    settings.set("tailrace.of.a.test", "kept")
    settings.reloadConfiguration()
    before = {entry.getKey(): entry.getValue() for entry in settings.iterator()}
    with_sources = sent_bytes(spark._jvm, settings)
    forget_sources(spark)
    without = sent_bytes(spark._jvm, settings)
    try:
        assert {entry.getKey(): entry.getValue() for entry in settings.iterator()} == before
        assert settings.get("tailrace.of.a.test") == "kept"
        assert without < 0.7 * with_sources
        assert spark.range(3).selectExpr("sum(id)").collect()[0][0] == 3
        assert sent_bytes(spark._jvm, settings) == without
    finally:
        settings.unset("tailrace.of.a.test")
