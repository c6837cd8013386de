"""Creating lake tables and altering them, with our own "already there?" check.

ALTER TABLE is not guarded by Delta's transaction versions, so what a table looks like is read from
the table itself when this process first meets it; from then on this process is the only one that
alters it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import structlog
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from tailrace_schemas.envelope import TableSchema
from tailrace_schemas.topics import TableName
from tailrace_sink.config import SinkConfig
from tailrace_sink.delta_log import table_metadata
from tailrace_sink.errors import LakeTableChanged, UnsupportedSchemaChange
from tailrace_sink.lake_table import (
    CHANGES_COLUMNS,
    SCHEMA_LSN_PROPERTY,
    LakeColumn,
    LakeTable,
    columns_ddl,
    create_statement,
    evolve,
    literal,
    new_table,
    parse_comment,
    quote,
    table_path,
)

_PROPERTIES: Final[Mapping[str, str]] = {
    # Without deletion vectors every MERGE rewrites the files it touches.
    "delta.enableDeletionVectors": "true",
    # Renames and wider types without a rewrite.
    "delta.columnMapping.mode": "name",
    "delta.enableTypeWidening": "true",
    # A later date column that becomes datetime2 needs it; it cannot be added by ALTER alone.
    "delta.feature.timestampNtz": "supported",
    # Every batch leaves small files: Delta compacts them once fifty have gathered.
    "delta.autoOptimize.autoCompact": "true",
}

_LOG_KEPT_TIMES: Final = 3
"""How many times longer than the cuts the log of a table is kept."""

_log = structlog.get_logger("tailrace.sink")


class LakeTables:
    """The lake tables that this process has met.

    Used by one thread per table at a time.
    """

    def __init__(self, config: SinkConfig) -> None:
        self._config = config
        self._known: dict[str, LakeTable] = {}

    def follow(
        self,
        spark: SparkSession,
        versions: Sequence[TableSchema],
        *,
        is_changes: bool,
        may_replace: bool = False,
    ) -> LakeTable:
        """The lake table of a source table, created or altered to hold these schema versions.

        Args:
            spark: the session to run the statements in.
            versions: schema versions of one source table, at least one, in any order.
            is_changes: whether every change is to be a row: the companion of a keyed table, or a
                keyless table itself.
            may_replace: whether the whole table is about to be written, so that a table which
                cannot follow is made anew.

        Raises:
            UnsupportedSchemaChange: the lake cannot follow without losing values.
            UnsupportedType: a column has a type without a lake form.
        """
        ordered = sorted(versions, key=lambda version: version.schema_lsn)
        table = ordered[0].table
        path = new_table(ordered[0], is_changes=is_changes).path
        location = f"{self._config.lake}/{path}"
        known = self._known.get(path) or self._read(spark, table, location, is_changes=is_changes)
        if known is None:
            known = new_table(ordered[0], is_changes=is_changes)
            self._create(spark, known, location)
        try:
            followed, statements = evolve(known, ordered, location)
        except UnsupportedSchemaChange as error:
            if not may_replace:
                raise
            made = replace(new_table(ordered[0], is_changes=is_changes), schema_lsn="")
            followed, statements = evolve(made, ordered, location)
            self._replace(spark, made, location)
            _log.warning("lake_table_replaced", table=str(table), reason=str(error))
        for statement in statements:
            _log.info("lake_table_altered", table=str(table), statement=statement)
            spark.sql(statement)
        self._known[path] = followed
        return followed

    def known(self, spark: SparkSession, table: TableName) -> LakeTable | None:
        """The lake table of a source table as it is, or None when there is none."""
        path = table_path(table)
        location = f"{self._config.lake}/{path}"
        return self._known.get(path) or self._read(spark, table, location, is_changes=False)

    def forget(self) -> None:
        """Read the tables anew: after a failure it is open which statements ran."""
        self._known.clear()

    def _create(self, spark: SparkSession, table: LakeTable, location: str) -> None:
        name = f"{table.table.schema}.{table.table.table}"
        config = self._config
        statement = create_statement(
            table,
            location,
            {**_PROPERTIES, **_retention(config), **config.table_properties},
            partition_by=config.partition_by.get(name, ()),
            cluster_by=config.cluster_by.get(name, ()),
        )
        spark.sql(statement)
        _log.info("lake_table_created", table=str(table.table), location=location)

    def _replace(self, spark: SparkSession, table: LakeTable, location: str) -> None:
        """An empty table of these columns in place of what is there; earlier versions stay.

        CREATE OR REPLACE TABLE refuses another schema at a path (Delta 4.4.0).
        """
        name = f"{table.table.schema}.{table.table.table}"
        no_rows: list[tuple[Any, ...]] = []
        empty = spark.createDataFrame(no_rows, columns_ddl(table))
        writer = empty.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
        if partition_by := self._config.partition_by.get(name):
            writer = writer.partitionBy(*partition_by)
        elif cluster_by := self._config.cluster_by.get(name):
            writer = writer.clusterBy(*cluster_by)
        writer.save(location)

    @staticmethod
    def _read(
        spark: SparkSession, table: TableName, location: str, *, is_changes: bool
    ) -> LakeTable | None:
        metadata = table_metadata(spark, location)
        if metadata is None:
            return None
        return LakeTable(
            table=table,
            is_changes=is_changes,
            columns=_columns(table, metadata.schema),
            schema_lsn=metadata.properties.get(SCHEMA_LSN_PROPERTY, ""),
        )


def _columns(table: TableName, schema: StructType) -> tuple[LakeColumn, ...]:
    columns = []
    for field in schema.fields:
        if field.name in CHANGES_COLUMNS:
            continue
        identity = parse_comment(field.metadata.get("comment"))
        if identity is None:
            raise LakeTableChanged(str(table), field.name)
        sql_type, column_id, key_ordinal = identity
        type_ = field.dataType.simpleString().upper()
        columns.append(LakeColumn(field.name, column_id, type_, sql_type, key_ordinal))
    return tuple(columns)


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


def set_retention(spark: SparkSession, config: SinkConfig, path: str) -> None:
    """Give a lake table that was made under other options the retention that they ask for now.

    Args:
        spark: any session.
        config: the options.
        path: of the table below the lake; without a table there, nothing is done.
    """
    location = f"{config.lake}/{path}"
    metadata = table_metadata(spark, location)
    if metadata is None:
        return
    wanted = _retention(config)
    changed = {name: v for name, v in wanted.items() if metadata.properties.get(name) != v}
    if not changed:
        return
    listed = ", ".join(f"{literal(name)} = {literal(value)}" for name, value in changed.items())
    spark.sql(f"ALTER TABLE delta.{quote(location)} SET TBLPROPERTIES ({listed})")
    _log.info("lake_table_retention_changed", table=path, **changed)
