"""The Spark session: the settings that matter, with their reasons."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from tailrace_sink.options.config import SinkConfig
from tailrace_sink.options.s3_options import S3Options
from tailrace_sink.spark.hadoop_settings import forget_sources
from tailrace_sink.spark.jvm_names import keep_names
from tailrace_sink.spark.s3_log_store import install_log_store, log_store_settings

_MASTER: Final = "spark.master"
_LOCAL: Final = "local"
_JARS: Final = "spark.jars"
_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_HADOOP: Final = "spark.hadoop."
_SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"
"""Environment variable with which spark-submit passes the port of its JVM."""
_LOG_SETTINGS: Final = Path(__file__).with_name("log4j2.properties").as_uri()

_SMALL_BATCH: Final[Mapping[str, str]] = {
    # For few rows, generating and compiling code takes far longer than running it. Together these
    # settings halve the processor time of a small batch (measured).
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.databricks.delta.snapshotPartitions": "1",
}

_OF_VALUES: Final[Mapping[str, str]] = {
    # Names of the source are data: ${env:...} in one must not become a value of the environment.
    "spark.sql.variable.substitute": "false",
    # Commit times are instants, so their text must not depend on the machine's zone.
    "spark.sql.session.timeZone": "UTC",
    # A value that does not fit is an error, never a silent NULL.
    "spark.sql.ansi.enabled": "true",
    # Spark's default is INT96. Other readers take it for nanoseconds, which end in 1677 and 2262,
    # or for a time without a zone.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Dates from year 1 are written and read as they are (proleptic Gregorian).
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.sql.avro.datetimeRebaseModeInRead": "CORRECTED",
}
"""Settings that decide which values the lake has: nothing overrides them in the sink."""

_DELETION_VECTORS: Final = "spark.databricks.delta.merge.deletionVectors.persistent"


def own_session(spark: SparkSession) -> SparkSession:
    """Create a session of the same application that writes the lake's values.

    Every session of the sink comes from here. The given one may be a program's own, whose settings
    are its user's.
    """
    session = spark.newSession()
    for name, value in _OF_VALUES.items():
        session.conf.set(name, value)
    return session


class TunedSession:
    """A session whose settings can be switched between few and many rows."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = own_session(spark)
        # After unsetting, Spark's defaults would hold instead of the application's settings.
        self._for_large = {name: self.spark.conf.get(name) for name in _SMALL_BATCH}
        self._is_small: bool | None = None
        self._rewrites: bool | None = None
        self.tune(is_small=True)

    def tune(self, *, is_small: bool) -> None:
        """Tune the session for some thousand rows, or for more."""
        if is_small != self._is_small:
            for name, value in (_SMALL_BATCH if is_small else self._for_large).items():
                if value is not None:
                    self.spark.conf.set(name, value)
            self._is_small = is_small

    def rewrite(self, *, rewrites: bool) -> None:
        """Let a MERGE rewrite changed files, or write deletion vectors."""
        if rewrites != self._rewrites:
            self.spark.conf.set(_DELETION_VECTORS, str(not rewrites).lower())
            self._rewrites = rewrites


def small_batch_session(spark: SparkSession) -> SparkSession:
    """Create a session of the same application, tuned for few rows."""
    return TunedSession(spark).spark


def spark_settings(cores: int) -> dict[str, str]:
    """Return the sink's settings, which spark-submit and the section ``spark`` override.

    They do not include a master: without one, Spark uses ``local[*]``.

    Args:
        cores: processors of the driver, which size the shuffles of a local master.
    """
    return {
        "spark.app.name": "tailrace-sink",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        # No table is there. By default Spark creates a folder in the working directory.
        "spark.sql.warehouse.dir": Path(tempfile.gettempdir()).resolve().as_uri(),
        **_OF_VALUES,
        # 200 tasks (the default) for a batch of ten rows take seconds.
        "spark.sql.shuffle.partitions": str(cores),
        # Each table's MERGE has some 40 generated classes. With the default of 100, three tables
        # evict each other's classes in every batch.
        "spark.sql.codegen.cache.maxEntries": "2000",
        # The state of a small table is rebuilt with this many tasks (default 50).
        "spark.databricks.delta.snapshotPartitions": "2",
        # The sink caches the reduced changes of a MERGE itself (apply).
        "spark.databricks.delta.merge.materializeSource": "none",
        # Delta checks for cached tables, whose version may change. Offsets do not change.
        "spark.databricks.delta.merge.failSourceCachedAfterMaterialization": "false",
        # Cached changes are read three times and dropped. Choosing a compression for them takes as
        # long as decoding them.
        "spark.sql.inMemoryColumnarStorage.compressed": "false",
        # The log's rows of a cut are of one day: two open files instead of sorting them by day.
        "spark.sql.maxConcurrentOutputFileWriters": "2",
        # The log's small jobs must not wait for those of the tables.
        "spark.scheduler.mode": "FAIR",
        # How often executors report what their tasks have read, for the progress of a backlog
        # (default 10 s).
        "spark.executor.heartbeatInterval": "2s",
        # How often an idle stream polls Kafka. Spark's default of 10 ms takes a fifth of a core.
        "spark.sql.streaming.pollingDelay": "50ms",
        # Consumers that stay open between two cuts, one for each partition (default 64).
        "spark.kafka.consumer.cache.capacity": "512",
        # Micro-batches are frequent: keep few of them in the checkpoint and the driver's memory.
        "spark.sql.streaming.minBatchesToRetain": "10",
        "spark.sql.streaming.numRecentProgressUpdates": "5",
        # Spark formats each query's plan as text for its user interface, which is off.
        "spark.sql.ui.explainMode": "simple",
        "spark.sql.ui.retainedExecutions": "20",
        "spark.ui.retainedJobs": "100",
        "spark.ui.retainedStages": "100",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Batches pass the driver as Arrow: a local relation instead of pickled rows.
        "spark.sql.execution.arrow.pyspark.enabled": "true",
    }


