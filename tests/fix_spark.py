"""One Spark session for the whole test session: it costs ten seconds to start."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tailrace_compose.local.errors import ArtifactUnavailable
from tailrace_compose.local.jars import spark_jars
from tailrace_compose.local.java import SPARK_QUICK_START
from tailrace_sink.spark.s3_log_store import compile_to_jar, log_store_settings
from tailrace_sink.spark.session import session_with

SPARK_JAVA = (
    f"{SPARK_QUICK_START} -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
    " -Djdk.lang.Process.launchMechanism=VFORK"
)
"""Loading classes is a third of what a Spark does that has just started (measured): those of
released jars need not be verified. And Hadoop starts a chmod for each local file that it makes:
without Java's helper program between, such a process costs 1.6 ms of the processor instead of 2.4.
"""
_ROOM = "-Xms768m -Xmn384m"
"""With the young generation that it begins with, a tenth of the time was spent collecting it."""
_LOCAL_FILES = Path(__file__).with_name("LocalFiles.java")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local session with Delta and Kafka, as the sink has it, in little memory."""
    folder = tmp_path_factory.mktemp("spark")
    # It takes all the processor that there is: the tests of other workers come first, which wait
    # for processes within bounds.
    os.nice(5)
    try:
        # Those of S3, too: one Spark serves the tests on local disk and on an object store.
        jars = spark_jars("s3a://")
    except ArtifactUnavailable:
        jars = spark_jars()  # PySpark 4.0, on which tests of an object store are skipped
    session = session_with(
        {
            "spark.master": "local[2]",
            "spark.jars": ",".join(map(str, jars)),
            **log_store_settings({}),
            "spark.driver.memory": "1500m",
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            # Each test has topics of its own.
            "spark.kafka.consumer.cache.capacity": "16",
            "spark.local.dir": str(folder / "local"),
            # Tests end before the optimising compiler would have paid for itself.
            "spark.driver.extraJavaOptions": f"{SPARK_JAVA} {_ROOM}",
        }
    )
    replace_local_files(session, folder)
    drop_yarn(session)
    try:
        yield session
    finally:
        session.stop()


def replace_local_files(session: SparkSession, folder: Path) -> None:
    """Let Hadoop start no process for local files.

    It starts chmod and readlink, 24 for a commit of Delta: a tenth of what the sink's tests take.
    Processors and not the promises of the files are spared: names, checksums and renames stay.
    """
    jvm: Any = session._jvm
    settings: Any = session.sparkContext._jsc.hadoopConfiguration()
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    jar = folder / "local-files.jar"
    compile_to_jar(jvm, loader, _LOCAL_FILES.read_text(encoding="utf-8"), jar)
    loader.addURL(jvm.java.io.File(str(jar)).toURI().toURL())
    settings.set("fs.file.impl", "io.tailrace.tests.LocalFiles")
    settings.set("fs.AbstractFileSystem.file.impl", "io.tailrace.tests.LocalFiles$OfContext")
    jvm.org.apache.hadoop.fs.FileSystem.closeAll()


def drop_yarn(session: SparkSession) -> None:
    """Let each job copy half as many settings of Hadoop: 545 of 1,077 are of a cluster manager."""
    settings: Any = session.sparkContext._jsc.hadoopConfiguration()
    for name in [entry.getKey() for entry in settings.iterator()]:
        if name.startswith("yarn."):
            settings.unset(name)
