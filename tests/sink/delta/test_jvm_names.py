"""Names of the JVM that are looked up once, and Java's collections."""

from __future__ import annotations

import pytest
from py4j import java_gateway
from py4j.java_gateway import JavaClass
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from tailrace_sink.spark.jvm_names import _NAMES, items_of, keep_names


@pytest.mark.spark
def test_each_name_is_a_class_and_found_once(spark: SparkSession, monkeypatch: pytest.MonkeyPatch):
    keep_names(spark)
    view = spark._jvm
    for name in _NAMES:
        assert isinstance(getattr(view, name), JavaClass), name  # a wrong one would be a package
    asked: list[str] = []
    of_package = java_gateway.JavaPackage.__getattr__
    of_view = java_gateway.JVMView.__getattr__

    def ask_package(package, name):
        asked.append(name)
        return of_package(package, name)

    def ask_view(found, name):
        asked.append(name)
        return of_view(found, name)

    monkeypatch.setattr(java_gateway.JavaPackage, "__getattr__", ask_package)
    monkeypatch.setattr(java_gateway.JVMView, "__getattr__", ask_view)
    frame = spark.range(2).select(F.col("id"), F.lit(1)).where("id > 0")
    assert frame.collect()[0]["id"] == 1
    assert asked == []


@pytest.mark.spark
def test_a_collection_s_items_come_without_an_error_at_the_end(spark: SparkSession):
    collection = spark._jvm.java.util.ArrayList()
    assert items_of(collection) == []
    for item in (1, 2):
        collection.add(item)
    assert items_of(collection) == [1, 2]