def build_session(config: SinkConfig, jars: Iterable[str | Path]) -> SparkSession:
    """Create a session with Delta and Kafka.

    Args:
        config: Hadoop gets its section ``s3`` if the lake is there. Its section ``spark`` overrides
            the sink's settings and adds to ``spark.jars``.
        jars: files for ``spark.jars``: the Kafka connector, spark-avro, Delta and their
            dependencies; empty if the cluster provides these.
    """
    return session_with(config.spark, jars, config.store)


def session_with(
    overrides: Mapping[str, str], jars: Iterable[str | Path] = (), s3: S3Options | None = None
) -> SparkSession:
    """Create a session with the sink's settings, some overrides, and all jars.

    Args:
        s3: of the store of a lake in S3, which also gets its log store.
    """
    # PySpark prints every error with its whole Java stack; the sink logs it in one line.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    builder: SparkSession.Builder = SparkSession.builder
    ours = list(jars)
    listed = {_JARS: ",".join(map(str, ours))} if ours else {}
    submitted = _submitted()
    ours_of_spark = spark_settings(os.cpu_count() or 1)
    # Options that nobody gave do not override what the cluster is set to.
    of_store = {} if s3 is None else s3.hadoop()
    layers = (of_store, submitted) if s3 == S3Options() else (submitted, of_store)
    settings = merged_settings(ours_of_spark, *layers, listed, overrides)
    if s3 is not None:
        settings |= log_store_settings(settings)
    if not submitted and settings.get(_MASTER, _LOCAL).startswith(_LOCAL):
        # Spark's own default is the first python3 of the path, which may lack pyarrow.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    options = settings.get(_JAVA_OPTIONS, "")
    if "log4j2.configurationFile" not in options:
        settings[_JAVA_OPTIONS] = f"-Dlog4j2.configurationFile={_LOG_SETTINGS} {options}".rstrip()
    # The settings of a builder appear on the JVM's command line, which every user of the machine
    # can read. Settings of Hadoop include keys of object stores, so they are set later.
    hadoop = {name: value for name, value in settings.items() if name.startswith(_HADOOP)}
    for name, value in settings.items():
        if name not in hadoop:
            builder = builder.config(name, value)
    spark = builder.getOrCreate()
    configuration: Any = spark.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001 - no other way
    for name, value in hadoop.items():
        configuration.set(name.removeprefix(_HADOOP), value)
    if s3 is not None:
        install_log_store(spark, Path(ours[0]).parent if ours else None)
    keep_names(spark)
    forget_sources(spark)
    return spark


def merged_settings(*layers: Mapping[str, str]) -> dict[str, str]:
    """Merge settings: later layers override earlier ones, but the jars of all are combined."""
    merged: dict[str, str] = {}
    for layer in layers:
        jars = all_jars(merged.get(_JARS), layer.get(_JARS))
        merged |= layer
        if jars:
            merged[_JARS] = jars
    return merged


def all_jars(*lists: str | None) -> str:
    """Combine comma-separated lists of jars in order, each jar once."""
    every = (jar.strip() for listed in lists for jar in (listed or "").split(","))
    return ",".join(dict.fromkeys(jar for jar in every if jar))


def _submitted() -> dict[str, str]:
    """Read the settings of spark-submit from the JVM that it started; empty without it."""
    if _SUBMITTED not in os.environ:
        return {}
    SparkContext._ensure_initialized()  # noqa: SLF001 - only so a SparkConf sees the JVM's settings
    return dict(SparkConf().getAll())
