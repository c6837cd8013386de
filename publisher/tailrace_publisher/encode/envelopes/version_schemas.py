"""The schemas of one version's events and keys: in Avro, and as they are registered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from tailrace_publisher.encode.envelopes.json_values import JsonSerializer, JsonWriting
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_schemas.events.connect_types import with_connect_types
from tailrace_schemas.events.envelope import TableSchema, key_schema
from tailrace_schemas.events.flat import value_schema
from tailrace_schemas.events.json_schema import registered_schema
from tailrace_schemas.events.serializations import Serialization

_Schema = dict[str, Any]


@dataclass(frozen=True, slots=True)
class VersionSchemas:
    """The schemas of a version, by the options.

    Attributes:
        avro_value: of events as they are encoded.
        avro_key: of keys as they are encoded; None for a keyless table.
        value: of events as they are registered.
        key: of keys as they are registered.
    """

    writing: JsonWriting
    avro_value: _Schema
    avro_key: _Schema | None
    value: _Schema
    key: _Schema | None

    @classmethod
    def of(cls, config: PublisherConfig, schema: TableSchema) -> Self:
        """Return the schemas of a version by the options.

        Raises:
            UnsupportedType: a column has a type that events cannot carry.
        """
        writing = JsonWriting(config.serialization, config.json_decimals)

        def registered(avro: _Schema) -> _Schema:
            return registered_schema(avro, writing.serialization, writing.decimals)

        key = key_schema(config.prefix, schema)
        value = value_schema(config.event_form, config.prefix, schema)
        if config.connect_types:
            value = with_connect_types(value)
            key = None if key is None else with_connect_types(key)
        return cls(writing, value, key, registered(value), None if key is None else registered(key))

    def serializer(self, value_id: int, key_id: int | None) -> JsonSerializer | None:
        """Return what rewrites the events; None if they stay Avro.

        Args:
            value_id: the registry id of ``value``.
            key_id: the registry id of ``key``.
        """
        if self.writing.serialization is Serialization.AVRO:
            return None
        return JsonSerializer(self.writing, self.avro_value, value_id, self.avro_key, key_id)
