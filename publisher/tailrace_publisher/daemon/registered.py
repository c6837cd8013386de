"""Schema versions in the registry, and the encoders made of them."""

from __future__ import annotations

from tailrace_publisher.encode.envelope import EnvelopeEncoder
from tailrace_publisher.errors import SchemaRefused
from tailrace_publisher.ports import Registry
from tailrace_schemas.envelope import TableSchema, envelope_schema, key_schema, table_schema_of
from tailrace_schemas.lsn import Lsn
from tailrace_schemas.registry import RegistryError
from tailrace_schemas.topics import key_subject, value_subject


class RegisteredVersions:
    """The versions of each topic's tables; asked for once, added to as they are registered.

    Args:
        registry: holds the versions.
        prefix: of the topics; names the schemas.
        server_name: ``source.name`` of the events.
    """

    def __init__(self, registry: Registry, prefix: str, server_name: str) -> None:
        self._registry = registry
        self._prefix = prefix
        self._server_name = server_name
        self._versions: dict[str, list[TableSchema]] = {}
        self._encoders: dict[tuple[str, Lsn], EnvelopeEncoder] = {}

    def of_topic(self, topic: str) -> list[TableSchema]:
        """The versions under a topic's value subject, oldest first.

        Raises:
            RegistryError: the registry did not answer.
            SchemaRefused: the subject belongs to somebody else.
        """
        if topic not in self._versions:
            subject = value_subject(topic)
            try:
                self._versions[topic] = [
                    table_schema_of(version.schema) for version in self._registry.versions(subject)
                ]
            except ValueError as error:
                raise SchemaRefused(
                    f"subject {subject} of the schema registry: {error}; it belongs to somebody"
                    " else: remove it there, or publish under another prefix"
                ) from error
        return self._versions[topic]

    def encoder(self, topic: str, schema: TableSchema) -> EnvelopeEncoder:
        """The encoder of a version; its schemas are registered the first time.

        Raises:
            RegistryError: the registry did not answer.
            SchemaRefused: it refused a schema for good.
            UnsupportedType: a column has a type that events cannot carry.
        """
        identity = (schema.capture_instance, schema.schema_lsn)
        known = self._encoders.get(identity)
        if known is not None and known.schema is schema:
            return known
        key = key_schema(self._prefix, schema)
        value = envelope_schema(self._prefix, schema)
        try:
            key_id = None if key is None else self._registry.register(key_subject(topic), key)
            value_id = self._registry.register(value_subject(topic), value)
        except RegistryError as error:
            if error.retryable:
                raise
            raise SchemaRefused(str(error)) from error
        registered = self.of_topic(topic)
        if not any((known.capture_instance, known.schema_lsn) == identity for known in registered):
            registered.append(table_schema_of(value))
        encoder = EnvelopeEncoder(self._server_name, schema, topic, value_id, key_id)
        self._encoders[identity] = encoder
        return encoder
