"""One Spark session for the whole test session: it costs ten seconds to start."""

import os
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tailrace_compose.local.jars import spark_jars
from tailrace_compose.local.java import SPARK_QUICK_START
from tailrace_sink.spark.s3_log_store import log_store_settings
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


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local session with Delta and Kafka, as the sink has it, in little memory."""
    folder = tmp_path_factory.mktemp("spark")
    # It takes all the processor that there is: the tests of other workers come first, which wait
    # for processes within bounds.
    os.nice(5)
    session = session_with(
        {
            "spark.master": "local[2]",
            # Those of S3, too: one Spark serves the tests on local disk and on an object store.
            "spark.jars": ",".join(map(str, spark_jars("s3a://"))),
            **log_store_settings({}),
            "spark.driver.memory": "1500m",
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            # Each test has topics of its own. Of a consumer that stays open there are five open
            # files, and each process that Hadoop starts for a local file (chmod, readlink; 24 for a
            # commit) first closes all of them: 1.7 ms with a few, 8 ms with a thousand (measured).
            "spark.kafka.consumer.cache.capacity": "16",
            "spark.local.dir": str(folder / "local"),
            # Tests end before the optimising compiler would have paid for itself.
            "spark.driver.extraJavaOptions": f"{SPARK_JAVA} {_ROOM}",
        }
    )
    try:
        yield session
    finally:
        session.stop()
