"""Compaction of lake tables between batches: every commit leaves a small file and deleted rows.

It is not part of a commit, has a session of its own, and is bounded. A run rewrites files of one
table up to some bytes, the smallest and those with the most deleted rows; the next run continues.
Tables with liquid clustering are left to the operator's OPTIMIZE, which rearranges more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import structlog
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tailrace_sink.delta.conflicts import is_conflict
from tailrace_sink.delta.file_log import files_to_compact
from tailrace_sink.delta.old_files import trim_checksums
from tailrace_sink.files.to_compact import DELETED_SHARE, RUN_BYTES_MAX, chosen
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.spark.jvm_errors import translated
from tailrace_sink.spark.session import own_session
from tailrace_sink.tables.lake_table import quote

COMMITS_BETWEEN: Final = 50
"""Commits of a table after which its files are checked."""
FILES_MIN: Final = 50
"""Small files that are worth a compaction."""
SMALL_BYTES: Final = 16 * 1024 * 1024
"""Size below which a file is small."""

_MIN_SIZE: Final = "spark.databricks.delta.optimize.minFileSize"
_DELETED_RATIO: Final = "spark.databricks.delta.optimize.maxDeletedRowsRatio"

_log = structlog.get_logger("tailrace.sink")


class Maintenance:
    """Compacts lake tables, one at a time."""

    def __init__(self, spark: SparkSession, config: SinkConfig) -> None:
        self._spark = own_session(spark)
        self._config = config
        self._due: dict[str, None] = {}
        self._left_alone = {name.lower() for name in config.cluster_by}

    def note(self, before: Mapping[str, int], after: Mapping[str, int]) -> None:
        """Record which tables are due, by their versions.

        Args:
            before: path below the lake to the version of each table before a batch.
            after: the same after the batch.
        """
        for path, version in after.items():
            if is_due(before.get(path, 0), version, COMMITS_BETWEEN):
                self._due[path] = None

    def run(self) -> str | None:
        """Compact the table that has waited longest, if one is due.

        Returns:
            Path of the table that was checked, or None.

        Raises:
            SinkError: Spark failed. A conflict with a writer is left to the next run instead.
        """
        path = next(iter(self._due), None)
        if path is None:
            return None
        del self._due[path]
        location = f"{self._config.lake}/{path}"
        if self._is_clustered(path):
            return path
        try:
            files = compact(self._spark, location)
            trim_checksums(self._spark, location)
        except (PySparkException, Py4JError) as error:
            if not is_conflict(error):
                raise translated(f"compaction of table {path}", error) from error
            _log.info("compaction_deferred", table=path)
            return path
        if files:
            _log.info("lake_table_compacted", table=path, files=files)
        return path

    def _is_clustered(self, path: str) -> bool:
        return path.partition("/")[2].replace("/", ".").lower() in self._left_alone


def is_due(before: int, after: int, every: int) -> bool:
    """Whether a table's version passed a multiple of a number.

    Versions are counted, not the process's commits. A sink that a scheduler starts for a few
    commits at a time would never reach the number.
    """
    return after // every > before // every


def compact(
    spark: SparkSession,
    location: str,
    *,
    files_min: int = FILES_MIN,
    run_bytes_max: int = RUN_BYTES_MAX,
) -> int:
    """Rewrite the smallest files of a Delta table, and those with the most deleted rows.

    Earlier versions stay readable.

    Args:
        spark: a session whose settings may be changed.
        files_min: least number of small files that are combined.
        run_bytes_max: most bytes to rewrite, of small files and of files with deleted rows.

    Returns:
        Number of files that were chosen; 0 if nothing was done.
    """
    files = files_to_compact(spark, location, SMALL_BYTES, DELETED_SHARE)
    choice = chosen(files, SMALL_BYTES, files_min, run_bytes_max)
    if choice is None:
        return 0
    spark.conf.set(_MIN_SIZE, str(choice.below))
    spark.conf.set(_DELETED_RATIO, f"{choice.deleted_above:.12f}")
    spark.sql(f"OPTIMIZE delta.{quote(location)}")
    return choice.files
