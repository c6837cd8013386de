"""The fixed records (progress, checkpoint) as framed Avro: few, so fastavro writes them itself."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

import fastavro

from tailrace_publisher.ports import Registry
from tailrace_schemas.events.framing import frame_header, split_frame
from tailrace_schemas.records.checkpoint import (
    CHECKPOINT_KEY_SCHEMA,
    CHECKPOINT_SCHEMA,
    CheckpointKey,
    DatabaseCheckpoint,
    TableCheckpoint,
)
from tailrace_schemas.topics.topic_names import key_subject, value_subject


class _Dataclass(Protocol):
    __dataclass_fields__: ClassVar[dict[str, Any]]


class RecordEncoder:
    """Writes a dataclass, or its fields, as one Avro record.

    Args:
        schema: record schema with the dataclass's field names.
        schema_id: the schema's id in the registry.
    """

    def __init__(self, schema: dict[str, Any], schema_id: int) -> None:
        self._schema = fastavro.parse_schema(schema)
        self._frame = frame_header(schema_id)

    def encode(self, record: _Dataclass | Mapping[str, Any]) -> bytes:
        """Return the framed record.

        Raises:
            ValueError, TypeError: a field does not fit the schema, which is a fault of Tailrace.
        """
        out = io.BytesIO()
        out.write(self._frame)
        fields = record if isinstance(record, Mapping) else dataclasses.asdict(record)
        fastavro.schemaless_writer(out, self._schema, fields)
        return out.getvalue()


def registered(registry: Registry, subject: str, schema: dict[str, Any]) -> RecordEncoder:
    """Return the encoder of a subject's records; register its schema if needed.

    Raises:
        RegistryError: the registry does not answer, or refuses the schema.
    """
    return RecordEncoder(schema, registry.register(subject, schema))


class CheckpointEncoder:
    """Writes the records of a checkpoint topic.

    Raises:
        RegistryError: the registry does not answer, or refuses a schema.
    """

    def __init__(self, registry: Registry, topic: str) -> None:
        self._keys = registered(registry, key_subject(topic), CHECKPOINT_KEY_SCHEMA)
        self._values = registered(registry, value_subject(topic), CHECKPOINT_SCHEMA)

    def key(self, key: CheckpointKey) -> bytes:
        """Return the key of a record, which identifies the table or database."""
        return self._keys.encode(key.to_record())

    def value(self, record: DatabaseCheckpoint | TableCheckpoint | None) -> bytes | None:
        """Return the value of a record; None deletes its key at compaction."""
        return None if record is None else self._values.encode(record.to_record())


class RecordDecoder:
    """Reads framed records of any earlier version of the schema.

    Args:
        schema: the record schema to return; None for the one that wrote each record.
    """

    def __init__(self, schema: dict[str, Any] | None, registry: Registry) -> None:
        self._schema = None if schema is None else fastavro.parse_schema(schema)
        self._registry = registry
        self._writers: dict[int, Any] = {}

    def decode(self, raw: bytes) -> dict[str, Any]:
        """Return the record's fields.

        Raises:
            ValueError: not framed, or not readable with the requested schema.
            RegistryError: the schema is not available.
        """
        schema_id, payload = split_frame(raw)
        writer = self._writers.get(schema_id)
        if writer is None:
            writer = fastavro.parse_schema(self._registry.schema_by_id(schema_id))
            self._writers[schema_id] = writer
        try:
            record = fastavro.schemaless_reader(io.BytesIO(payload), writer, self._schema)
        except (EOFError, IndexError, fastavro.read.SchemaResolutionError) as error:
            raise ValueError(
                f"record of schema id {schema_id} is not readable: {error!r}"
            ) from error
        if not isinstance(record, dict):
            raise TypeError(f"schema id {schema_id} is not a record")
        return record
