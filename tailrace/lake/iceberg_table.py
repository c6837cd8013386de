"""A lake table in Iceberg at the snapshot of a commit row: its description and its rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pyarrow as pa
from pyiceberg.exceptions import ResolveError
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFileContent, FileFormat

from tailrace.lake.catalog import Catalog
from tailrace.lake.errors import NeedsSpark
from tailrace.lake.folded import plain_schema
from tailrace_schemas.topics.topic_names import TableName
from tailrace_sink.errors import SnapshotExpired
from tailrace_sink.iceberg.past_columns import Field, as_it_was
from tailrace_sink.reading.cut_errors import CutUnknown
from tailrace_sink.tables.described_table import Described, described_table
from tailrace_sink.tables.lake_table import CHANGED, Kind, LakeTable, table_path

_SQL_TYPES: Final = {
    "boolean": "BOOLEAN",
    "int": "INT",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "date": "DATE",
    "timestamp": "TIMESTAMP_NTZ",
    "timestamptz": "TIMESTAMP",
    "string": "STRING",
    "uuid": "STRING",
    "binary": "BINARY",
}
"""Spark's SQL names of Iceberg's types."""


class IcebergTable:
    """A lake table at a snapshot.

    Raises:
        CutUnknown: there is no such table.
        SnapshotExpired: the table no longer has the snapshot.
        CatalogUnavailable, CatalogUnusable, ConfigError, NeedsSpark, NameTaken: see ``Cut.read``.
    """

    def __init__(self, catalog: Catalog, table: TableName, kind: Kind, snapshot: int) -> None:
        path = table_path(table, kind)
        found = catalog.table(path)
        if found is None:
            raise CutUnknown(
                f"table {table} is gone from the Iceberg catalog {catalog.name}: it was dropped or"
                " renamed. Fix: rename it back, or have the publisher send all rows again (tailrace"
                " snapshot)"
            )
        self._catalog = catalog
        self._name = table
        self._table = found
        self._snapshot = found.snapshot_by_id(snapshot)
        schemas = {schema.schema_id: schema for schema in found.metadata.schemas}
        schema_id = None if self._snapshot is None else self._snapshot.schema_id
        if schema_id not in schemas:
            raise SnapshotExpired(f"{catalog.name}.{'.'.join(found.name())}", snapshot)
        self._schema = schemas[schema_id]

    @property
    def has_changed_columns(self) -> bool:
        """Whether every row is a change."""
        return CHANGED in self._schema.column_names

    def described(self, kind: Kind) -> LakeTable:
        """Describe the table.

        Raises:
            LakeTableChanged: somebody else changed columns or properties that the sink needs.
        """
        properties = self._table.properties
        present = _fields(self._table.schema())
        columns = (field.column for field in present)
        now = described_table(self._name, kind, columns, properties)
        now = replace(now, has_few_widenings=True)
        return as_it_was(now, present, _fields(self._schema), properties)

    @property
    def rows(self) -> pa.Table:
        """All rows, in memory.

        Raises:
            NeedsSpark: pyiceberg does not read the table, or not all deletion vectors of it.
            LakeUnreadable, StoreUnusable: a file cannot be read.
        """
        wanted = plain_schema(schema_to_pyarrow(self._schema, include_field_ids=False))
        with self._catalog.store.reading(self._table.location()):
            try:
                found = self._table.scan(snapshot_id=self._snapshot.snapshot_id).to_arrow()
                expected = self._counted()
            except (ResolveError, NotImplementedError, ValueError) as error:
                if isinstance(error, pa.ArrowException):
                    raise
                raise self._needs_spark(f"pyiceberg does not read it ({error})") from error
        if found.num_rows != expected:
            raise self._needs_spark(
                f"pyiceberg found {found.num_rows} rows, and its manifests count {expected}"
            )
        return found.cast(wanted)

    def _counted(self) -> int:
        """Count the rows by the manifests, without pyiceberg's plan of a scan.

        A plan that missed a deletion vector would return rows that were deleted.
        """
        count = 0
        for manifest in self._snapshot.manifests(self._table.io):
            for entry in manifest.fetch_manifest_entry(self._table.io):
                file = entry.data_file
                if file.content == DataFileContent.DATA:
                    count += file.record_count
                elif file.file_format == FileFormat.PUFFIN:
                    count -= file.record_count
                else:
                    raise NotImplementedError("it has delete files that are no deletion vectors")
        return count

    def _needs_spark(self, reason: str) -> NeedsSpark:
        return NeedsSpark(f"table {self._name} at snapshot {self._snapshot.snapshot_id}", reason)


def _fields(schema: Any) -> list[Field]:
    """Describe the columns of a schema of pyiceberg."""
    return [
        Field(field.field_id, Described(field.name, _sql_type(field.field_type), field.doc))
        for field in schema.fields
    ]


def _sql_type(type_: Any) -> str:
    """Return Spark's SQL name of a type; empty for one that no source has."""
    text = str(type_)
    if text.startswith("decimal"):
        return text.upper().replace(" ", "")
    return "BINARY" if text.startswith("fixed") else _SQL_TYPES.get(text, "")
