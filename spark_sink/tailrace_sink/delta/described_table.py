"""Description of a lake table by Delta's metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tailrace_schemas.topics.topic_names import TableName
from tailrace_sink.delta.file_log import TableMetadata
from tailrace_sink.tables.described_table import Described, described_table
from tailrace_sink.tables.lake_table import Feature, Kind, LakeTable

FEATURES: Final[Mapping[Feature, tuple[str, str]]] = {
    Feature.COLUMN_MAPPING: ("delta.columnMapping.mode", "name"),
    Feature.TYPE_WIDENING: ("delta.enableTypeWidening", "true"),
    Feature.NO_ZONE: ("delta.feature.timestampNtz", "supported"),
}
"""Properties that turn features on, all of them later and without a rewrite. Source: Delta Lake's
documentation of column mapping and of type widening. ALTER does not add the type without a zone
automatically, as CREATE does."""


def lake_table_of(table: TableName, metadata: TableMetadata, kind: Kind) -> LakeTable:
    """Describe a lake table by its metadata.

    Raises:
        LakeTableChanged: somebody else changed columns or properties that the sink needs.
    """
    columns = (
        Described(of.name, of.dataType.simpleString().upper(), of.metadata.get("comment"))
        for of in metadata.schema.fields
    )
    properties, is_new = metadata.properties, metadata.version == 0
    features = features_of(metadata)
    return described_table(table, kind, columns, properties, features, is_new=is_new)


def features_of(metadata: TableMetadata) -> frozenset[Feature]:
    """Return the features that a table has on."""
    found = {of: metadata.properties.get(name, "none") for of, (name, _) in FEATURES.items()}
    return frozenset(f for f, value in found.items() if value.lower() not in {"none", "false"})
