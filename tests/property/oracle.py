"""The judge of the encoder: the same events as dictionaries, written and read by fastavro.

Shares no code with the publisher's encode; it goes by DESIGN section 4 and the registered
schemas alone.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import fastavro

from tailrace_schemas.events.envelope import (
    CONNECTOR,
    VERSION,
    TableSchema,
    envelope_schema,
    key_schema,
)

SERVER = "flights-server"
PREFIX = "t"
VALUE_ID = 70_000
KEY_ID = 3


@dataclass
class ExpectedEvent:
    """One event as the contract describes it; images are rows in the schema's order."""

    op: str
    before: Sequence[Any] | None
    after: Sequence[Any] | None
    commit_lsn: bytes
    command_id: int
    seqval: bytes
    operation: int
    ts_ms: int
    changed: Sequence[str] = ()
    unavailable: Sequence[str] = ()
    snapshot: str | None = None
    processed_ms: int | None = None
    serial: int | None = field(default=None)


def text_of(lsn: bytes) -> str:
    """An LSN as the contract prints it."""
    digits = lsn.hex()
    return f"{digits[:8]}:{digits[8:16]}:{digits[16:]}"


class Oracle:
    """fastavro over the schemas of one table version."""

    def __init__(self, schema: TableSchema) -> None:
        self.schema = schema
        self.envelope = fastavro.parse_schema(envelope_schema(PREFIX, schema))
        key = key_schema(PREFIX, schema)
        self.key = fastavro.parse_schema(key) if key is not None else None
        # Field names by place: the registered schema is the authority on their spelling.
        row = envelope_schema(PREFIX, schema)["fields"][0]["type"][1]
        self.fields = [field["name"] for field in row["fields"]]

    def image(self, row: Sequence[Any] | None) -> dict[str, Any] | None:
        return None if row is None else dict(zip(self.fields, row, strict=True))

    def record(self, event: ExpectedEvent) -> dict[str, Any]:
        table = self.schema.table
        return {
            "before": self.image(event.before),
            "after": self.image(event.after),
            "source": {
                "version": VERSION,
                "connector": CONNECTOR,
                "name": SERVER,
                "ts_ms": event.ts_ms,
                "snapshot": event.snapshot,
                "db": table.database,
                "schema": table.schema,
                "table": table.table,
                "change_lsn": text_of(event.seqval),
                "commit_lsn": text_of(event.commit_lsn),
                "event_serial_no": event.serial,
                "command_id": event.command_id,
                "operation": event.operation,
                "capture_instance": self.schema.capture_instance,
                "schema_lsn": str(self.schema.schema_lsn),
                "changed": list(event.changed),
                "unavailable": list(event.unavailable),
            },
            "op": event.op,
            "ts_ms": event.processed_ms,
            "transaction": None,
        }

    def value(self, event: ExpectedEvent) -> bytes:
        return self._write(VALUE_ID, self.envelope, self.record(event))

    def key_of(self, row: Sequence[Any]) -> bytes | None:
        if self.key is None:
            return None
        image = self.image(row)
        assert image is not None
        names = [field["name"] for field in self.key["fields"]]  # type: ignore[index, call-overload]
        return self._write(KEY_ID, self.key, {name: image[name] for name in names})

    def read(self, raw: bytes) -> dict[str, Any]:
        """Decode a framed envelope."""
        assert raw[:5] == b"\x00" + VALUE_ID.to_bytes(4, "big")
        stream = io.BytesIO(raw[5:])
        record = fastavro.schemaless_reader(stream, self.envelope, None)
        assert stream.read() == b"", "bytes are left over"
        assert isinstance(record, dict)
        return record

    @staticmethod
    def _write(schema_id: int, schema: Any, record: Mapping[str, Any]) -> bytes:
        out = io.BytesIO(b"\x00" + schema_id.to_bytes(4, "big"))
        out.seek(5)
        fastavro.schemaless_writer(out, schema, record)
        return out.getvalue()


def position_sum(positions: Sequence[bytes]) -> int:
    """The ledger's order-free hash, written out."""
    total = sum(zlib.crc32(position) for position in positions) % 2**64
    return total - 2**64 if total >= 2**63 else total
