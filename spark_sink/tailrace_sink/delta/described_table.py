"""Description of a lake table by its metadata."""

from __future__ import annotations

from pyspark.sql.types import StructType

from tailrace_schemas.topics.topic_names import TableName
from tailrace_sink.delta.file_log import TableMetadata
from tailrace_sink.errors import LakeTableChanged
from tailrace_sink.tables.column_identity import (
    COLUMNS_PROPERTY,
    DROPPED_PROPERTY,
    known_identities,
    parse_dropped,
)
from tailrace_sink.tables.lake_table import (
    DELETES_PROPERTY,
    MODE_PROPERTY,
    OWN_COLUMNS,
    SCHEMA_LSN_PROPERTY,
    Feature,
    Kind,
    LakeColumn,
    LakeTable,
)
from tailrace_sink.tables.schema_record import SCHEMA_RECORD_PROPERTY


def lake_table_of(table: TableName, metadata: TableMetadata, kind: Kind) -> LakeTable:
    """Describe a lake table by its metadata.

    Raises:
        LakeTableChanged: somebody else changed columns or properties that the sink needs.
    """
    properties = metadata.properties
    columns, foreign = _columns(table, metadata)
    return LakeTable(
        table=table,
        kind=kind,
        columns=columns,
        schema_lsn=properties.get(SCHEMA_LSN_PROPERTY, ""),
        features=features_of(metadata),
        foreign=foreign,
        recorded=properties.get(COLUMNS_PROPERTY, ""),
        dropped=parse_dropped(properties.get(DROPPED_PROPERTY)),
        mode=properties.get(MODE_PROPERTY, ""),
        schema_record=properties.get(SCHEMA_RECORD_PROPERTY, ""),
        deletes=properties.get(DELETES_PROPERTY, ""),
        is_new=metadata.version == 0,
    )


def features_of(metadata: TableMetadata) -> frozenset[Feature]:
    """Return the features that a table has on."""
    found = {feature: metadata.properties.get(feature.value, "none") for feature in Feature}
    return frozenset(f for f, value in found.items() if value.lower() not in {"none", "false"})


def _columns(
    table: TableName, metadata: TableMetadata
) -> tuple[tuple[LakeColumn, ...], frozenset[str]]:
    """Split columns into those that mirror the source's and those that somebody else added.

    Raises:
        LakeTableChanged: a mirrored column is gone, or the property that names them is damaged.
    """
    schema: StructType = metadata.schema
    fields = [field for field in schema.fields if field.name not in OWN_COLUMNS]
    comments = {field.name: field.metadata.get("comment") for field in fields}
    try:
        identities, must_have = known_identities(metadata.properties, comments)
    except ValueError as error:
        raise LakeTableChanged(str(table), "", f"{COLUMNS_PROPERTY}: {error}") from error
    columns = tuple(
        LakeColumn(
            field.name,
            identities[field.name].column_id,
            field.dataType.simpleString().upper(),
            identities[field.name].sql_type,
            identities[field.name].key_ordinal,
            comments[field.name],
        )
        for field in fields
        if field.name in identities
    )
    missing = must_have - {column.column_id for column in columns}
    if missing or not columns:
        gone = [name for name, identity in identities.items() if identity.column_id in missing]
        raise LakeTableChanged(str(table), ", ".join(sorted(gone)), "it was renamed or dropped")
    return columns, frozenset(f.name.lower() for f in fields if f.name not in identities)
