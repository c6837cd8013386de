"""One Spark session for the whole test session: it costs ten seconds to start."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tailrace_compose.local.jars import spark_jars
from tailrace_compose.local.java import SPARK_QUICK_START
from tailrace_sink.session import session_with


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local session with Delta and Kafka, as the sink has it, in little memory."""
    folder = tmp_path_factory.mktemp("spark")
    session = session_with(
        {
            "spark.master": "local[2]",
            "spark.jars": ",".join(map(str, spark_jars())),
            "spark.driver.memory": "1500m",
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.local.dir": str(folder / "local"),
            # Tests end before the optimising compiler would have paid for itself.
            "spark.driver.extraJavaOptions": SPARK_QUICK_START,
        }
    )
    try:
        yield session
    finally:
        session.stop()
