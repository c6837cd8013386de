"""Iceberg as the format of a lake's tables, chosen when the sink starts."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

import structlog
from pyspark.sql import SparkSession

from tailrace_sink.files.range_files import RangeFiles
from tailrace_sink.iceberg.catalog import IcebergCatalog
from tailrace_sink.iceberg.maintenance import Compaction, expire, remove_orphans
from tailrace_sink.iceberg.proof import prove_catalog
from tailrace_sink.iceberg.session import set_catalog
from tailrace_sink.iceberg.tables import IcebergTables
from tailrace_sink.iceberg.writer import IcebergWriter
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.plan.oldest_cut import DAY_MS
from tailrace_sink.ports.writes import Owner
from tailrace_sink.spark.session import own_session
from tailrace_sink.tables.lake_table import table_at

_ORPHAN_DAYS_MIN: Final = 3.0
"""Age from which a file of no snapshot is removed, at least: Iceberg's own default."""

_log = structlog.get_logger("tailrace.sink")


class IcebergFormat(IcebergTables):
    """Iceberg as the format of a lake's tables (``TableFormat``).

    Args:
        spark: from now on it, and sessions that are created from it, know the catalog.

    Raises:
        ConfigError: the file of a secret cannot be read.
    """

    versions_slow_writes = True

    def __init__(self, spark: SparkSession, config: SinkConfig) -> None:
        options = config.iceberg_options
        set_catalog(spark, options)
        catalog = IcebergCatalog(spark, options.name)
        super().__init__(catalog, config.lake, options.namespace)
        self._config = config
        self._files = RangeFiles(config)

    def prove(self) -> None:
        """Prove that the catalog's commit of several tables is all or nothing."""
        prove_catalog(self._catalog, ("tailrace",), self._config.iceberg_options.commits)

    def writer(self, owner: Owner) -> IcebergWriter:
        """Return the tables as one sink writes them."""
        return IcebergWriter(self._catalog, self._config, owner, self._files)

    def warm_up(self, spark: SparkSession) -> None:
        """Do nothing: a scratch table in the catalog is not worth the seconds."""

    def expire(self, spark: SparkSession, path: str, oldest: int, *, is_full: bool) -> bool:
        """Remove snapshots before one, and the files that only they need."""
        found = self.loaded(path)
        removed = 0 if found is None else expire(found, oldest)
        if removed:
            _log.info("snapshots_expired", table=path, snapshots=removed)
        now = self.loaded(path) if is_full else None
        if now is not None:
            days = max(self._config.retention.days, _ORPHAN_DAYS_MIN)
            before_ms = round(time.time() * 1000 - days * DAY_MS)
            files = remove_orphans(self._catalog, spark, now, before_ms)
            _log.info("orphan_files_removed", table=path, files=files)
        return True

    def compaction(self, spark: SparkSession) -> Compaction:
        """Return the compaction, in a session of its own."""

        def cluster_by(path: str) -> Sequence[str]:
            return self._config.layout_of(*table_at(path)).cluster_by

        return Compaction(own_session(spark), self._catalog, self, cluster_by)
