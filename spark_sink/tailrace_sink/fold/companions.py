"""The companions of a mirror: its ``.changes`` and its ``.history``, as the configuration wants.

One that is switched on, or on again, after its table starts with the rows that the table had at the
previous cut. In ``.changes`` each has operation ``r``, as after a snapshot. So it is complete from
that LSN on. If it was switched on before, rows that left in between end at that LSN.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import structlog
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from tailrace_schemas.events.envelope import TableSchema
from tailrace_schemas.topics.topic_names import TableName
from tailrace_sink.delta.ddl import LakeTables
from tailrace_sink.delta.fence import Fence
from tailrace_sink.delta.table_properties import set_properties
from tailrace_sink.fold.apply import append_changes, deletes_of
from tailrace_sink.fold.history_table import History
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.options.table_options import TableKind
from tailrace_sink.plan.sink_state import CutPoint
from tailrace_sink.rows.mirror_statements import same_key
from tailrace_sink.tables.lake_table import (
    OPERATION,
    POSITION,
    WHOLE_FROM_PROPERTY,
    Kind,
    LakeTable,
    quote,
    table_path,
)

_PURPOSE = "-start"

_log = structlog.get_logger("tailrace.sink")
_KINDS = {TableKind.CHANGELOG: Kind.CHANGES, TableKind.HISTORY: Kind.HISTORY}


@dataclass(frozen=True, slots=True)
class Companions:
    """The companions of one mirror."""

    changes: LakeTable | None = None
    history: LakeTable | None = None

    @property
    def tables(self) -> list[LakeTable]:
        """All that there are."""
        return [table for table in (self.changes, self.history) if table is not None]


def companion_kinds(config: SinkConfig, table: TableName) -> list[Kind]:
    """Return the kinds of the companions that a keyed lake table should have."""
    wanted = config.kinds_of(table)
    return [kind for name, kind in _KINDS.items() if name in wanted]


def followed_companions(
    spark: SparkSession,
    config: SinkConfig,
    tables: LakeTables,
    versions: Sequence[TableSchema],
    lake_table: TableName,
) -> Companions:
    """Create or alter the companions of a mirror to hold some schema versions.

    Raises:
        UnsupportedSchemaChange, UnsupportedType: as :meth:`LakeTables.follow` raises them.
    """
    found = {
        kind: tables.follow(spark, versions, kind, into=lake_table)
        for kind in companion_kinds(config, lake_table)
    }
    return Companions(found.get(Kind.CHANGES), found.get(Kind.HISTORY))


def start(
    spark: SparkSession,
    config: SinkConfig,
    fence: Fence,
    companions: Companions,
    mirror: LakeTable,
    kind: Kind,
    after: CutPoint,
    cut: CutPoint,
) -> str:
    """Start a companion with the rows of all sources of its mirror, once per batch id.

    Args:
        after: the cut that it starts with.
        cut: that of the first batch that the companion follows.

    Returns:
        The companion's path below the lake.
    """
    mirror = replace(mirror, origin=None)
    if kind is Kind.CHANGES and companions.changes is not None:
        companion = replace(companions.changes, origin=None)
        start_changelog(spark, config, fence, mirror, companion, after, cut.batch)
    elif companions.history is not None:
        history = History(config, fence, replace(companions.history, origin=None), mirror)
        history.start(spark, after, cut.batch)
    path = table_path(mirror.table, kind)
    whole_from = set_properties(f"{config.lake}/{path}", {WHOLE_FROM_PROPERTY: after.lsn})
    fence.alter(spark, f"{config.lake}/{path}", whole_from)
    _log.info("companion_started", table=path, whole_from_lsn=after.lsn)
    return path


def start_changelog(
    spark: SparkSession,
    config: SinkConfig,
    fence: Fence,
    table: LakeTable,
    changes_table: LakeTable,
    after: CutPoint,
    batch: int,
) -> None:
    """Append the rows of a mirror to its companion, once per batch id.

    Args:
        table: the mirror at the cut ``after``.
        batch: id of the first batch that the companion follows.
    """
    there = _load(spark, config, table).where(f"{OPERATION} <> 'd'")
    known = _load(spark, config, changes_table)
    newest = known.groupBy(*map(quote, table.key)).agg(
        F.expr(f"max_by(struct(*), {POSITION})").alias("newest")
    )
    had = newest.select("newest.*").where(f"{OPERATION} <> 'd'")
    same = F.expr(" AND ".join(same_key(table, "had", "there")))
    gone = had.alias("had").join(there.alias("there"), same, "left_anti")
    rows = deletes_of(there, table, after).withColumn(OPERATION, F.lit("r"))
    every = rows.unionByName(deletes_of(gone, table, after))
    append_changes(config, fence, changes_table, every, batch, purpose=_PURPOSE)


def _load(spark: SparkSession, config: SinkConfig, table: LakeTable) -> DataFrame:
    return spark.read.format("delta").load(f"{config.lake}/{table.path}")
