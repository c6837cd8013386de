"""Table properties of lake tables: what new ones get, and what a start brings up to date."""

from __future__ import annotations

from typing import Final

import structlog
from pyspark.sql import SparkSession

from tailrace_sink.delta.fence import Fence
from tailrace_sink.delta.file_log import table_metadata
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.options.table_options import Profile
from tailrace_sink.tables.lake_table import properties_ddl, quote

_CHECKPOINT_EVERY: Final = 100
"""Commits between two checkpoints of a table's log: each sits in the way of a commit (1 s)."""

_LOG_KEPT_TIMES: Final = 3
"""How many times longer than the cuts the log of a table is kept."""

_log = structlog.get_logger("tailrace.sink")


def set_properties(location: str, properties: dict[str, str]) -> str:
    """The ALTER statement that gives a Delta table some properties."""
    return f"ALTER TABLE delta.{quote(location)} SET TBLPROPERTIES ({properties_ddl(properties)})"


def new_table_properties(config: SinkConfig) -> dict[str, str]:
    """Properties of a new lake table: as plain as the profile asks, so that others read it."""
    properties = {"delta.checkpointInterval": str(_CHECKPOINT_EVERY)}
    if config.profile is Profile.FAST:
        # Without deletion vectors every MERGE rewrites the files it touches.
        properties["delta.enableDeletionVectors"] = "true"
    return {**properties, **_retention(config), **config.table_properties}


def _upkeep(config: SinkConfig) -> dict[str, str]:
    """What tables that were made under other options get when the sink starts.

    Compaction is not part of a commit (``maintenance``); earlier releases had it so.
    """
    kept = {
        **_retention(config),
        "delta.checkpointInterval": str(_CHECKPOINT_EVERY),
        "delta.autoOptimize.autoCompact": "false",
    }
    return {name: config.table_properties.get(name, value) for name, value in kept.items()}


def _retention(config: SinkConfig) -> dict[str, str]:
    """A cut stays readable only as long as the versions it names.

    Files count from their removal. The log goes by the age of commits, and a version that cuts of
    today name may be older than they are.
    """
    hours = max(1, round(config.commit_retention_days * 24))
    kept = {
        "delta.logRetentionDuration": f"interval {hours * _LOG_KEPT_TIMES} hours",
        "delta.deletedFileRetentionDuration": f"interval {hours} hours",
    }
    return {name: config.table_properties.get(name, value) for name, value in kept.items()}


def set_retention(spark: SparkSession, config: SinkConfig, fence: Fence, path: str) -> None:
    """Give a lake table that was made under other options what they ask for now.

    Retention, and what concerns the upkeep of its log and files.

    Args:
        spark: any session.
        config: the options.
        fence: of the sink.
        path: of the table below the lake; without a table there, nothing is done.
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
