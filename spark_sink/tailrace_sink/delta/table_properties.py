"""Properties of lake tables: of new ones, and those that a start of the sink updates."""

from __future__ import annotations

from typing import Final

import structlog
from pyspark.sql import SparkSession

from tailrace_sink.delta.fence import Fence
from tailrace_sink.delta.file_log import table_metadata
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.options.modes import Profile
from tailrace_sink.tables.lake_table import properties_ddl, quote

_CHECKPOINT_EVERY: Final = 100
"""Commits between two checkpoints of a table's log. Each delays a commit (by about 1 s)."""

_LOG_KEPT_TIMES: Final = 3
"""Retention of a table's log, as a multiple of that of cuts."""

_TOMBSTONE_SLACK_HOURS: Final = 24
"""Hours that tombstones of files stay longer than cuts: the oldest cut is older than the option."""

_log = structlog.get_logger("tailrace.sink")


def set_properties(location: str, properties: dict[str, str]) -> str:
    """Build the ALTER statement that sets properties of a Delta table."""
    return f"ALTER TABLE delta.{quote(location)} SET TBLPROPERTIES ({properties_ddl(properties)})"


def new_table_properties(config: SinkConfig) -> dict[str, str]:
    """Return the properties of a new lake table, by the configured profile."""
    properties = {"delta.checkpointInterval": str(_CHECKPOINT_EVERY)}
    if config.profile is Profile.FAST:
        # Without deletion vectors every MERGE rewrites the files it touches.
        properties["delta.enableDeletionVectors"] = "true"
    return {**properties, **_retention(config), **config.table_properties}


def _upkeep(config: SinkConfig) -> dict[str, str]:
    """Return the properties that every start of the sink updates.

    Earlier releases made compaction a part of each commit; now it is separate
    (``table_maintenance``).
    """
    kept = {
        **_retention(config),
        "delta.checkpointInterval": str(_CHECKPOINT_EVERY),
        "delta.autoOptimize.autoCompact": "false",
    }
    return {name: config.table_properties.get(name, value) for name, value in kept.items()}


def _retention(config: SinkConfig) -> dict[str, str]:
    """Return the retention that keeps the versions of cuts readable.

    The sink removes old files and entries of the log itself (``old_files``). Delta's own cleanup
    goes by age alone, and would remove the version of a table that was quiet for long.
    """
    hours = max(1, round(config.retention.days * 24)) + _TOMBSTONE_SLACK_HOURS
    kept = {
        "delta.enableExpiredLogCleanup": "false",
        "delta.logRetentionDuration": f"interval {hours * _LOG_KEPT_TIMES} hours",
        "delta.deletedFileRetentionDuration": f"interval {hours} hours",
    }
    return {name: config.table_properties.get(name, value) for name, value in kept.items()}


def set_retention(spark: SparkSession, config: SinkConfig, fence: Fence, path: str) -> None:
    """Update retention and maintenance properties of a lake table to the options.

    Args:
        path: below the lake; without a table there, nothing is done.
    """
    location = f"{config.lake}/{path}"
    metadata = table_metadata(spark, location)
    if metadata is None:
        return
    found = {"delta.autoOptimize.autoCompact": "false", **metadata.properties}
    wanted = _upkeep(config)
    changed = {name: value for name, value in wanted.items() if found.get(name) != value}
    if not changed:
        return
    fence.enter(spark, location)
    fence.alter(spark, location, set_properties(location, changed))
    _log.info("lake_table_retention_changed", table=path, **changed)
