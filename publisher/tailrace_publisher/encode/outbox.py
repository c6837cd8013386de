"""Messages of an outbox: what its inserts say, next to the events of the table.

The events of an outbox are published as those of any table. A message is created from the encoded
event of an insert when that is sent, whichever way the event was encoded. So it is in the same
Kafka transaction, and in the order of the events (ADR 0099).
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import fastavro

from tailrace_publisher.encode.encoded_events import EncodedRows, Headers, Serializer
from tailrace_publisher.errors import OutboxRefused
from tailrace_publisher.options.outbox import OnUpdate, OutboxConfig
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_schemas.events.envelope import TableSchema
from tailrace_schemas.events.flat import as_envelope
from tailrace_schemas.events.framing import FRAME_BYTES
from tailrace_schemas.position.change_position import ChangePosition, Operation
from tailrace_schemas.records.dead_letters import text_of
from tailrace_schemas.topics.escaped_names import avro_name
from tailrace_schemas.topics.topic_names import TOPIC_CHARACTERS_MAX, TopicNames

POSITION_HEADER: Final = "tailrace.position"
"""Header of a message: its change's position in 50 hexadecimal digits, whose order is the order."""

_PAYLOADS: Final = frozenset(
    {"char", "varchar", "text", "nchar", "nvarchar", "ntext", "xml", "json", "sysname"}
    | {"binary", "varbinary", "image", "uniqueidentifier"}
)
_UPDATES: Final = {Operation.UPDATE_BEFORE, Operation.UPDATE_AFTER}


class OutboxMessage(NamedTuple):
    """One message, ready to be produced."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes]]


@dataclass(frozen=True, slots=True)
class Outbox:
    """The messages of one schema version of an outbox.

    Args:
        avro: Avro schema of its events.
        partitions: of a new topic.
        settings: of a new topic.
    """

    config: OutboxConfig
    names: TopicNames
    schema: TableSchema
    avro: Any
    partitions: int
    settings: Mapping[str, str]
    _fields: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, config: PublisherConfig, schema: TableSchema, avro: Mapping[str, Any]) -> Outbox:
        """Create the messages of a version.

        Raises:
            OutboxRefused: a column is missing, or its type cannot be a payload.
        """
        of_table = config.outbox_of(schema.table)
        if of_table is None:
            raise ValueError(f"{schema.table} is no outbox")
        columns = {column.name.casefold(): column for column in schema.columns}
        for option, name in of_table.unknown_columns(columns).items():
            raise OutboxRefused(str(schema.table), name, option, "the column is not published")
        payload = columns[of_table.payload.casefold()]
        if payload.type.name not in _PAYLOADS:
            reason = f"its type {payload.type} is neither text nor binary"
            raise OutboxRefused(str(schema.table), payload.name, "payload", reason)
        fields = {
            option: avro_name(columns[name.casefold()].name)
            for option, name in of_table.columns.items()
        }
        parsed = fastavro.parse_schema(dict(avro))
        kafka = config.kafka
        new_topic = kafka.partitions, kafka.topic_settings
        return cls(of_table, config.topics, schema, parsed, *new_topic, fields)

    def messages(self, rows: EncodedRows) -> Iterator[OutboxMessage]:
        """Create the messages of events, in their order.

        Args:
            rows: events as they were encoded: framed Avro.

        Raises:
            OutboxRefused: a row has no usable route, or was updated and may not be.
        """
        for packed, value in zip(rows.positions, rows.values, strict=True):
            operation = packed[-1]
            if operation == Operation.INSERT:
                yield self._message(packed, value)
            elif operation in _UPDATES and self.config.on_update is OnUpdate.STOP_TABLE:
                raise self._refused("on_update", "", packed, "the row was updated")

    def _message(self, packed: bytes, framed: bytes) -> OutboxMessage:
        event: Any = fastavro.schemaless_reader(io.BytesIO(framed[FRAME_BYTES:]), self.avro, None)
        row: Mapping[str, Any] = as_envelope(event)["after"]
        found = {option: _bytes_of(row[name]) for option, name in self._fields.items()}
        headers = [(POSITION_HEADER, packed.hex().encode())]
        for name in self.config.headers:
            held = found[f"headers.{name}"]
            headers += [] if held is None else [(name, held)]
        topic = self._topic(found["route"], packed)
        return OutboxMessage(topic, found["key"], found["payload"], headers)

    def _topic(self, route: bytes | None, packed: bytes) -> str:
        if not route:
            raise self._refused("route", self.config.route, packed, "its value is NULL or empty")
        topic = self.names.outbox(self.config.topic, route.decode("utf-8", "replace"))
        if len(topic) > TOPIC_CHARACTERS_MAX:
            reason = f"the topic would have more than {TOPIC_CHARACTERS_MAX} characters"
            raise self._refused("route", self.config.route, packed, reason)
        if self.names.is_taken(topic):
            reason = f"topic {topic} is a table's or the publisher's own"
            raise self._refused("topic", self.config.route, packed, reason)
        return topic

    def _refused(self, option: str, column: str, packed: bytes, reason: str) -> OutboxRefused:
        position = str(ChangePosition.from_bytes(packed))
        return OutboxRefused(str(self.schema.table), column, option, reason, position)


class OutboxSerializer:
    """Writes events as without an outbox, and carries what their messages are created by.

    Args:
        inner: rewrites the events; None leaves them as Avro.
    """

    def __init__(self, outbox: Outbox, inner: Serializer | None) -> None:
        self.outbox = outbox
        self.headers: Headers | None = None if inner is None else inner.headers
        self._inner = inner

    def keys(self, framed: Sequence[bytes | None]) -> list[bytes | None]:
        """See ``encoded_events.Serializer``."""
        return list(framed) if self._inner is None else self._inner.keys(framed)

    def values(self, framed: Sequence[bytes]) -> list[bytes]:
        """See ``encoded_events.Serializer``."""
        return list(framed) if self._inner is None else self._inner.values(framed)


def outbox_of(rows: EncodedRows) -> Outbox | None:
    """Return what creates the messages of events; None if their table is no outbox."""
    serializer = rows.serializer
    return serializer.outbox if isinstance(serializer, OutboxSerializer) else None


def _bytes_of(value: Any) -> bytes | None:
    """Return a value as it is in a message: bytes unchanged, all else as text in UTF-8."""
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, bool):
        return b"true" if value else b"false"
    return (text_of(value) or "").encode()
