"""Events and keys as JSON, converted from their Avro when they are sent.

The encoders write Avro, in blocks or row by row. Its content is converted to JSON afterwards, so
every kind of event is the same in both. Values are those that Kafka Connect's JsonConverter writes
for Debezium: binary in base64, decimals by option, dates in days. Times and date times are in
microseconds (``time.precision.mode=microseconds``), everything else as in JSON. Columns keep their
own names, which JSON can spell.
"""

from __future__ import annotations

import io
import json
import struct
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any, Final

import fastavro

from tailrace_publisher.encode.encoded_events import Headers
from tailrace_publisher.encode.envelopes.cloud_events import cloud_event
from tailrace_schemas.events.cloud_events import CONTENT_TYPE
from tailrace_schemas.events.connect_types import ConnectSchemas, json_name
from tailrace_schemas.events.forms import EventForm, form_of, row_fields
from tailrace_schemas.events.framing import FRAME_BYTES, frame_header
from tailrace_schemas.events.serializations import JsonDecimals, Serialization

_Convert = Callable[[Any], Any]
_Render = Callable[[Any, bytes], Any]
_CLOUD_EVENTS: Final = (("content-type", CONTENT_TYPE.encode()),)
_EXACT: Final = Context(prec=60)
_SINGLE: Final = struct.Struct("f")

_dumps: Final = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), allow_nan=False, check_circular=False
).encode


@dataclass(frozen=True, slots=True)
class JsonWriting:
    """How JSON is written.

    Attributes:
        serialization: which of the serializations of JSON.
        decimals: how decimals are written.
    """

    serialization: Serialization
    decimals: JsonDecimals


class JsonSerializer:
    """Writes the events and keys of one schema version; see ``rows.Serializer``.

    Args:
        value: Avro schema of the events.
        value_id: registry id of the events' JSON Schema.
        key: Avro schema of the keys; None for a keyless table.
        key_id: registry id of the keys' JSON Schema.

    Attributes:
        headers: of records with a value; None if they have none.
    """

    def __init__(
        self,
        writing: JsonWriting,
        value: Mapping[str, Any],
        value_id: int,
        key: Mapping[str, Any] | None,
        key_id: int | None,
    ) -> None:
        self._values = _Records(value, value_id, writing, _event(value, writing.decimals))
        is_cloud_event = form_of(value) is EventForm.CLOUDEVENTS
        self.headers: Headers | None = _CLOUD_EVENTS if is_cloud_event else None
        self._keys: _Records | None = None
        if key is not None and key_id is not None:
            row = _row(key["fields"], writing.decimals)
            self._keys = _Records(key, key_id, writing, lambda record, _: row(record))

    def keys(self, framed: Sequence[bytes | None]) -> list[bytes | None]:
        """See ``rows.Serializer``."""
        if self._keys is None:
            return list(framed)
        write = self._keys.write
        return [None if raw is None else write(raw) for raw in framed]

    def values(self, framed: Sequence[bytes]) -> list[bytes]:
        """See ``rows.Serializer``."""
        write = self._values.write
        return [write(raw) if raw else raw for raw in framed]


class _Records:
    """Converts framed Avro of one schema to JSON.

    Args:
        schema_id: registry id of its JSON Schema.
        convert: converts a record, given its bytes too, to values of JSON.
    """

    def __init__(
        self, schema: Mapping[str, Any], schema_id: int, writing: JsonWriting, convert: _Render
    ) -> None:
        self._schema = fastavro.parse_schema(_without_logical_types(schema))
        self._convert = convert
        self._head, self._end = b"", b""
        if writing.serialization is Serialization.JSON_SCHEMA:
            self._head = frame_header(schema_id)
        if writing.serialization is Serialization.CONNECT_JSON:
            told = _dumps(ConnectSchemas(writing.decimals).of(schema))
            self._head, self._end = f'{{"schema":{told},"payload":'.encode(), b"}"

    def write(self, framed: bytes) -> bytes:
        stream = io.BytesIO(framed)
        stream.seek(FRAME_BYTES)
        record = fastavro.schemaless_reader(stream, self._schema, None)
        return self._head + _dumps(self._convert(record, framed)).encode() + self._end


