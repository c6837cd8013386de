"""Messages of data topics as the contract has them, in the registry's frame."""

from __future__ import annotations

import io
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import fastavro

from tailrace_schemas.events.envelope import VERSION, envelope_schema, key_schema
from tailrace_schemas.events.framing import frame_header
from tailrace_schemas.position.change_position import ChangePosition
from tailrace_schemas.records.progress import PROGRESS_SCHEMA, Progress
from tailrace_schemas.topics.escaped_names import avro_name
from tests.envelopes.tables import DATABASE, Row, SourceTable

PARTITIONS = 2
FIRST_COMMIT_MS = 1_700_000_000_000


@dataclass
class Message:
    """One message of a data topic."""

    topic: str
    partition: int
    value: bytes | None
    position: ChangePosition | None
    schema_id: int
    key: bytes | None


class Messages:
    """Makes the messages of one prefix."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._parsed: dict[int, Any] = {}

    def message(
        self,
        table: SourceTable,
        op: str,
        before: Row | None,
        after: Row | None,
        position: ChangePosition,
        unavailable: Sequence[str] = (),
    ) -> Message:
        """One event, framed."""
        row = after if after is not None else before
        assert row is not None
        event = {
            "before": _image(before),
            "after": _image(after),
            "source": _source(table, op, position, unavailable),
            "op": op,
            "ts_ms": FIRST_COMMIT_MS,
            "transaction": None,
        }
        schema_id = table.value_schema_id
        parsed = self._parsed.get(schema_id)
        if parsed is None:
            key_form = key_schema(self._prefix, table.schema)
            parsed = (
                fastavro.parse_schema(envelope_schema(self._prefix, table.schema)),
                None if key_form is None else fastavro.parse_schema(key_form),
            )
            self._parsed[schema_id] = parsed
        of_value, of_key = parsed
        value = framed(schema_id, of_value, event)
        key = None if of_key is None else framed(schema_id, of_key, _image(row))
        # Not hash(): it is another in each process, and leaves a partition empty now and then.
        partition = zlib.crc32(str(table.key_of(row)).encode()) % PARTITIONS
        return Message(table.topic, partition, value, position, schema_id, key)


def _source(
    table: SourceTable, op: str, position: ChangePosition, unavailable: Sequence[str]
) -> dict[str, Any]:
    is_snapshot = op == "r"
    return {
        "version": VERSION,
        "connector": "sqlserver",
        "name": "test",
        "ts_ms": FIRST_COMMIT_MS + position.commit_lsn.block,
        "snapshot": "true" if is_snapshot else None,
        "db": DATABASE,
        "schema": table.name.schema,
        "table": table.name.table,
        "change_lsn": None if is_snapshot else str(position.seqval),
        "commit_lsn": str(position.commit_lsn),
        "event_serial_no": None,
        "command_id": None if is_snapshot else position.command_id,
        "operation": None if is_snapshot else int(position.operation),
        "capture_instance": table.schema.capture_instance,
        "schema_lsn": str(table.schema.schema_lsn),
        "changed": [],
        "unavailable": [avro_name(name) for name in unavailable],
    }


def _image(row: Row | None) -> Row | None:
    return None if row is None else {avro_name(name): value for name, value in row.items()}


def framed(schema_id: int, parsed: Any, record: Any) -> bytes:
    """A record in the registry's frame."""
    body = io.BytesIO()
    fastavro.schemaless_writer(body, parsed, record)
    return frame_header(schema_id) + body.getvalue()


def framed_progress(schema_id: int, record: Progress) -> bytes:
    """A progress record in the registry's frame."""
    return framed(schema_id, fastavro.parse_schema(PROGRESS_SCHEMA), record.to_record())
