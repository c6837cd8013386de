"""Recording of the archive of ``class_archive``, by a Spark that runs a sink's first steps.

It needs no Kafka, registry or lake, so an image can be built with an archive in it.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.avro.functions import from_avro

from tailrace_sink.daemon.sink import Sink
from tailrace_sink.daemon.warm_up import warm_up
from tailrace_sink.delta.classes import jvm_of
from tailrace_sink.errors import ClassArchiveFailed
from tailrace_sink.kafka.offset_reads import client_properties, read_messages
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.spark.class_archive import (
    CLASS_PATH,
    JAVA_OPTIONS,
    QUIET,
    archive_of,
    class_path,
)
from tailrace_sink.spark.session import build_session, small_batch_session

_DESERIALIZER: Final = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
_WRITTEN_WITHIN_S: Final = 300.0
_QUICK: Final = "-XX:TieredStopAtLevel=1"
_NOWHERE: Final = "127.0.0.1:1"


def record(jars: Sequence[Path]) -> Path:
    """Create or replace the archive for Spark with these jars.

    It uses the process's only JVM, which has ended when this returns.

    Args:
        jars: the files that sinks will start with, in the same order.

    Returns:
        Path of the archive, next to the first jar.

    Raises:
        ClassArchiveFailed: the folder cannot be written, or this Java writes no archives.
        SinkError: Spark reported an error.
    """
    archive = archive_of(jars)
    if archive is None:
        raise ClassArchiveFailed("no jars were given")
    partial = archive.with_name(f"{archive.name}.{os.getpid()}")
    try:
        with tempfile.TemporaryDirectory(prefix="tailrace-") as folder:
            config = _config(folder, partial, class_path(jars))
            spark = build_session(config, jars)
            try:
                _work(spark, config)
            finally:
                _end(spark)
        if not partial.is_file():
            raise ClassArchiveFailed(
                f"Java wrote none into {archive.parent}. Fix: make that folder writable, and let"
                " Java have an archive of its own classes (java -Xshare:dump)"
            )
        partial.replace(archive)
    except OSError as error:
        raise ClassArchiveFailed(f"{archive} was not written: {error}") from error
    finally:
        partial.unlink(missing_ok=True)
    return archive


def _config(folder: str, archive: Path, classes: str) -> SinkConfig:
    return SinkConfig.load(
        {
            "kafka": {"bootstrap": _NOWHERE, "request_timeout_s": 1, "poll_timeout_s": 1},
            "registry": {"url": f"http://{_NOWHERE}"},
            "prefix": "classes",
            "lake": f"{folder}/lake",
            "spark": {
                "spark.master": "local[1]",
                "spark.driver.memory": "1g",
                "spark.local.dir": folder,
                CLASS_PATH: classes,
                # The quick compiler alone: 55 s of the processor instead of 78 (measured).
                JAVA_OPTIONS: f'"-XX:ArchiveClassesAtExit={archive}" {_QUICK} {QUIET}',
            },
        }
    )


def _work(spark: SparkSession, config: SinkConfig) -> None:
    """Use the log, a MERGE, decoding, and a Kafka client without brokers."""
    sink = Sink(spark, config, _no_schema)
    try:
        sink.open()
    finally:
        sink.close()
    warm_up(spark, config)
    small = small_batch_session(spark)
    schema = json.dumps({"type": "record", "name": "r", "fields": [{"name": "f", "type": "long"}]})
    decoded = from_avro(F.expr("X'02'"), schema, {"mode": "FAILFAST"})
    small.range(1).select(decoded.alias("event")).select("event.f").toArrow()
    with suppress(PySparkException, Py4JError):  # there is no broker; its client has been loaded
        read_messages(small, config.kafka, {"topic": {0: (0, 1)}}).collect()
    _open_consumer(small, config)


def _open_consumer(spark: SparkSession, config: SinkConfig) -> None:
    """Load a task's consumer in the driver: no task starts if offsets cannot be looked up."""
    jvm = jvm_of(spark)
    settings = client_properties(jvm, config.kafka)
    for what in ("key", "value"):
        settings.setProperty(f"{what}.deserializer", _DESERIALIZER)
    jvm.org.apache.kafka.clients.consumer.KafkaConsumer(settings).close()


def _no_schema(schema_id: int) -> dict[str, Any]:
    raise LookupError(schema_id)  # a lake without a log needs none


def _end(spark: SparkSession) -> None:
    """Let the JVM exit normally: only then does it write the archive."""
    gateway: Any = SparkContext._gateway  # noqa: SLF001 - PySpark tells of its JVM nowhere else
    java: subprocess.Popen[bytes] = gateway.proc
    spark.stop()
    gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001
    if java.stdin is not None:
        java.stdin.close()
    try:
        java.wait(_WRITTEN_WITHIN_S)
    except subprocess.TimeoutExpired as error:
        java.kill()
        raise ClassArchiveFailed(f"Java took longer than {_WRITTEN_WITHIN_S:g} s") from error
