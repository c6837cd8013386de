"""Schema versions in the registry, and the encoders built from them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import replace
from hashlib import sha256
from typing import Any, Final

from tailrace_publisher.daemon.tables.known_schemas import KnownSchemas
from tailrace_publisher.encode.columns.value_hash import ValueHash
from tailrace_publisher.encode.envelopes.envelope import EnvelopeEncoder
from tailrace_publisher.encode.envelopes.version_schemas import VersionSchemas
from tailrace_publisher.encode.event_settings import Treatment
from tailrace_publisher.encode.outbox import Outbox, OutboxSerializer
from tailrace_publisher.errors import SchemaRefused, TableFailed
from tailrace_publisher.errors.one_table import of_one_table
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_publisher.ports import Registry
from tailrace_schemas.events.envelope import TableSchema, table_schema_of
from tailrace_schemas.events.forms import EventShape
from tailrace_schemas.events.schema_differences import differences
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.topic_names import TableName, key_subject, value_subject
from tailrace_service.registry.client import RegistryError, RegistryRejected

AT_ONCE_MAX: Final = 16
"""Tables whose schemas a start waits for; further ones are registered while the stream runs."""

_SEVERAL: Final = 2

_Refused = dict[TableName, TableFailed]


class RegisteredVersions:
    """The versions of each table; queried once, extended as versions are registered.

    Args:
        config: its options shape the events.
        executor: returns an executor for a purpose.
        registry: holds the versions; several threads query it at once.

    Raises:
        ConfigError: the salt's file cannot be read.
    """

    def __init__(
        self,
        config: PublisherConfig,
        executor: Callable[[str], Executor],
        registry: Registry,
        known: KnownSchemas,
    ) -> None:
        self._config = config
        self._topic_of = config.topics.data
        self._executor = executor
        self._registry = registry
        self._hashes = ValueHash.of_options(config.columns)
        self._known = known
        self._refused: dict[TableName, SchemaRefused] = {}
        self._threads: Executor | None = None
        self._pending: dict[TableName, Future[TableFailed | None]] = {}

    def fetch(self, tables: Iterable[TableName]) -> None:
        """Query the versions of many tables at once.

        Raises:
            RegistryError: the registry did not answer.
        """
        wanted = self._existing([t for t in tables if t not in self._known.versions])
        with self._executor("registry") as threads:
            for table, found in zip(wanted, threads.map(self._query, wanted), strict=True):
                if isinstance(found, SchemaRefused):
                    self._refused[table] = found
                else:
                    self._known.versions[table] = found

    def _existing(self, tables: list[TableName]) -> list[TableName]:
        """Return the tables whose subjects exist; the others have no versions.

        For many tables, list all subjects first: at a first start, a thousand tables have none.
        """
        if len(tables) <= AT_ONCE_MAX:
            return tables
        try:
            subjects = set(self._registry.subjects())
        except RegistryRejected:
            return tables  # a login that may not list subjects may still read single ones
        absent = {t for t in tables if value_subject(self._topic_of(t)) not in subjects}
        self._known.versions.update((table, []) for table in absent)
        return [table for table in tables if table not in absent]

    def is_known(self, table: TableName) -> bool:
        """Return whether the versions of a table were queried."""
        return table in self._known.versions

    def of(self, table: TableName) -> list[TableSchema]:
        """Return the versions under the value subject of a table's topic, oldest first.

        Raises:
            RegistryError: the registry did not answer.
            SchemaRefused: another application owns the subject.
        """
        if table not in self._known.versions:
            found = self._refused.pop(table, None) or self._query(table)
            if isinstance(found, SchemaRefused):
                raise found
            self._known.versions[table] = found
        return self._known.versions[table]

    def _query(self, table: TableName) -> list[TableSchema] | SchemaRefused:
        subject = value_subject(self._topic_of(table))
        versions = self._registry.versions(subject)
        for version in versions:
            self._known.ids[subject, _fingerprint(version.schema)] = version.schema_id
        try:
            found = [table_schema_of(version.schema) for version in versions]
            if versions:
                self._known.shapes[table] = EventShape.of(versions[-1].schema)
        except ValueError as error:
            refused = SchemaRefused(
                f"subject {subject} of the schema registry: {error}; another application owns"
                " it. Fix: remove it there, or publish under another prefix"
            )
            refused.__cause__ = error
            return refused
        return found

    def register(self, of_tables: Mapping[TableName, Sequence[TableSchema]]) -> _Refused:
        """Register versions of many tables at once, and create their encoders.

        It waits only for the first of very many; :meth:`refused` returns the results of the others.

        Args:
            of_tables: the versions by table; those of one table are registered in this order.

        Returns:
            The errors of tables that cannot be encoded, by table.

        Raises:
            RegistryError: the registry did not answer.
        """
        failed = self.refused(is_to_wait=True)
        wanted = [
            (table, schemas)
            for table, schemas in of_tables.items()
            if any(self._known_encoder(schema) is None for schema in schemas)
        ]
        now, later = wanted[:AT_ONCE_MAX], wanted[AT_ONCE_MAX:]
        refused = self._registered(now)
        if later and len(refused) == len(now):  # if every table is refused, that ends a start
            return failed | refused | self._registered(later)
        if later:
            self._threads = self._threads or self._executor("registry-beside")
            for item in later:
                self._pending[item[0]] = self._threads.submit(self._register, item)
        return failed | refused

    def _registered(self, wanted: Sequence[tuple[TableName, Sequence[TableSchema]]]) -> _Refused:
        with self._executor("registry") as threads:
            failures = threads.map(self._register, wanted)
            return {item[0]: e for item, e in zip(wanted, failures, strict=True) if e}

    def refused(self, *, is_to_wait: bool = False) -> _Refused:
        """Return, once, errors of tables whose schemas were registered while the stream ran.

        Args:
            is_to_wait: whether to wait for those that are not registered yet.

        Returns:
            The errors by table.

        Raises:
            RegistryError: the registry did not answer.
        """
        done = [table for table, future in self._pending.items() if is_to_wait or future.done()]
        results = [(table, self._pending.pop(table).result()) for table in done]
        return {table: error for table, error in results if error is not None}

    def close(self) -> None:
        """Cancel pending registrations and wait for the running ones."""
        if self._threads is not None:
            self._threads.shutdown(wait=True, cancel_futures=True)

    def _register(self, item: tuple[TableName, Sequence[TableSchema]]) -> TableFailed | None:
        table, schemas = item
        try:
            for schema in schemas:
                with of_one_table(table, "registering its schema versions"):
                    self._encoder_of(table, schema)
        except TableFailed as error:
            return error
        return None

    def _known_encoder(self, schema: TableSchema) -> EnvelopeEncoder | None:
        known = self._known.encoders.get((schema.capture_instance, schema.schema_lsn))
        return known if known is not None and known.schema == schema else None

    def encoder(self, table: TableName, schema: TableSchema) -> EnvelopeEncoder:
        """Return the encoder of a version; register its schemas the first time.

        Raises:
            RegistryError: the registry did not answer.
            SchemaRefused: it refused a schema for good.
            UnsupportedType: events cannot carry the type of a column.
        """
        self._take_over(table)
        return self._encoder_of(table, schema)

    def prepare_encoders(self, wanted: Iterable[tuple[TableName, TableSchema]]) -> None:
        """Create the encoders of versions that are needed next, of many tables at once.

        One by one they would take a second for a hundred tables. While rows are being read it takes
        far longer: every thread that fetches rows competes for the interpreter's lock. Errors are
        not raised here but by :meth:`encoder`.

        Args:
            wanted: pairs of table and version.

        Raises:
            RegistryError: the registry did not answer.
        """
        missing = [(t, schema) for t, schema in wanted if self._known_encoder(schema) is None]
        if len(missing) < _SEVERAL:
            return
        for table, _ in missing:
            self._take_over(table)
        self._registered([(table, [schema]) for table, schema in missing])

    def _take_over(self, table: TableName) -> None:
        """Stop the background registration of a table: one thread at a time may register it."""
        pending = self._pending.get(table)
        if pending is not None and pending.cancel():
            del self._pending[table]
        elif pending is not None:
            pending.exception()  # an error is raised again by the next attempt

    def _encoder_of(self, table: TableName, schema: TableSchema) -> EnvelopeEncoder:
        """Return the encoder of a version; at most one thread may call this per table."""
        ready = self._known_encoder(schema)
        if ready is not None:
            return ready
        topic, identity = self._topic_of(table), (schema.capture_instance, schema.schema_lsn)
        schemas = VersionSchemas.of(self._config, schema)
        try:
            key = schemas.key
            key_id = None if key is None else self._id_of(key_subject(topic), key)
            value_id = self._id_of(value_subject(topic), schemas.value)
        except RegistryError as error:
            if error.retryable:
                raise
            raise SchemaRefused(f"{error}{self._describe_differences(table, schema)}") from error
        self._note(table, identity, table_schema_of(schemas.value))
        treatment = replace(
            Treatment.of(self._config, self._hashes, schema.table),
            serializer=schemas.serializer(value_id, key_id),
        )
        if self._config.outbox_of(schema.table) is not None:
            outbox = Outbox.of(self._config, schema, schemas.avro_value)
            written = OutboxSerializer(outbox, treatment.serializer)
            treatment = replace(treatment, serializer=written)
        encoder = EnvelopeEncoder(
            self._config.server_name, schema, topic, value_id, key_id, treatment
        )
        self._known.encoders[identity] = encoder
        return encoder

    def _note(self, table: TableName, identity: tuple[str, Lsn], now: TableSchema) -> None:
        """Store that a version is registered, if the others of its table are known."""
        self._known.shapes[table] = self._config.event_shape
        registered = self._known.versions.get(table)
        if registered is None:
            return
        same = [k for k in registered if (k.capture_instance, k.schema_lsn) == identity]
        if not same or same[-1] != now:  # other options may have registered it differently before
            registered[:] = [*(k for k in registered if k not in same), now]

    def _id_of(self, subject: str, schema: dict[str, Any]) -> int:
        """Return the id of a schema; register it if unknown."""
        identity = (subject, _fingerprint(schema))
        known = self._known.ids.get(identity)
        is_set = self._sets_compatibility(subject)
        if known is None:
            known = self._known.ids[identity] = self._registry.register(subject, schema)
        if not is_set:
            self._sets_compatibility(subject)
        return known

    def _sets_compatibility(self, subject: str) -> bool:
        """Set the subject's mode; return False if the registry has no such subject yet."""
        mode = self._config.schema_compatibility
        if mode is None or subject in self._known.compatible:
            return True
        is_set = self._registry.set_compatibility(subject, mode.value)
        if is_set:
            self._known.compatible.add(subject)
        return is_set

    def _describe_differences(self, table: TableName, schema: TableSchema) -> str:
        """Describe what a refused version changes against the newest one in the registry."""
        registered = self.of(table)
        if not registered:
            return ""
        shape, wanted = self._known.shapes[table], self._config.event_shape
        if shape != wanted:
            before, now = shape.differences(wanted), wanted.differences(shape)
            return (
                f"; its events so far have {before}, these would have {now}: publish under another"
                f" prefix, set {before} again, or have both in one topic with"
                " schema_compatibility: NONE"
            )
        newest = registered[-1]
        lines = differences(newest, schema)
        return (
            f"; differences from the version of {newest.schema_lsn} ({newest.capture_instance}):"
            f" {', '.join(lines) or 'none but where it comes from'}"
        )


def _fingerprint(schema: dict[str, Any]) -> bytes:
    return sha256(json.dumps(schema, sort_keys=True).encode()).digest()
