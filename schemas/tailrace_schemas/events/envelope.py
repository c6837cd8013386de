"""The Avro schemas of a table's change events, built from its columns.

Debezium's shape and names, so that everything that reads Debezium events reads ours; ``source`` has
our fields after Debezium's. Every non-key column is a nullable union with default null, whatever
the source declares. Change tables hold NULL where the source cannot (large values, dropped
columns). And adding or dropping a column stays compatible.

The schema says where it comes from, so that the timeline of versions can be rebuilt from the
registry alone:

- on the envelope: ``captureInstance``, ``schemaLsn``, ``sqlTable`` (database, schema, table);
- on each field of the row: ``sqlName``, ``sqlType``, ``columnId`` and, on key columns, ``sqlKey``;
- where the options leave captured columns out: ``captureOrdinal``, the place in the change table;
- where they have values masked, truncated or hashed: ``transform``; ``sqlType`` is then the type of
  what is published.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import Any, Final

from tailrace_schemas.avsc import load
from tailrace_schemas.events.cloud_events import POSITION_ATTRIBUTE
from tailrace_schemas.events.column_types import AvroSchema, ColumnType, avro_type
from tailrace_schemas.events.forms import POSITION_FIELD, EventForm, form_of, row_fields
from tailrace_schemas.events.json_schema import column_fields
from tailrace_schemas.events.serializations import is_json_schema
from tailrace_schemas.events.transforms import ColumnTransform
from tailrace_schemas.position.change_position import ChangePosition, Operation
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.escaped_names import avro_name
from tailrace_schemas.topics.topic_names import TableName

VERSION: Final = metadata.version("tailrace")
CONNECTOR: Final = "sqlserver"

SOURCE_SCHEMA: Final[dict[str, Any]] = load("source")
"""The ``source`` block; its fields are explained in avsc/source.avsc."""

_POSITION_FIELDS: Final = {"commit_lsn", "command_id", "change_lsn", "operation"}

TRANSACTION_SCHEMA: Final[dict[str, Any]] = load("transaction")
"""The ``transaction`` block."""

ENVELOPE_FIELDS: Final[list[dict[str, Any]]] = [
    {"name": "source", "type": SOURCE_SCHEMA},
    {"name": "op", "type": "string"},
    {"name": "ts_ms", "type": ["null", "long"], "default": None},
    {"name": "transaction", "type": ["null", TRANSACTION_SCHEMA], "default": None},
]
"""The fields after the row images."""


@dataclass(frozen=True, slots=True)
class SchemaColumn:
    """A captured column.

    Attributes:
        column_id: ``column_id`` of the source table; it survives renames.
        name: as SQL Server spells it.
        type: the type that the change table's values have in this version; of what is published,
            where ``transform`` says that it is something else.
        nullable: whether the source column allows NULL.
        key_ordinal: 1-based place in the event key, 0 when not part of it.
        lossless: carry scale-7 times as text.
        transform: how its values are changed; None: they are published as they are.
        ordinal: 1-based place in the change table, which is its bit in the update mask; 0 where
            every captured column is published, so that its place in the version says it.
    """

    column_id: int
    name: str
    type: ColumnType
    nullable: bool = True
    key_ordinal: int = 0
    lossless: bool = False
    transform: ColumnTransform | None = None
    ordinal: int = 0

    @property
    def is_required(self) -> bool:
        """Whether its Avro field is not a union with null: non-null key columns only."""
        return self.key_ordinal > 0 and not self.nullable


@dataclass(frozen=True, slots=True)
class TableSchema:
    """The published columns of one capture instance in one version, in the change table's order.

    ``(capture_instance, schema_lsn)`` is the version's identity: reproducible after a restart.
    ``schema_lsn`` is the ``ddl_lsn`` that began it, or the instance's start LSN.
    """

    table: TableName
    capture_instance: str
    schema_lsn: Lsn
    columns: tuple[SchemaColumn, ...]

    @property
    def key_columns(self) -> tuple[SchemaColumn, ...]:
        """The columns of the event key in key order; empty for a keyless table."""
        keyed = [column for column in self.columns if column.key_ordinal]
        return tuple(sorted(keyed, key=lambda column: column.key_ordinal))


def namespace_of(prefix: str, table: TableName) -> str:
    """The Avro namespace of a table's records."""
    parts = (prefix, table.database, table.schema, table.table)
    return ".".join(avro_name(part) for part in parts)


def _field(column: SchemaColumn) -> dict[str, Any]:
    base: AvroSchema = avro_type(column.type, lossless=column.lossless)
    field: dict[str, Any] = {"name": avro_name(column.name)}
    if column.is_required:
        field["type"] = base
    else:
        field["type"] = ["null", base]
        field["default"] = None
    field["sqlName"] = column.name
    field["sqlType"] = str(column.type)
    field["columnId"] = column.column_id
    if column.key_ordinal:
        field["sqlKey"] = column.key_ordinal
    if column.ordinal:
        field["captureOrdinal"] = column.ordinal
    if column.transform is not None:
        field["transform"] = column.transform.attribute()
    return field


