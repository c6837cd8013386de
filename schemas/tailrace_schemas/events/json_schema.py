"""The JSON Schema of keys and events that are written as JSON, built from their Avro schema.

It is written as Confluent's JSON Schema serializer and Connect's JsonSchemaConverter write theirs.
What may be null is a ``oneOf``. ``title``, ``connect.type``, ``connect.version`` and
``connect.index`` say what Connect takes a property for. Records are closed
(``additionalProperties: false``), so registries accept an added column as BACKWARD compatible.
(https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/serdes-json.html)

The attributes of the Avro schema's version (``captureInstance``, ``sqlName`` and so on) are there
under the same names. So the timeline of versions can be rebuilt from it as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tailrace_schemas.events.cloud_events import cloud_event_schema
from tailrace_schemas.events.connect_types import (
    LOGICAL_VERSION,
    connect_type,
    full_name,
    json_name,
)
from tailrace_schemas.events.forms import EventForm, form_of
from tailrace_schemas.events.serializations import (
    SERIALIZATION_ATTRIBUTE,
    JsonDecimals,
    Serialization,
)

DIALECT: Final = "http://json-schema.org/draft-07/schema#"
_NULL: Final = {"type": "null"}
_TYPES: Final = {
    "boolean": "boolean",
    "int16": "integer",
    "int32": "integer",
    "int64": "integer",
    "float": "number",
    "double": "number",
    "string": "string",
    "bytes": "string",
}
_CONNECT_NAMES: Final = {"float": "float32", "double": "float64"}
_AVRO_ONLY: Final = frozenset({"type", "name", "namespace", "fields", "doc", "default"})
_SQL_TYPE: Final = "sqlType"


def registered_schema(
    avro: dict[str, Any], serialization: Serialization, decimals: JsonDecimals
) -> dict[str, Any]:
    """The schema that is registered for a key or an event: its Avro schema, or a JSON Schema."""
    if serialization is Serialization.AVRO:
        return avro
    return json_schema(avro, serialization, decimals)


def json_schema(
    avro: Mapping[str, Any], serialization: Serialization, decimals: JsonDecimals
) -> dict[str, Any]:
    """The JSON Schema of what is written of a record.

    Args:
        avro: schema of the key or the event.
        serialization: how it is written; one of JSON's.
        decimals: how decimals are written.
    """
    found = {
        "$schema": DIALECT,
        SERIALIZATION_ATTRIBUTE: serialization.value,
        **{name: value for name, value in avro.items() if name not in _AVRO_ONLY},
        **_Properties(decimals).of(avro),
    }
    return cloud_event_schema(found) if form_of(avro) is EventForm.CLOUDEVENTS else found


class _Properties:
    def __init__(self, decimals: JsonDecimals) -> None:
        self._decimals = decimals
        self._records: dict[str, Mapping[str, Any]] = {}

    def of(self, schema: Any, sql_type: str = "") -> dict[str, Any]:
        if isinstance(schema, list):
            return {"oneOf": [_NULL, self.of(schema[1], sql_type)]}
        if isinstance(schema, str) and schema in self._records:
            schema = self._records[schema]
        if isinstance(schema, Mapping) and schema["type"] == "record":
            return self._record(schema)
        if isinstance(schema, Mapping) and schema["type"] == "array":
            return {"type": "array", "items": self.of(schema["items"])}
        found = connect_type(schema, sql_type, self._decimals)
        made: dict[str, Any] = {"type": _TYPES[found.type]}
        if found.name is not None:
            made |= {"title": found.name, "connect.version": LOGICAL_VERSION}
        if found.parameters:
            made["connect.parameters"] = dict(found.parameters)
        if made["type"] != found.type:
            made["connect.type"] = _CONNECT_NAMES.get(found.type, found.type)
        return made

    def _record(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        name = full_name(schema)
        self._records[name] = schema
        properties = {}
        for index, field in enumerate(schema["fields"]):
            said = {k: v for k, v in field.items() if k not in _AVRO_ONLY}
            properties[json_name(field)] = {
                **self.of(field["type"], field.get(_SQL_TYPE, "")),
                "connect.index": index,
                **said,
            }
        required = [json_name(f) for f in schema["fields"] if not isinstance(f["type"], list)]
        return {
            "type": "object",
            "title": name,
            "properties": properties,
            **({"required": required} if required else {}),
            "additionalProperties": False,
        }


def column_fields(schema: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The columns of a registered JSON Schema of events, as fields of an Avro record.

    Raises:
        KeyError, IndexError, TypeError: not one of ours.
        ValueError: a form of a later release.
    """
    form, properties = form_of(schema), schema["properties"]
    if form is EventForm.CLOUDEVENTS:
        properties = properties["data"]["properties"]
    if form is not EventForm.FLAT:
        properties = properties["before"]["oneOf"][1]["properties"]
    fields = [_as_avro(found) for found in properties.values() if "sqlName" in found]
    return sorted(fields, key=lambda field: int(field["connect.index"]))


def _as_avro(found: Mapping[str, Any]) -> dict[str, Any]:
    if "oneOf" in found:
        return {**found, "type": ["null", found["oneOf"][1]["type"]]}
    return dict(found)
