"""Records with fixed schemas: progress, checkpoints, and what is published next to the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tailrace_publisher.deliver.options import DeliveryOptions
from tailrace_publisher.encode.records import CheckpointEncoder, registered
from tailrace_publisher.runtime import DatabaseTopics
from tailrace_schemas.records.checkpoint import CheckpointKey, DatabaseCheckpoint, TableCheckpoint
from tailrace_schemas.records.progress import ONE_SHARD_SCHEMA, PROGRESS_SCHEMA
from tailrace_schemas.records.schema_changes import (
    SCHEMA_CHANGE_KEY_SCHEMA,
    SCHEMA_CHANGE_SCHEMA,
    SchemaChange,
)
from tailrace_schemas.records.transactions import BOUNDARY_KEY_SCHEMA, BOUNDARY_SCHEMA, Boundary
from tailrace_schemas.topics.topic_names import key_subject, value_subject

Checkpoints = Mapping[CheckpointKey | bytes, DatabaseCheckpoint | TableCheckpoint | None]
"""The changed records; None deletes one, also one of another form, by its key as in the topic."""
Message = tuple[bytes | None, bytes | None, int]
"""Key, value and partition."""


class FixedRecords:
    """Encodes fixed records as messages; registers the schemas in use.

    Args:
        options: what is published next to the data; None: nothing.

    Raises:
        RegistryError: the registry does not answer, or refuses a schema.
    """

    def __init__(self, topics: DatabaseTopics, options: DeliveryOptions | None = None) -> None:
        registry = topics.registry
        subject = value_subject(topics.names.progress)
        self._progress = registered(registry, subject, ONE_SHARD_SCHEMA)
        self._patched = registered(registry, subject, PROGRESS_SCHEMA)
        self._checkpoints = CheckpointEncoder(registry, topics.names.offsets)
        self._encoders = {
            schema["name"]: registered(registry, subject, schema)
            for subject, schema in _schemas(topics, options)
        }

    def progress(self, fields: Mapping[str, Any]) -> bytes:
        """Return the value of a progress record; only one that ends a patch has the field."""
        encoder = self._patched if fields["patched"] else self._progress
        return encoder.encode(fields)

    def checkpoints(self, changed: Checkpoints) -> list[Message]:
        """Return checkpoint messages."""
        encoder = self._checkpoints
        return [
            (key if isinstance(key, bytes) else encoder.key(key), encoder.value(record), 0)
            for key, record in changed.items()
        ]

    def boundaries(self, boundaries: Sequence[Boundary]) -> list[Message]:
        """Return messages for the begin and end of source transactions."""
        return self._encoded((BOUNDARY_KEY_SCHEMA, BOUNDARY_SCHEMA), boundaries)

    def schema_changes(self, changes: Sequence[SchemaChange]) -> list[Message]:
        """Return messages for schema changes."""
        return self._encoded((SCHEMA_CHANGE_KEY_SCHEMA, SCHEMA_CHANGE_SCHEMA), changes)

    def _encoded(
        self,
        schemas: tuple[dict[str, Any], dict[str, Any]],
        records: Sequence[Boundary | SchemaChange],
    ) -> list[Message]:
        key, value = (self._encoders[schema["name"]].encode for schema in schemas)
        return [(key(r.to_key()), value(r.to_record()), 0) for r in records]


def _schemas(
    topics: DatabaseTopics, options: DeliveryOptions | None
) -> list[tuple[str, dict[str, Any]]]:
    """Return the schemas of what is published next to the data, by subject."""
    names = topics.names
    found: list[tuple[str, dict[str, Any]]] = []
    if options is None:
        return found
    if options.transactions:
        found.append((key_subject(names.transaction), BOUNDARY_KEY_SCHEMA))
        found.append((value_subject(names.transaction), BOUNDARY_SCHEMA))
    if options.schema_changes:
        topic = names.ddl(topics.database)
        found.append((key_subject(topic), SCHEMA_CHANGE_KEY_SCHEMA))
        found.append((value_subject(topic), SCHEMA_CHANGE_SCHEMA))
    return found