def row_schema(prefix: str, schema: TableSchema) -> dict[str, Any]:
    """The record of a row image (named ``Value``, as Debezium names it)."""
    return {
        "type": "record",
        "name": "Value",
        "namespace": namespace_of(prefix, schema.table),
        "fields": [_field(column) for column in schema.columns],
    }


def envelope_schema(prefix: str, schema: TableSchema) -> dict[str, Any]:
    """The schema of a data topic's value.

    Raises:
        UnsupportedType: a column has a type without an Avro form.
    """
    row = row_schema(prefix, schema)
    namespace = row["namespace"]
    return {
        "type": "record",
        "name": "Envelope",
        "namespace": namespace,
        "captureInstance": schema.capture_instance,
        "schemaLsn": str(schema.schema_lsn),
        "sqlTable": [schema.table.database, schema.table.schema, schema.table.table],
        "fields": [
            {"name": "before", "type": ["null", row], "default": None},
            {"name": "after", "type": ["null", f"{namespace}.Value"], "default": None},
            *ENVELOPE_FIELDS,
        ],
    }


def position_only(envelope: dict[str, Any]) -> dict[str, Any]:
    """The schema of an event, of either form, with nothing but the position.

    A reader skips the rest undecoded.
    """
    if form_of(envelope) is EventForm.FLAT:
        held = [field for field in envelope["fields"] if field["name"] == POSITION_FIELD]
        return {**envelope, "fields": held}
    return nested_only(envelope, {"source"}, _POSITION_FIELDS)


def nested_only(
    envelope: dict[str, Any], fields: Container[str], of_source: Container[str]
) -> dict[str, Any]:
    """The schema of a nested event with some of its fields, and some of its ``source``'s."""
    kept = [dict(field) for field in envelope["fields"] if field["name"] in fields]
    for field in kept:
        if field["name"] == "source":
            inner = [found for found in field["type"]["fields"] if found["name"] in of_source]
            field["type"] = {**field["type"], "fields": inner}
    return {**envelope, "fields": kept}


def position_of(event: Mapping[str, Any]) -> ChangePosition:
    """The position of an event of any form: in its ``source``, or in a field of its own.

    Raises:
        ValueError: a field has another form.
    """
    packed = event.get(POSITION_FIELD) or event.get(POSITION_ATTRIBUTE)
    if packed is not None:
        return ChangePosition.from_bytes(bytes.fromhex(packed))
    source = event["source"]
    return ChangePosition(
        Lsn.parse(source["commit_lsn"]),
        source["command_id"] or 0,
        Lsn.parse(source["change_lsn"]) if source["change_lsn"] else Lsn.ZERO,
        Operation(source["operation"] or 0),
    )


def key_schema(prefix: str, schema: TableSchema) -> dict[str, Any] | None:
    """The schema of a data topic's key, or None for a keyless table."""
    if not schema.key_columns:
        return None
    return {
        "type": "record",
        "name": "Key",
        "namespace": namespace_of(prefix, schema.table),
        "fields": [_field(column) for column in schema.key_columns],
    }


def table_schema_of(envelope: dict[str, Any]) -> TableSchema:
    """Rebuild the version from the registered schema of its events, of any form, Avro or JSON.

    Raises:
        ValueError: not an envelope of ours.
    """
    try:
        is_json = is_json_schema(envelope)
        fields = column_fields(envelope) if is_json else row_fields(envelope)
        columns = tuple(_column_of(field) for field in fields)
        return TableSchema(
            table=TableName(*envelope["sqlTable"]),
            capture_instance=envelope["captureInstance"],
            schema_lsn=Lsn.parse(envelope["schemaLsn"]),
            columns=columns,
        )
    except (KeyError, IndexError, TypeError) as error:
        raise ValueError(f"not an envelope schema of Tailrace: {error!r}") from error


def _column_of(field: dict[str, Any]) -> SchemaColumn:
    column_type = ColumnType.parse(field["sqlType"])
    is_union = isinstance(field["type"], list)
    base = field["type"][1] if is_union else field["type"]
    return SchemaColumn(
        column_id=field["columnId"],
        name=field["sqlName"],
        type=column_type,
        nullable=is_union,
        key_ordinal=field.get("sqlKey", 0),
        lossless=base == "string" and column_type.name in {"time", "datetime2"},
        transform=ColumnTransform.of_attribute(field.get("transform")),
        ordinal=field.get("captureOrdinal", 0),
    )
