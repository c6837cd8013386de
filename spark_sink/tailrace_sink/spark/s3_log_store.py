"""The log store of a lake in S3: two sinks never both commit one version of a table (ADR 0070).

Delta's own log store for S3 checks whether a commit file exists, then writes it, under a lock of
its JVM. ``ConditionalLogStore.java`` lets the store decide, by If-None-Match. Janino, which Spark
carries, compiles it, so there is no jar to build or to ship.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import uuid
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import structlog
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession

from tailrace_sink.errors import (
    ApplyFailed,
    SinkError,
    StoreUnavailable,
    StoreUnsafe,
    StoreUnusable,
)
from tailrace_sink.options.s3_options import is_s3
from tailrace_sink.spark.jvm_errors import cause_classes, translated

_CLASS: Final = "io.tailrace.delta.ConditionalLogStore"
_SETTING: Final = "spark.delta.logStore.s3a.impl"
_ENDPOINT: Final = "fs.s3a.endpoint"
_OF_ALL: Final = "spark.delta.logStore.class"
_LOCKS_ONE_JVM: Final = "S3SingleDriverLogStore"
_SOURCE: Final = Path(__file__).with_name("ConditionalLogStore.java")
_REFUSED: Final = frozenset(
    {
        "org.apache.hadoop.fs.s3a.RemoteFileChangedException",
        "org.apache.hadoop.fs.FileAlreadyExistsException",
    }
)
_UNKNOWN_OPTION: Final = "java.lang.IllegalArgumentException"
_NO_BUCKET: Final = "org.apache.hadoop.fs.s3a.UnknownStoreException"
_NO_KEYS: Final = "org.apache.hadoop.fs.s3a.auth.NoAuthWithAWSException"
_DENIED: Final = "java.nio.file.AccessDeniedException"
_NOT_SENT: Final = "software.amazon.awssdk.core.exception.SdkClientException"
_TOO_BUSY: Final = "org.apache.hadoop.fs.s3a.AWSServiceThrottledException"
_IMPATIENT: Final = {
    "attempts.maximum": "0",
    "retry.limit": "1",
    "retry.throttle.limit": "5",
    "connection.establish.timeout": "5s",
    "connection.timeout": "15s",
}
"""Of the proof's requests: a silent store fails after 30 s. With Hadoop's defaults an address where
nothing listens fails after three minutes (measured), and a silent store after hours."""

_log = structlog.get_logger("tailrace.sink")


def log_store_settings(given: Mapping[str, str]) -> dict[str, str]:
    """Return the setting that names the log store; empty if other settings name one already."""
    return {} if given.keys() & {_SETTING, _OF_ALL} else {_SETTING: _CLASS}


def install_log_store(spark: SparkSession, cache: Path | None = None) -> None:
    """Add the log store's class to driver and executors, before any table is opened.

    Args:
        cache: folder that keeps the compiled class for later starts, if it can be written.
    """
    jvm: Any = spark._jvm  # noqa: SLF001 - the JVM's classes have no public way in
    context: Any = spark.sparkContext._jsc.sc()  # noqa: SLF001
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    source = _SOURCE.read_text(encoding="utf-8")
    parent = loader.loadClass(f"io.delta.storage.{_LOCKS_ONE_JVM}")
    # The class fits the release of Delta whose class it extends.
    release = Path(parent.getProtectionDomain().getCodeSource().getLocation().getPath()).name
    digest = hashlib.sha256(f"{release}\n{source}".encode()).hexdigest()
    folder = cache if cache is not None and os.access(cache, os.W_OK) else _temporary()
    jar = folder / f"tailrace-log-store-{digest[:16]}.jar"
    if not jar.is_file():
        compile_to_jar(jvm, loader, source, jar)
    loader.addURL(jvm.java.io.File(str(jar)).toURI().toURL())
    context.addJar(str(jar))


def prove_store(spark: SparkSession, lake: str) -> None:
    """Check that the store of a lake refuses the second of two conditional creates of one object.

    A lake elsewhere than in S3 is not checked: Delta's log stores create files atomically there.

    Raises:
        StoreUnsafe: the store accepts the second, or the log store does not ask it.
        StoreUnavailable: the store does not answer.
        StoreUnusable: it refuses the keys, or has no such bucket.
        ApplyFailed: an object cannot be written for another reason.
    """
    if not is_s3(lake):
        return
    conf = spark.sparkContext.getConf()
    named = conf.get(_SETTING) or conf.get(_OF_ALL) or _LOCKS_ONE_JVM
    if named.endswith(_LOCKS_ONE_JVM):
        raise StoreUnsafe(
            lake,
            f"Delta's log store {named} locks commits within one JVM only",
            f"remove {_SETTING} and {_OF_ALL} from Spark's settings, so that the sink sets its own",
        )
    if named != _CLASS:
        _log.warning(
            "log_store_not_proven",
            log_store=named,
            effect="whether two sinks can commit one version depends on this class",
            fix=f"remove it from Spark's settings unless it locks across processes: {_SETTING}",
        )
        return
    try:
        _create_twice(spark, lake)
    except Py4JError as error:
        if _UNKNOWN_OPTION in cause_classes(error):
            raise StoreUnsafe(
                lake,
                "this release of Hadoop cannot create objects conditionally",
                "run the sink with hadoop-aws 3.4.2 or later",
            ) from error
        endpoint = spark.sparkContext._jsc.hadoopConfiguration().get(_ENDPOINT)  # noqa: SLF001
        raise _failure(lake, endpoint, error) from error
    _log.info("store_proven", lake=lake)


def _create_twice(spark: SparkSession, lake: str) -> None:
    jvm: Any = spark._jvm  # noqa: SLF001
    path = jvm.org.apache.hadoop.fs.Path(f"{lake}/_tailrace/proof-{uuid.uuid4().hex}")
    settings: Any = spark.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001
    impatient = jvm.org.apache.hadoop.conf.Configuration(settings)
    for name, value in _IMPATIENT.items():
        impatient.set(f"fs.s3a.{name}", value)
    files = jvm.org.apache.hadoop.fs.FileSystem.newInstance(path.toUri(), impatient)
    try:
        _create_one_twice(jvm, files, path, lake, settings.get(_ENDPOINT))
    finally:
        files.close()


def _create_one_twice(jvm: Any, files: Any, path: Any, lake: str, endpoint: str | None) -> None:
    create = jvm.io.tailrace.delta.ConditionalLogStore.create
    create(files, path, bytearray(b"1"))
    try:
        create(files, path, bytearray(b"2"))
    except Py4JJavaError as error:
        if _REFUSED.isdisjoint(cause_classes(error)):
            raise
    else:
        raise StoreUnsafe.accepts_a_second_create(lake, endpoint)
    finally:
        files.delete(path, False)


def _failure(lake: str, endpoint: str | None, error: Py4JError) -> SinkError:
    classes, failed = cause_classes(error), translated(f"lake {lake}", error)
    if _NO_BUCKET in classes:
        return StoreUnusable.bucket(lake, endpoint)
    if _NO_KEYS in classes:
        return StoreUnusable.without_keys(lake)
    if isinstance(failed, ApplyFailed) and _DENIED in classes:
        return StoreUnusable.keys(lake, endpoint, failed.reason)
    if isinstance(failed, ApplyFailed) and not {_NOT_SENT, _TOO_BUSY}.isdisjoint(classes):
        name = classes[-1].rpartition(".")[2]
        return StoreUnavailable(lake, endpoint, f"{name}: {failed.reason}")
    return failed


def _temporary() -> Path:
    return Path(tempfile.mkdtemp(prefix="tailrace-log-store-"))


def compile_to_jar(jvm: Any, loader: Any, source: str, jar: Path) -> None:
    """Compile a Java source into a jar, by Janino.

    Args:
        loader: class loader of what the source uses.
        jar: written as a whole or not at all.
    """
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(loader)
    compiler.cook(source)
    classes = compiler.getBytecodes()
    # A sink that starts at the same time finds a whole file or none.
    handle, part = tempfile.mkstemp(dir=jar.parent, suffix=".part")
    with os.fdopen(handle, "wb") as file, zipfile.ZipFile(file, "w") as archive:
        for name in classes:
            archive.writestr(f"{name.replace('.', '/')}.class", bytes(classes[name]))
    Path(part).replace(jar)
