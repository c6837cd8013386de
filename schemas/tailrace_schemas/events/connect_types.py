"""What Kafka Connect takes a field for: its types and the names of its logical types.

The names are those that Debezium's connector gives them with ``time.precision.mode=microseconds``
(https://debezium.io/documentation/reference/stable/connectors/sqlserver.html#sqlserver-data-types),
but dates, which are Connect's own: so its AvroConverter reads Avro's ``date`` already.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tailrace_schemas.events.column_types import AvroSchema
from tailrace_schemas.events.serializations import JsonDecimals

DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
DATE: Final = "org.apache.kafka.connect.data.Date"
LOGICAL_VERSION: Final = 1

_PRIMITIVES: Final = {
    "boolean": "boolean",
    "int": "int32",
    "long": "int64",
    "float": "float",
    "double": "double",
    "string": "string",
    "bytes": "bytes",
}
_LOGICAL: Final = {
    "date": DATE,
    "time-micros": "io.debezium.time.MicroTime",
    "local-timestamp-micros": "io.debezium.time.MicroTimestamp",
}
_TEXTS: Final = {
    "datetimeoffset": "io.debezium.time.ZonedTimestamp",
    "xml": "io.debezium.data.Xml",
    "json": "io.debezium.data.Json",
}


@dataclass(frozen=True, slots=True)
class ConnectType:
    """A type of Connect's.

    Attributes:
        type: as JsonConverter spells it: int16, int32, int64, float, double, boolean, string,
            bytes.
        name: of the logical type; None where it is none.
        parameters: of the logical type.
    """

    type: str
    name: str | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)


def connect_type(
    schema: AvroSchema, sql_type: str = "", decimals: JsonDecimals = JsonDecimals.BASE64
) -> ConnectType:
    """What Connect takes a value for.

    Args:
        schema: its Avro type; no union, record or array.
        sql_type: the declaration of a column; empty for fields that are none.
        decimals: how decimals are written.
    """
    sql_name = sql_type.partition("(")[0]
    if isinstance(schema, dict) and "logicalType" in schema:
        logical, base = schema["logicalType"], schema["type"]
        if logical == "decimal":
            if decimals is JsonDecimals.TEXT:
                return ConnectType("string")
            parameters = {
                "scale": str(schema["scale"]),
                "connect.decimal.precision": str(schema["precision"]),
            }
            return ConnectType("bytes", DECIMAL, parameters)
        return ConnectType(_PRIMITIVES[base], _LOGICAL.get(logical))
    base = schema["type"] if isinstance(schema, dict) else str(schema)
    if base == "string":
        return ConnectType("string", _TEXTS.get(sql_name))
    if base == "int" and sql_name in {"tinyint", "smallint"}:
        return ConnectType("int16")
    return ConnectType(_PRIMITIVES[base])


class ConnectSchemas:
    """Connect's schema of a record, as JsonConverter writes it with a payload.

    Args:
        decimals: how decimals are written.
    """

    def __init__(self, decimals: JsonDecimals) -> None:
        self._decimals = decimals
        self._records: dict[str, Mapping[str, Any]] = {}

    def of(self, schema: Any, sql_type: str = "", *, optional: bool = False) -> dict[str, Any]:
        """Of an Avro schema.

        Args:
            schema: record, array, union with null, or a field's type.
            optional: whether the other branch is null.
        """
        if isinstance(schema, list):
            return self.of(schema[1], sql_type, optional=True)
        if isinstance(schema, str) and schema in self._records:
            schema = self._records[schema]
        if isinstance(schema, Mapping) and schema["type"] == "record":
            name = full_name(schema)
            self._records[name] = schema
            return {
                "type": "struct",
                "fields": [
                    {**self.of(f["type"], f.get("sqlType", "")), "field": json_name(f)}
                    for f in schema["fields"]
                ],
                "optional": optional,
                "name": name,
            }
        if isinstance(schema, Mapping) and schema["type"] == "array":
            return {"type": "array", "items": self.of(schema["items"]), "optional": optional}
        found = connect_type(schema, sql_type, self._decimals)
        made: dict[str, Any] = {"type": found.type, "optional": optional}
        if found.name is not None:
            made |= {"name": found.name, "version": LOGICAL_VERSION}
        if found.parameters:
            made["parameters"] = dict(found.parameters)
        return made


def full_name(schema: Mapping[str, Any]) -> str:
    """An Avro record's name with its namespace, which is its name in Connect."""
    namespace = schema.get("namespace")
    return f"{namespace}.{schema['name']}" if namespace else str(schema["name"])


def json_name(field: Mapping[str, Any]) -> str:
    """Name of an Avro field in JSON: of a column its own, which JSON can spell."""
    return str(field.get("sqlName", field["name"]))


def with_connect_types(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Add to an Avro record the logical types of Connect that Avro does not have.

    Connect's AvroConverter reads ``decimal`` and ``date`` itself, others by ``connect.name``
    (https://docs.confluent.io/platform/current/schema-registry/connect.html). The bytes of records
    are the same.

    Args:
        schema: of a key or an event.
    """
    return {**schema, "fields": [_told(field) for field in schema["fields"]]}


def _told(field: Mapping[str, Any]) -> dict[str, Any]:
    declared = field["type"]
    is_union = isinstance(declared, list)
    base = declared[1] if is_union else declared
    if isinstance(base, Mapping) and base["type"] == "record":
        told: Any = with_connect_types(base)
    elif "sqlType" in field:
        told = _of_column(base, field["sqlType"])
    else:
        return dict(field)
    return {**field, "type": [declared[0], told] if is_union else told}


def _of_column(base: AvroSchema, sql_type: str) -> AvroSchema:
    found = connect_type(base, sql_type)
    said: dict[str, Any] = {}
    if found.name is not None and found.name not in {DECIMAL, DATE}:
        said = {"connect.version": LOGICAL_VERSION, "connect.name": found.name}
    elif found.type == "int16":
        said = {"connect.type": found.type}
    if not said:
        return base
    return {**(base if isinstance(base, dict) else {"type": base}), **said}
