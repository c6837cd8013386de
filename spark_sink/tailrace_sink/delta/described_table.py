"""Description of a lake table by Delta's metadata."""

from __future__ import annotations

from tailrace_schemas.topics.topic_names import TableName
from tailrace_sink.delta.file_log import TableMetadata
from tailrace_sink.tables.described_table import Described, described_table
from tailrace_sink.tables.lake_table import Kind, LakeTable


def lake_table_of(table: TableName, metadata: TableMetadata, kind: Kind) -> LakeTable:
    """Describe a lake table by its metadata.

    Raises:
        LakeTableChanged: somebody else changed columns or properties that the sink needs.
    """
    columns = (
        Described(of.name, of.dataType.simpleString().upper(), of.metadata.get("comment"))
        for of in metadata.schema.fields
    )
    is_new = metadata.version == 0
    return described_table(table, kind, columns, metadata.properties, is_new=is_new)
