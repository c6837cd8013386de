"""Creation and alteration of lake tables, only if still needed.

Batch ids do not guard ALTER TABLE. So the sink takes a table at its first use, and reads its
present columns from the table itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import structlog
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tailrace_schemas.events.envelope import TableSchema
from tailrace_schemas.topics.topic_names import TableName
from tailrace_sink.errors import ApplyFailed, LakeTableChanged, UnsupportedSchemaChange
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.options.modes import DeleteMode, Profile
from tailrace_sink.options.table_options import SchemaMode
from tailrace_sink.ports.table_format import TableWriter
from tailrace_sink.spark.jvm_errors import is_analysis_error, translated
from tailrace_sink.tables.column_identity import DROPPED_PROPERTY
from tailrace_sink.tables.lake_table import (
    DELETES_PROPERTY,
    DELETES_UNKNOWN,
    MODE_PROPERTY,
    Feature,
    Kind,
    LakeTable,
    set_properties,
    table_at,
    table_path,
)
from tailrace_sink.tables.new_table import new_table
from tailrace_sink.tables.origins import in_shared_table
from tailrace_sink.tables.schema_changes import evolve, require_plain
from tailrace_sink.tables.schema_record import (
    SCHEMA_RECORD_PROPERTY,
    Change,
    record_of,
    record_text,
    replaced,
)

_WITHOUT_IT: Final = (
    "leave the column out (publisher.columns.exclude), rename it at the source, or choose"
    " sink.format: delta; then take a new snapshot: tailrace snapshot"
)

_log = structlog.get_logger("tailrace.sink")


class LakeTables:
    """The lake tables that this sink has taken; each is used by one thread at a time."""

    def __init__(self, config: SinkConfig, tables: TableWriter) -> None:
        self._config = config
        self._tables = tables
        self._reserved = tables.reserved
        self._known: dict[str, LakeTable] = {}
        self._batch = 0
        self._since: dict[str, int] = {}
        self._builds_on: dict[str, int] = {}
        self._written: dict[str, int] = {}

    def begin_batch(self, batch: int, versions: Mapping[str, int]) -> None:
        """Record the changes of columns from now on under a batch.

        Args:
            versions: path to version of each table in the last cut. A table outside of it that the
                last batch did not write was stopped, or is new, so it is adopted as it is.
        """
        self._batch = batch
        # A table outside of the cuts may get a snapshot in parts: one part a batch.
        self._since = {**self._written, **versions}
        self._written = {}
        self._known = {path: known for path, known in self._known.items() if path in self._since}

    def adopt(self, table: TableName) -> None:
        """Take a mirror as it is, because all its rows are about to be written."""
        path = table_path(table)
        self._known.pop(path, None)
        self._since.pop(path, None)

    def written(self, spark: SparkSession, path: str) -> int:
        """Return a table's version with what the batch wrote; the next batch builds on it.

        Raises:
            RowsChanged: somebody else changed rows meanwhile.
        """
        version = self._tables.written(spark, path, self._builds_on[path])
        self._builds_on[path] = self._written[path] = version
        return version

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
        try:
            known = self._known.get(path) or self._read(spark, ordered[0].table, kind)
            if known is None:
                known = self._create(spark, ordered[0], kind)
            known = replace(known, origin=source if known.is_shared else None)
            followed, changes = self._evolve(known, ordered)
        except (UnsupportedSchemaChange, LakeTableChanged) as error:
            if not may_replace:
                raise
            return self.replaced(spark, versions, str(error))
        try:
            return self._carry_out(spark, followed, changes)
        except (PySparkException, Py4JError) as error:
            if not may_replace or not is_analysis_error(error):
                raise
            return self.replaced(spark, versions, str(translated("ALTER TABLE", error)))

    def replaced(
        self, spark: SparkSession, versions: Sequence[TableSchema], reason: str
    ) -> LakeTable:
        """Replace a mirror by an empty one of these schema versions.

        Raises:
            UnsupportedSchemaChange, UnsupportedType: see :meth:`follow`.
        """
        ordered = _by_age(versions)
        made = self._replace(spark, ordered[0], reason)
        _log.warning("lake_table_replaced", table=str(made.table), reason=reason)
        return self._carry_out(spark, *self._evolve(made, ordered))

    def _carry_out(
        self, spark: SparkSession, table: LakeTable, changes: Iterable[str | Feature]
    ) -> LakeTable:
        """Carry changes out, after which the table is as given."""
        for change in changes:
            _log.info("lake_table_altered", table=str(table.table), statement=str(change))
            self._tables.alter(spark, table.path, change)
        self._known[table.path] = replace(table, is_new=False)
        return table

    def _evolve(
        self, table: LakeTable, versions: Sequence[TableSchema]
    ) -> tuple[LakeTable, list[str | Feature]]:
        """Return the table after its changes, and these, with those for deletes."""
        stays_plain = self._config.profile is Profile.COMPATIBLE
        mode = self._config.schema_mode_of(table.table)
        followed, changes = evolve(
            table, versions, stays_plain=stays_plain, mode=mode, batch=self._batch
        )
        for name in (of.name for of in followed.columns if of.name.lower() in self._reserved):
            problem = f"{self._config.format} reserves this name for columns of its own"
            raise UnsupportedSchemaChange(str(table.table), name, problem, _WITHOUT_IT)
        if mode != (table.mode or SchemaMode.EVOLVE):
            changes.append(set_properties({MODE_PROPERTY: str(mode)}))
            followed = replace(followed, mode=str(mode))
        deletes = str(self._config.delete_mode)
        if deletes == DeleteMode.SOFT and table.deletes != deletes and table.kind is Kind.MIRROR:
            # Set before the first row of a deleted key stays: a created key may exist from then on.
            changes.append(set_properties({DELETES_PROPERTY: deletes}))
            followed = replace(followed, deletes=deletes)
        return followed, changes

    def doubt_deletes(self, spark: SparkSession, table: LakeTable) -> LakeTable:
        """Record, in advance, that a table may have rows of keys that the source deleted.

        From then on creates are merged, as their keys may exist.
        """
        if table.kind.appends or table.deletes != DeleteMode.HARD:
            return table
        self._tables.alter(spark, table.path, set_properties({DELETES_PROPERTY: DELETES_UNKNOWN}))
        doubted = replace(table, deletes=DELETES_UNKNOWN)
        self._known[table.path] = replace(doubted, is_new=False)
        return doubted

    def at(self, spark: SparkSession, path: str) -> LakeTable | None:
        """Return the present lake table at a path below the lake, or None."""
        return self._known.get(path) or self._read(spark, *table_at(path))

    def forget(self, table: TableName | None = None) -> None:
        """Forget one table or all, as a failure may have come after some statements."""
        if table is None:
            self._known.clear()
            return
        for kind in Kind:
            self._known.pop(table_path(table, kind), None)
            self._written.pop(table_path(table, kind), None)

    def _create(self, spark: SparkSession, version: TableSchema, kind: Kind) -> LakeTable:
        table = self._new(version, kind)
        self._tables.create(spark, table)
        # An older sink may have created the table at the same time, and written to it.
        found = self._read(spark, table.table, kind)
        location = f"{self._config.lake}/{table.path}"
        if found is None:
            raise ApplyFailed(f"creating table {table.table}", f"there is no table at {location}")
        _log.info("lake_table_created", table=str(table.table), location=location)
        return found

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

    def _replace(self, spark: SparkSession, version: TableSchema, reason: str) -> LakeTable:
        """Replace a table by an empty one of these columns; earlier versions stay."""
        table = self._tables.replace(spark, self._new(version, Kind.MIRROR))
        # The old table's properties are void. The first change of _evolve sets the others.
        record = record_text(self._batch, "", [replaced(reason)])
        properties = {DELETES_PROPERTY: table.deletes, DROPPED_PROPERTY: ""}
        properties |= {SCHEMA_RECORD_PROPERTY: record, MODE_PROPERTY: table.mode}
        self._tables.alter(spark, table.path, set_properties(properties))
        return replace(table, schema_lsn="", recorded="", schema_record=record)

    def _read(self, spark: SparkSession, table: TableName, kind: Kind) -> LakeTable | None:
        path = table_path(table, kind)
        # Before it is taken, which is a commit: a table without its newest commit would get one.
        self._builds_on[path] = self._tables.builds_on(spark, path, self._since.get(path))
        self._tables.take(spark, path)
        found = self._tables.described(spark, table, kind)
        if found is None:
            return None
        return replace(found, is_new=found.is_new or self._tables.bytes(spark, path) == 0)


def _by_age(versions: Sequence[TableSchema]) -> list[TableSchema]:
    return sorted(versions, key=lambda version: version.schema_lsn)
