"""The table format port for Iceberg, for readers of a lake."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from tailrace_schemas.topics.topic_names import TableName
from tailrace_sink.errors import SnapshotExpired
from tailrace_sink.iceberg.catalog import IcebergCatalog
from tailrace_sink.iceberg.foreign_snapshots import foreign_change
from tailrace_sink.iceberg.loaded_table import LoadedTable, Snapshot
from tailrace_sink.iceberg.names import MAIN, PLACE_PROPERTY, TableId, require_place
from tailrace_sink.iceberg.past_columns import Field, as_it_was
from tailrace_sink.ports.writes import RowsChanged
from tailrace_sink.rows.same_rows import only_others_differ
from tailrace_sink.tables.described_table import Described, described_table
from tailrace_sink.tables.lake_table import (
    Feature,
    Kind,
    LakeTable,
    table_at,
    table_path,
)

_ROWS: Final = "total-records"


class IcebergTables:
    """The tables of a lake, as any session reads them (``TableReader``).

    Args:
        namespace: of a table, from {database} and {schema}.
    """

    branch = MAIN

    def __init__(self, catalog: IcebergCatalog, lake: str, namespace: str) -> None:
        self._catalog = catalog
        self._lake = lake
        self._namespace = namespace

    def version(self, spark: SparkSession, path: str) -> int:
        """Return the newest snapshot of a table; -1 if there is none."""
        found = self.loaded(path)
        head = None if found is None else found.head(self.branch)
        return -1 if head is None else head

    def described(
        self, spark: SparkSession, table: TableName, kind: Kind, at: int | None = None
    ) -> LakeTable | None:
        """Describe a table, now or at a snapshot; it has every feature."""
        found = self.loaded(table_path(table, kind))
        if found is None:
            return None
        now, is_new = found.java.schema(), self.total(found, _ROWS) == 0
        described = described_table(
            table, kind, self._columns(now), found.properties, frozenset(Feature), is_new=is_new
        )
        described = replace(described, has_few_widenings=True)
        return described if at is None else self._as_it_was(found, described, at)

    def _as_it_was(self, found: LoadedTable, now: LakeTable, at: int) -> LakeTable | None:
        snapshot = found.snapshot(at)
        if snapshot is None or snapshot.schema_id is None:
            return None
        then = found.java.schemas().get(snapshot.schema_id)
        present = self._fields(found.java.schema())
        return as_it_was(now, present, self._fields(then), found.properties)

    def rows(self, spark: SparkSession, path: str, at: int | None = None) -> DataFrame:
        """Read a table, now or at a snapshot.

        Raises:
            SnapshotExpired: the table no longer has the snapshot.
        """
        if at is None:
            return spark.table(self.name(path))
        found = self.loaded(path)
        if found is None or found.snapshot(at) is None:
            raise SnapshotExpired(f"{self._catalog.name}.{self._id(path)}", at)
        return spark.sql(f"SELECT * FROM {self._published_name(path)} VERSION AS OF {at}")

    def name(self, path: str) -> str:
        """Return a table's name in SQL; ``VERSION AS OF`` may follow it in a query."""
        return self._published_name(path)

    def require_own_rows(
        self, spark: SparkSession, path: str, since: int, log: str, prefix: str
    ) -> None:
        """Require that only the sink has changed rows of the main branch since a snapshot."""
        self._require_own(spark, path, self.loaded(path), since, log)

    def _require_own(
        self, spark: SparkSession, path: str, found: LoadedTable | None, since: int, log: str
    ) -> None:
        change = foreign_change(found, since, log, partial(self._spares, spark, path))
        if change is not None:
            raise RowsChanged(path, change)

    def _spares(self, spark: SparkSession, path: str, snapshot: Snapshot) -> bool:
        """Whether a snapshot changed only columns of a mirror that somebody else has added."""
        if snapshot.parent is None:
            return False
        table = self.described(spark, *table_at(path))
        rows = partial(self.rows, spark, path)
        return only_others_differ(table, rows, snapshot.parent, snapshot.id)

    def _published_name(self, path: str) -> str:
        return self._id(path).sql(self._catalog.name)

    def _id(self, path: str) -> TableId:
        return TableId.at(path, self._namespace)

    def loaded(self, path: str) -> LoadedTable | None:
        """Read the newest metadata of a table; None if there is none.

        Raises:
            NameTaken: the table is not of this lake.
        """
        name = self._id(path)
        found = self._catalog.load(name)
        if found is not None:
            place = found.property(PLACE_PROPERTY)
            require_place(place, self._lake, path, f"{self._catalog.name}.{name}")
        return found

    def _fields(self, schema: Any) -> list[Field]:
        ids = [int(of.fieldId()) for of in list(schema.columns())]
        return [Field(*of) for of in zip(ids, self._columns(schema), strict=True)]

    def _columns(self, schema: Any) -> list[Described]:
        """Describe the columns of a schema of Java."""
        struct = self._catalog.jvm.spark.SparkSchemaUtil.convert(schema)
        return [
            Described(of.name, of.dataType.simpleString().upper(), of.metadata.get("comment"))
            for of in StructType.fromJson(json.loads(struct.json()))
        ]

    def total(self, table: LoadedTable, name: str) -> int | None:
        """Return a total of the newest snapshot's summary; None if its writer left it out."""
        head = table.head(self.branch)
        if head is None:
            return 0
        found = table.summary_entry(head, name)
        return None if found is None else int(found)
