"""Hadoop's settings without their sources.

Spark copies Hadoop's settings for each job that reads or writes files, and sends a copy to its
tasks. With each of about 1,000 settings Hadoop stores which file or call set it. It compresses each
of these texts separately. A copy takes 6.0 ms with them and 1.0 ms without (measured). Only
Hadoop's own listing of settings reads them.
"""

from __future__ import annotations

import contextlib
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

_CONFIGURATION: Final = "org.apache.hadoop.conf.Configuration"
_OF_JOBS: Final = "org.apache.hadoop.mapred.JobConf"
_SOURCES: Final = "updatingResource"
"""A private field (Hadoop 3.4). A release that lacks it copies the sources, as before."""


def forget_sources(spark: SparkSession) -> None:
    """Remove the sources from a session's Hadoop settings; their values stay."""
    jvm: Any = spark._jvm  # noqa: SLF001 - no other way to the JVM
    configuration: Any = spark.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001 - as above
    with contextlib.suppress(Py4JError):
        # The first job loads this class, and Hadoop then reads all settings again.
        jvm.java.lang.Class.forName(_OF_JOBS)
        configuration.size()  # reads them, if nobody has
        field = jvm.java.lang.Class.forName(_CONFIGURATION).getDeclaredField(_SOURCES)
        field.setAccessible(True)
        field.get(configuration).clear()
