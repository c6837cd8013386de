"""SeaweedFS for the whole test session, and a proxy through which Spark reaches it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tailrace_compose.local.errors import ArtifactUnavailable
from tailrace_compose.local.jars import spark_jars
from tailrace_compose.local.object_store import ObjectStore
from tailrace_sink.options.s3_options import S3Options
from tailrace_sink.spark.s3_log_store import install_log_store
from tests.sink.objects.proxy import Proxy, straight

IMPATIENT = {
    "fs.s3a.attempts.maximum": "1",
    "fs.s3a.retry.interval": "20ms",
    "fs.s3a.retry.throttle.interval": "20ms",
    "fs.s3a.connection.establish.timeout": "5s",
    "fs.s3a.bucket.impatient.connection.timeout": "3s",
    # S3A's own values (core-default.xml), which the sink leaves as they are.
    "fs.s3a.bucket.patient.attempts.maximum": "5",
    "fs.s3a.bucket.patient.retry.interval": "500ms",
    "fs.s3a.bucket.patient.retry.throttle.interval": "100ms",
}
"""Pauses of S3A between attempts: a test waits for many of them."""
PATIENT_BUCKET = "s3a://patient/"
"""A bucket with the pauses that users have."""
IMPATIENT_BUCKET = "s3a://impatient/"
"""A bucket whose answers S3A does not wait for long; in others, tests hold requests."""


@dataclass(frozen=True)
class SharedStore:
    """A store, and the proxy through which Spark reaches it.

    Attributes:
        options: of the store itself, as in ``sink.s3``.
        catalog: options of its Iceberg catalog.
    """

    options: dict[str, str]
    proxy: Proxy
    catalog: dict[str, str]

    @property
    def through_proxy(self) -> dict[str, str]:
        return self.options | {"endpoint": self.proxy.url}


@pytest.fixture(scope="session")
def shared_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedStore]:
    """A store that the whole session shares."""
    store = ObjectStore(tmp_path_factory.mktemp("store"))
    try:
        with Proxy(store.start()) as proxy:
            yield SharedStore(store.options, proxy, store.catalog_options)
    finally:
        store.stop()


@pytest.fixture(scope="session")
def spark_with_store(spark: SparkSession, shared_store: SharedStore) -> SparkSession:
    """The session's Spark, which reaches the store."""
    try:
        spark_jars("s3a://")
    except ArtifactUnavailable as error:
        pytest.skip(str(error))
    options = S3Options.model_validate(shared_store.through_proxy).hadoop()
    settings: Any = spark.sparkContext._jsc.hadoopConfiguration()
    for name, value in options.items():
        settings.set(name.removeprefix("spark.hadoop."), value)
    for name, value in IMPATIENT.items():
        settings.set(name, value)
    # Otherwise no limit is below 15 s.
    limits: Any = spark._jvm
    limits.org.apache.hadoop.fs.s3a.impl.AWSClientConfig.setMinimumOperationDuration(
        limits.java.time.Duration.ofSeconds(1)
    )
    install_log_store(spark)
    return spark


@pytest.fixture
def store(shared_store: SharedStore) -> Iterator[SharedStore]:
    """The store with a proxy that passes everything on, until the test says otherwise."""
    shared_store.proxy.seen.clear()
    try:
        yield shared_store
    finally:
        shared_store.proxy.rule = straight
