"""Properties of lake tables: of new ones, and those that a start of the sink updates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import structlog
from pyspark.sql import SparkSession

from tailrace_sink.delta.described_table import FEATURES
from tailrace_sink.delta.fence import Fence
from tailrace_sink.delta.file_log import table_metadata
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.options.modes import Profile
from tailrace_sink.tables.column_identity import COLUMNS_PROPERTY
from tailrace_sink.tables.lake_table import (
    DELETES_PROPERTY,
    SCHEMA_LSN_PROPERTY,
    Feature,
    LakeTable,
    properties_ddl,
    quote,
    set_properties,
)
from tailrace_sink.tables.new_table import columns_ddl

_CHECKPOINT_EVERY: Final = 100
"""Commits between two checkpoints of a table's log. Each delays a commit (by about 1 s)."""

_APPEND_ONLY: Final = "delta.appendOnly"
_CONSTRAINT: Final = "delta.constraints."
"""Prefix of the properties with CHECK constraints. Source: Delta's protocol."""

_LOG_KEPT_TIMES: Final = 3
"""Retention of a table's log, as a multiple of that of cuts."""

_TOMBSTONE_SLACK_HOURS: Final = 24
"""Hours that tombstones of files stay longer than cuts: the oldest cut is older than the option."""

_log = structlog.get_logger("tailrace.sink")


def alter_statement(location: str, change: str | Feature) -> str:
    """Build the ALTER of a Delta table: a clause, or a feature to turn on."""
    if isinstance(change, Feature):
        change = set_properties(dict([FEATURES[change]]))
    return f"ALTER TABLE delta.{quote(location)} {change}"


def create_statement(
    table: LakeTable,
    location: str,
    properties: Mapping[str, str],
    partition_by: Sequence[str] = (),
    cluster_by: Sequence[str] = (),
) -> str:
    """Build CREATE TABLE of a Delta table at a location."""
    layout = ""
    if partition_by:
        layout = f" PARTITIONED BY ({', '.join(map(quote, partition_by))})"
    elif cluster_by:
        layout = f" CLUSTER BY ({', '.join(map(quote, cluster_by))})"
    listed = properties_ddl(
        {
            **properties,
            **dict(FEATURES[feature] for feature in sorted(table.features)),
            COLUMNS_PROPERTY: table.identities,
            DELETES_PROPERTY: table.deletes,
            SCHEMA_LSN_PROPERTY: table.schema_lsn,
        }
    )
    return (
        f"CREATE TABLE IF NOT EXISTS delta.{quote(location)} ({columns_ddl(table)}) USING delta"
        f"{layout} TBLPROPERTIES ({listed})"
    )


def new_table_properties(config: SinkConfig) -> dict[str, str]:
    """Return the properties of a new lake table, by the configured profile."""
    properties = {"delta.checkpointInterval": str(_CHECKPOINT_EVERY)}
    if config.profile is Profile.FAST:
        # Without deletion vectors every MERGE rewrites the files it touches.
        properties["delta.enableDeletionVectors"] = "true"
    return {**properties, **_retention(config), **config.table_properties}


def without_refusals(properties: Mapping[str, str]) -> list[str]:
    """Return the changes of a table after which it refuses no rows by what somebody else set."""
    named = [n.removeprefix(_CONSTRAINT) for n in properties if n.startswith(_CONSTRAINT)]
    changes = [f"DROP CONSTRAINT IF EXISTS {quote(name)}" for name in named]
    if properties.get(_APPEND_ONLY, "false") != "false":
        changes.append(set_properties({_APPEND_ONLY: "false"}))
    return changes


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


def retain(
    spark: SparkSession, config: SinkConfig, fence: Fence, path: str, since: int | None
) -> None:
    """Update retention and maintenance properties of a lake table to the options.

    Args:
        path: below the lake; without a table there, nothing is done.
        since: version of the last cut; None if the table is not in it.

    Raises:
        RowsChanged: somebody else changed rows since. A commit would hide that.
        LakeTaken, PySparkException, Py4JError: see :meth:`Fence.alter`.
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
    if since is not None:
        fence.own.builds_on(spark, location, since)
    fence.enter(spark, location)
    fence.alter(spark, location, alter_statement(location, set_properties(changed)))
    _log.info("lake_table_retention_changed", table=path, **changed)
