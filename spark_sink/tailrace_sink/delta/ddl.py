"""Creation and alteration of lake tables, only if still needed.

Delta's transaction versions do not guard ALTER TABLE. So the sink takes a table at its first use
(``fence``), and reads its present columns from the table itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import structlog
from pyspark.sql import SparkSession

from tailrace_schemas.events.envelope import TableSchema
from tailrace_schemas.topics.topic_names import TableName
from tailrace_sink.delta.described_table import lake_table_of
from tailrace_sink.delta.fence import Fence
from tailrace_sink.delta.file_log import table_bytes, table_metadata
from tailrace_sink.delta.table_properties import new_table_properties, set_properties
from tailrace_sink.errors import ApplyFailed, LakeTableChanged, UnsupportedSchemaChange
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.options.modes import DeleteMode, Profile
from tailrace_sink.options.table_options import SchemaMode
from tailrace_sink.tables.column_identity import (
    DROPPED_PROPERTY,
)
from tailrace_sink.tables.described_table import features_of
from tailrace_sink.tables.lake_table import (
    CURRENT,
    DELETES_PROPERTY,
    DELETES_UNKNOWN,
    MODE_PROPERTY,
    NO_ZONE,
    OWNER_PROPERTY,
    Feature,
    Kind,
    LakeTable,
    table_at,
    table_path,
)
from tailrace_sink.tables.new_table import columns_ddl, create_statement, new_table
from tailrace_sink.tables.origins import in_shared_table
from tailrace_sink.tables.schema_changes import evolve, require_plain
from tailrace_sink.tables.schema_record import (
    SCHEMA_RECORD_PROPERTY,
    Change,
    record_of,
    record_text,
    replaced,
)

_log = structlog.get_logger("tailrace.sink")


class LakeTables:
    """The lake tables that this sink has taken; each is used by one thread at a time."""

    def __init__(self, config: SinkConfig, fence: Fence) -> None:
        self._config = config
        self._fence = fence
        self._known: dict[str, LakeTable] = {}
        self._batch = 0

    def begin_batch(self, batch: int) -> None:
        """Record the changes of columns from now on under a batch."""
        self._batch = batch

    def schema_changes(self) -> list[Change]:
        """Return the changes of columns that the tables' records have of the batch."""
        return [
            {"table": path, "mode": table.mode or str(SchemaMode.EVOLVE), **change}
            for path, table in sorted(self._known.items())
            for change in record_of(table.schema_record, self._batch)
        ]

    def follow(
        self,
        spark: SparkSession,
        versions: Sequence[TableSchema],
        kind: Kind,
        *,
        into: TableName | None = None,
        may_replace: bool = False,
    ) -> LakeTable:
        """Create or alter the lake table of a source table to hold some schema versions.

        Args:
            versions: of one source table, at least one, in any order.
            into: name of the lake table, if several source tables share it.
            may_replace: whether a table that cannot follow may be replaced, because the whole
                table is about to be written.

        Raises:
            UnsupportedSchemaChange: the lake cannot follow without losing values.
            UnsupportedType: a column has a type without a lake form.
        """
        source = versions[0].table
        ordered = [in_shared_table(version, into or source) for version in _by_age(versions)]
        path = new_table(ordered[0], kind).path
        location = f"{self._config.lake}/{path}"
        try:
            known = self._known.get(path) or self._read(spark, location, ordered[0].table, kind)
            if known is None:
                known = self._create(spark, ordered[0], location, kind)
            known = replace(known, origin=source if known.is_shared else None)
            followed, statements = self._evolve(known, ordered, location)
        except (UnsupportedSchemaChange, LakeTableChanged) as error:
            if not may_replace:
                raise
            return self.replaced(spark, versions, str(error))
        return self._carry_out(spark, followed, statements)

    def replaced(
        self, spark: SparkSession, versions: Sequence[TableSchema], reason: str
    ) -> LakeTable:
        """Replace a mirror by an empty one of these schema versions.

        Raises:
            UnsupportedSchemaChange, UnsupportedType: see :meth:`follow`.
        """
        ordered = _by_age(versions)
        table = ordered[0].table
        location = f"{self._config.lake}/{table_path(table)}"
        made = self._replace(spark, ordered[0], location, reason)
        _log.warning("lake_table_replaced", table=str(table), reason=reason)
        return self._carry_out(spark, *self._evolve(made, ordered, location))

    def _carry_out(
        self, spark: SparkSession, table: LakeTable, statements: Iterable[str]
    ) -> LakeTable:
        """Run the statements, after which the table is as given."""
        location = f"{self._config.lake}/{table.path}"
        for statement in statements:
            _log.info("lake_table_altered", table=str(table.table), statement=statement)
            self._fence.alter(spark, location, statement)
        self._known[table.path] = replace(table, is_new=False)
        return table

    def _evolve(
        self, table: LakeTable, versions: Sequence[TableSchema], location: str
    ) -> tuple[LakeTable, list[str]]:
        """Return the table after its changes, and their statements, with those for deletes."""
        stays_plain = self._config.profile is Profile.COMPATIBLE
        mode = self._config.schema_mode_of(table.table)
        followed, statements = evolve(
            table, versions, location, stays_plain=stays_plain, mode=mode, batch=self._batch
        )
        if mode != (table.mode or SchemaMode.EVOLVE):
            statements.append(set_properties(location, {MODE_PROPERTY: str(mode)}))
            followed = replace(followed, mode=str(mode))
        deletes = str(self._config.delete_mode)
        if deletes == DeleteMode.SOFT and table.deletes != deletes and table.kind is Kind.MIRROR:
            # Set before the first row of a deleted key stays: a created key may exist from then on.
            statements.append(set_properties(location, {DELETES_PROPERTY: deletes}))
            followed = replace(followed, deletes=deletes)
        return followed, statements

    def doubt_deletes(self, spark: SparkSession, table: LakeTable) -> LakeTable:
        """Record, in advance, that a table may have rows of keys that the source deleted.

        From then on creates are merged, as their keys may exist.
        """
        if table.kind.appends or table.deletes != DeleteMode.HARD:
            return table
        location = f"{self._config.lake}/{table.path}"
        statement = set_properties(location, {DELETES_PROPERTY: DELETES_UNKNOWN})
        self._fence.alter(spark, location, statement)
        doubted = replace(table, deletes=DELETES_UNKNOWN)
        self._known[table.path] = replace(doubted, is_new=False)
        return doubted

    def at(self, spark: SparkSession, path: str) -> LakeTable | None:
        """Return the present lake table at a path below the lake, or None."""
        location = f"{self._config.lake}/{path}"
        return self._known.get(path) or self._read(spark, location, *table_at(path))

    def forget(self, table: TableName | None = None) -> None:
        """Forget one table or all, as a failure may have come after some statements."""
        if table is None:
            self._known.clear()
            return
        for kind in Kind:
            self._known.pop(table_path(table, kind), None)

    def _create(
        self, spark: SparkSession, version: TableSchema, location: str, kind: Kind
    ) -> LakeTable:
        table = self._new(version, kind)
        name = f"{table.table.schema}.{table.table.table}"
        config = self._config
        mode = {MODE_PROPERTY: table.mode} if table.mode else {}
        is_history = kind is Kind.HISTORY
        statement = create_statement(
            table,
            location,
            {**new_table_properties(config), OWNER_PROPERTY: self._fence.owner, **mode},
            partition_by=[CURRENT] if is_history else config.partition_by.get(name, ()),
            cluster_by=() if is_history else config.cluster_by.get(name, ()),
        )
        spark.sql(statement)
        # An older sink may have created the table at the same time, and written to it.
        found = self._read(spark, location, table.table, kind)
        if found is None:
            raise ApplyFailed(f"creating table {table.table}", f"{location} became no Delta table")
        _log.info("lake_table_created", table=str(table.table), location=location)
        return table if found.is_new else found

    def _new(self, version: TableSchema, kind: Kind) -> LakeTable:
        table = new_table(version, kind)
        if self._config.profile is Profile.COMPATIBLE:
            require_plain(table)
        features = frozenset({Feature.COLUMN_MAPPING} if table.needs_mapping else ())
        deletes = str(self._config.delete_mode)
        mode = self._config.schema_mode_of(version.table)
        return replace(
            table,
            mode="" if mode is SchemaMode.EVOLVE else str(mode),
            features=features,
            recorded=table.identities,
            deletes=deletes,
            is_new=True,
        )

    def _replace(
        self, spark: SparkSession, version: TableSchema, location: str, reason: str
    ) -> LakeTable:
        """Overwrite a table by an empty one of these columns; earlier versions stay.

        CREATE OR REPLACE TABLE refuses another schema at a path (Delta 4.4.0).
        """
        table = self._new(version, Kind.MIRROR)
        found = table_metadata(spark, location)
        features = frozenset() if found is None else features_of(found.properties)
        needed = {feature.value: feature.on for feature in sorted(table.features - features)}
        if any(column.type == NO_ZONE for column in table.columns):
            needed["delta.feature.timestampNtz"] = "supported"
        if needed:
            self._fence.alter(spark, location, set_properties(location, needed))
        name = f"{version.table.schema}.{version.table.table}"
        no_rows: list[tuple[Any, ...]] = []
        empty = spark.createDataFrame(no_rows, columns_ddl(table))
        writer = empty.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
        if partition_by := self._config.partition_by.get(name):
            writer = writer.partitionBy(*partition_by)
        elif cluster_by := self._config.cluster_by.get(name):
            writer = writer.clusterBy(*cluster_by)
        self._fence.write(spark, location, partial(writer.save, location))
        # The old table's properties are void. The first statement of _evolve sets the others.
        record = record_text(self._batch, "", [replaced(reason)])
        properties = {DELETES_PROPERTY: table.deletes, DROPPED_PROPERTY: ""}
        properties |= {SCHEMA_RECORD_PROPERTY: record, MODE_PROPERTY: table.mode}
        self._fence.alter(spark, location, set_properties(location, properties))
        features |= table.features
        return replace(table, features=features, schema_lsn="", recorded="", schema_record=record)

    def _read(
        self, spark: SparkSession, location: str, table: TableName, kind: Kind
    ) -> LakeTable | None:
        self._fence.enter(spark, location)
        metadata = table_metadata(spark, location)
        if metadata is None:
            return None
        found = lake_table_of(table, metadata, kind)
        return replace(found, is_new=found.is_new or table_bytes(spark, location) == 0)


def _by_age(versions: Sequence[TableSchema]) -> list[TableSchema]:
    return sorted(versions, key=lambda version: version.schema_lsn)
