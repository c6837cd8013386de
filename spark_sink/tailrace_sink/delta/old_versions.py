"""Reads of a Delta table at a version."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pyspark.sql import DataFrame, SparkSession

_REFUSES_OLD_VERSIONS: Final = (
    "spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration"
)
_SETTING_LOCK: Final = threading.Lock()


def at_version(spark: SparkSession, address: str, version: int) -> DataFrame:
    """Read a table at a version whose files are retained."""
    # Without a version Delta would read the current one of each run of the DataFrame. Delta has
    # the current version in memory; an older one takes 0.3 s to rebuild (measured).
    reader = spark.read.format("delta").option("versionAsOf", version)
    with _time_travel_by_cuts(spark):
        return reader.load(address)


@contextmanager
def _time_travel_by_cuts(spark: SparkSession) -> Iterator[None]:
    """Allow reads of versions whose commit is older than the deleted-file retention.

    Delta refuses them by the age of the commit. But files are retained from their removal on, so
    the cuts of a table that was quiet for long are still readable. Delta checks once, when a
    DataFrame is created in the caller's session. So the setting is restored afterwards.
    """
    with _SETTING_LOCK:
        before = spark.conf.get(_REFUSES_OLD_VERSIONS, None)
        spark.conf.set(_REFUSES_OLD_VERSIONS, "false")
        try:
            yield
        finally:
            if before is None:
                spark.conf.unset(_REFUSES_OLD_VERSIONS)
            else:
                spark.conf.set(_REFUSES_OLD_VERSIONS, before)