def _without_logical_types(schema: Any) -> Any:
    """Return the schema that reads values as the numbers and bytes that are written."""
    if isinstance(schema, list):
        return [_without_logical_types(branch) for branch in schema]
    if isinstance(schema, Mapping):
        kept = {name: value for name, value in schema.items() if name != "logicalType"}
        return {
            name: _without_logical_types(value) if name in {"type", "fields", "items"} else value
            for name, value in kept.items()
        }
    return schema


def _event(schema: Mapping[str, Any], decimals: JsonDecimals) -> _Render:
    """Return the function that converts an event to JSON by its form."""
    fields = row_fields(schema)
    names = {field["name"]: json_name(field) for field in fields}
    row = _row(fields, decimals)
    if form_of(schema) is EventForm.FLAT:
        flat = _row(schema["fields"], decimals, {"__unavailable": _named(names)})
        return lambda event, _: flat(event)
    said = _named(names)

    def envelope(event: dict[str, Any]) -> dict[str, Any]:
        if event["before"] is not None:
            event["before"] = row(event["before"])
        if event["after"] is not None:
            event["after"] = row(event["after"])
        source = event["source"]
        source["changed"] = said(source["changed"])
        source["unavailable"] = said(source["unavailable"])
        return event

    if form_of(schema) is EventForm.CLOUDEVENTS:
        return lambda event, framed: cloud_event(envelope(event), framed)
    return lambda event, _: envelope(event)


def _named(names: Mapping[str, str]) -> _Convert:
    """Return the function that restores the columns' own names from names of Avro fields."""
    if all(name == own for name, own in names.items()):
        return lambda found: found
    return lambda found: [names[name] for name in found]


def _row(
    fields: Sequence[Mapping[str, Any]],
    decimals: JsonDecimals,
    further: Mapping[str, _Convert] | None = None,
) -> _Convert:
    """Return the function that converts a row image, or a key, to JSON.

    Args:
        fields: those of the record's schema.
        decimals: how decimals are written.
        further: converts fields that are no columns.
    """
    converts = {field["name"]: _conversion(field, decimals) for field in fields}
    converts |= further or {}
    needed = [(name, convert) for name, convert in converts.items() if convert is not None]
    renamed = {f["name"]: json_name(f) for f in fields if json_name(f) != f["name"]}

    def converted(row: dict[str, Any]) -> dict[str, Any]:
        for name, convert in needed:
            value = row[name]
            if value is not None:
                row[name] = convert(value)
        if renamed:
            return {renamed.get(name, name): value for name, value in row.items()}
        return row

    return converted


def _conversion(field: Mapping[str, Any], decimals: JsonDecimals) -> _Convert | None:
    """Return the function that converts a value to JSON; None if it is JSON's already."""
    declared = field["type"]
    base = declared[1] if isinstance(declared, list) else declared
    if isinstance(base, Mapping) and base.get("logicalType") == "decimal":
        if decimals is JsonDecimals.TEXT:
            scale = int(base["scale"])
            return lambda raw: _digits(raw, scale)
        return _base64
    base = base["type"] if isinstance(base, Mapping) else base
    if base == "bytes":
        return _base64
    return _shortest if base == "float" else None


def _base64(raw: bytes) -> str:
    return b64encode(raw).decode()


def _digits(raw: bytes, scale: int) -> str:
    unscaled = Decimal(int.from_bytes(raw, "big", signed=True))
    return format(unscaled.scaleb(-scale, _EXACT), "f")


def _shortest(value: float) -> float:
    """Return the same ``real`` with six digits, or as many more as it needs."""
    packed = _SINGLE.pack(value)
    for digits in (6, 7, 8):
        found = float(f"{value:.{digits}g}")
        if _packs_to(found, packed):
            return found
    return float(f"{value:.9g}")


def _packs_to(value: float, packed: bytes) -> bool:
    try:
        return _SINGLE.pack(value) == packed
    except OverflowError:  # rounded up, beyond the greatest real
        return False
