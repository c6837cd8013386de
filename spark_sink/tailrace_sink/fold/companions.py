"""The companions of a mirror: its ``.changes`` and its ``.history``, as the configuration wants.

A companion may be switched on after its table. If the log is complete (``past_changes``), it starts
with the rows of an old cut and the changes since. Otherwise it starts with the rows of the previous
cut. In ``.changes`` each of these rows has operation ``r``, as after a snapshot. So the companion
is complete from that LSN on. If it was switched on before, it starts with the previous cut, and
rows that left in between end there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import structlog
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from tailrace_schemas.events.envelope import TableSchema
from tailrace_schemas.topics.topic_names import TableName
from tailrace_sink.fold.apply import append_changes, once_in
from tailrace_sink.fold.history_table import History
from tailrace_sink.fold.lake_tables import LakeTables
from tailrace_sink.log.past_changes import past_changes
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.plan.sink_state import CutPoint
from tailrace_sink.ports.table_format import TableWriter
from tailrace_sink.ports.writes import Once
from tailrace_sink.rows.lost_rows import as_read, deletes_of, without_keys
from tailrace_sink.tables.lake_table import (
    OPERATION,
    POSITION,
    WHOLE_FROM_PROPERTY,
    Kind,
    LakeTable,
    quote,
    set_properties,
)

_PURPOSES: Final = {Kind.CHANGES: "-start", Kind.HISTORY: "-history-start"}
"""Purposes of the first commits of companions, in the scope of their batch ids."""

_log = structlog.get_logger("tailrace.sink")


@dataclass(frozen=True, slots=True)
class Companions:
    """The companions of one mirror."""

    changes: LakeTable | None = None
    history: LakeTable | None = None

    @property
    def tables(self) -> list[LakeTable]:
        """All that there are."""
        return [table for table in (self.changes, self.history) if table is not None]


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
        for kind in config.companions_of(lake_table)
    }
    return Companions(found.get(Kind.CHANGES), found.get(Kind.HISTORY))


def start(
    spark: SparkSession,
    config: SinkConfig,
    tables: TableWriter,
    companions: Companions,
    mirror: LakeTable,
    kind: Kind,
    after: CutPoint,
    cut: CutPoint,
) -> str:
    """Start a companion with the past of its mirror, once per batch id.

    One that is new starts with the oldest cut from which on the log has every change. Otherwise,
    and if the mirror has several sources, it starts with the rows of the previous cut.

    Args:
        cut: that of the first batch that the companion follows.

    Returns:
        The companion's path below the lake.
    """
    mirror = replace(mirror, origin=None)
    found = companions.changes if kind is Kind.CHANGES else companions.history
    if found is None:
        raise ValueError(f"no companion {kind}")
    companion = replace(found, origin=None)
    purpose = _PURPOSES[kind]
    once = Once(once_in(config, companion, purpose), cut.batch)
    if tables.done(spark, companion.path, once) is not None:
        return companion.path
    past = None
    if not mirror.is_shared and tables.rows(spark, companion.path).isEmpty():
        past = past_changes(spark, config, tables, mirror, companion, after)
    whole_from = (after if past is None else past.start).lsn
    # Before the rows: a start that is repeated after them changes nothing.
    tables.alter(spark, companion.path, set_properties({WHOLE_FROM_PROPERTY: whole_from}))
    if past is not None:
        rows = as_read(past.rows, mirror, past.start).unionByName(
            past.changes, allowMissingColumns=True
        )
        if kind is Kind.CHANGES:
            append_changes(config, tables, companion, rows, cut.batch, purpose=purpose)
        else:
            History(config, tables, companion, mirror).build(spark, rows, after, cut.batch, purpose)
    elif kind is Kind.CHANGES:
        _start_changelog(spark, config, tables, mirror, companion, after, cut.batch)
    else:
        History(config, tables, companion, mirror).start(spark, after, cut.batch, purpose)
    _log.info("companion_started", table=companion.path, whole_from_lsn=whole_from)
    return companion.path


def _start_changelog(
    spark: SparkSession,
    config: SinkConfig,
    tables: TableWriter,
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
    there = tables.rows(spark, table.path).where(f"{OPERATION} <> 'd'")
    known = tables.rows(spark, changes_table.path)
    newest = known.groupBy(*map(quote, table.key)).agg(
        F.expr(f"max_by(struct(*), {POSITION})").alias("newest")
    )
    had = newest.select("newest.*").where(f"{OPERATION} <> 'd'")
    gone = deletes_of(without_keys(had, there, table), table, after)
    every = as_read(there, table, after).unionByName(gone)
    purpose = _PURPOSES[Kind.CHANGES]
    append_changes(config, tables, changes_table, every, batch, purpose=purpose)
