"""A catalog's settings in a Spark session that has started.

The settings of a session's builder are on the JVM's command line, which every user of the machine
can read. Those of a catalog have its credential, so they are set later. Spark opens a catalog when
it is first named. Iceberg's extensions of Spark's SQL are not needed: branches and identifier
fields are set by its Java classes, and Spark has MERGE itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql import SparkSession

from tailrace_sink.options.iceberg_options import IcebergOptions

_HADOOP: Final[Mapping[str, str]] = {
    # The addresses of a REST catalog start with s3, which Hadoop knows as s3a.
    "fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
}


def set_catalog(spark: SparkSession, options: IcebergOptions) -> None:
    """Let a session, and those that are created from it, open the catalog.

    Raises:
        ConfigError: the file of a secret cannot be read.
    """
    hadoop: Any = spark.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001 - no other way
    for name, text in _HADOOP.items():
        hadoop.set(name, text)
    # New sessions read the application's settings, and not those of the session they come from.
    application: Any = spark.sparkContext._jsc.sc().conf()  # noqa: SLF001
    for name, text in options.catalog_settings().items():
        spark.conf.set(name, text)
        application.set(name, text)
