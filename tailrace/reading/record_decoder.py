"""Records of the topics, decoded by what they say of themselves and the registered schemas."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any, Final

import fastavro

from tailrace_schemas.events.envelope import position_of, position_only
from tailrace_schemas.events.framing import split_frame
from tailrace_schemas.events.serializations import is_json_schema
from tailrace_schemas.position.change_position import ChangePosition
from tailrace_service.registry.client import SchemaRegistry

_OBJECT: Final = b"{"
"""How JSON begins that is not framed: a frame begins with zero."""
_CONNECT: Final = {"schema", "payload"}


class RecordDecoder:
    """Decodes records, whichever serialization they have; remembers their schemas."""

    def __init__(self, registry: SchemaRegistry) -> None:
        self._registry = registry
        self._schemas: dict[int, Any] = {}

    def decode(self, raw: bytes) -> tuple[int, dict[str, Any]]:
        """(schema id, record) of a key or a value; JSON that is not framed names none: 0.

        Raises:
            ValueError: neither framed nor JSON.
            RegistryError: the schema is not available.
        """
        if raw[:1] == _OBJECT:
            return 0, _plain(raw)
        schema_id, payload = split_frame(raw)
        if schema_id not in self._schemas:
            self._schemas[schema_id] = _parsed(self._registry.schema_by_id(schema_id))
        schema = self._schemas[schema_id]
        if schema is None:
            return schema_id, _object(payload)
        record: Any = fastavro.schemaless_reader(io.BytesIO(payload), schema, None)
        return schema_id, record


class PositionDecoder:
    """Positions of events, whichever serialization they have; of Avro nothing else is decoded."""

    def __init__(self, registry: SchemaRegistry) -> None:
        self._registry = registry
        self._schemas: dict[int, tuple[Any, Any] | None] = {}

    def of(self, raw: bytes) -> ChangePosition:
        """The position of an event.

        Raises:
            ValueError, EOFError, TypeError, KeyError, IndexError: not one of ours.
            RegistryError: the schema is not available.
        """
        if raw[:1] == _OBJECT:
            return position_of(_plain(raw))
        schema_id, payload = split_frame(raw)
        if schema_id not in self._schemas:
            schema = self._registry.schema_by_id(schema_id)
            writer = _parsed(schema)
            reader = None if writer is None else fastavro.parse_schema(position_only(schema))
            self._schemas[schema_id] = None if writer is None else (writer, reader)
        schemas = self._schemas[schema_id]
        if schemas is None:
            return position_of(_object(payload))
        event: Any = fastavro.schemaless_reader(io.BytesIO(payload), *schemas)
        return position_of(event)


def _parsed(schema: dict[str, Any]) -> Any:
    """The schema of Avro; None for a JSON Schema."""
    return None if is_json_schema(schema) else fastavro.parse_schema(schema)


def _plain(raw: bytes) -> dict[str, Any]:
    """JSON without a frame, and without Connect's schema around it."""
    found = _object(raw)
    return found["payload"] if found.keys() == _CONNECT else found


def _object(raw: bytes) -> dict[str, Any]:
    found = json.loads(raw)
    if not isinstance(found, Mapping):
        raise ValueError(f"JSON that is no object: {str(found)[:60]}")  # noqa: TRY004 - of the data
    return dict(found)
