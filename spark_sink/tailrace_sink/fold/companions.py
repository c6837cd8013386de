"""The companions of a mirror: its ``.changes`` and its ``.history``, as the configuration wants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession

from tailrace_schemas.events.envelope import TableSchema
from tailrace_schemas.topics.topic_names import TableName
from tailrace_sink.delta.ddl import LakeTables
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.options.table_options import TableKind
from tailrace_sink.tables.lake_table import Kind, LakeTable

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
    """Return the kinds of the companions that a keyed table should have."""
    wanted = config.kinds_of(table)
    return [kind for name, kind in _KINDS.items() if name in wanted]


def followed_companions(
    spark: SparkSession,
    config: SinkConfig,
    tables: LakeTables,
    versions: Sequence[TableSchema],
) -> Companions:
    """Create or alter the companions of a mirror to hold some schema versions.

    Raises:
        UnsupportedSchemaChange, UnsupportedType: as :meth:`LakeTables.follow` raises them.
    """
    found = {
        kind: tables.follow(spark, versions, kind)
        for kind in companion_kinds(config, versions[0].table)
    }
    return Companions(found.get(Kind.CHANGES), found.get(Kind.HISTORY))
