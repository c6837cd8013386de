"""Topics as the publisher writes them, for the sink's benchmark: by the contract, no source."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final, NamedTuple

import fastavro
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tailrace_schemas.events.column_types import ColumnType
from tailrace_schemas.events.envelope import SchemaColumn, TableSchema, envelope_schema, key_schema
from tailrace_schemas.events.framing import frame_header
from tailrace_schemas.position.change_position import ChangePosition, Operation
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.records.progress import (
    PROGRESS_SCHEMA,
    OperationCounts,
    PartitionProgress,
    Progress,
    position_hash,
    signed,
)
from tailrace_schemas.topics.topic_names import TableName, TopicNames, key_subject, value_subject
from tailrace_service.registry.client import SchemaRegistry
from tailrace_sink.plan.topic_ranges import TopicRange

DATABASE: Final = "bench"
COLUMNS: Final = (
    SchemaColumn(1, "id", ColumnType("int"), nullable=False, key_ordinal=1),
    SchemaColumn(2, "carrier", ColumnType("varchar", length=10)),
    SchemaColumn(3, "origin", ColumnType("char", length=3)),
    SchemaColumn(4, "dest", ColumnType("char", length=3)),
    SchemaColumn(5, "tail", ColumnType("nvarchar", length=10)),
    SchemaColumn(6, "delay", ColumnType("smallint")),
    SchemaColumn(7, "distance", ColumnType("int")),
    SchemaColumn(8, "price", ColumnType("decimal", precision=9, scale=2)),
    SchemaColumn(9, "departed", ColumnType("datetime2", scale=3)),
    SchemaColumn(10, "cancelled", ColumnType("bit")),
)
_OPERATIONS: Final = {
    "c": Operation.INSERT,
    "u": Operation.UPDATE_AFTER,
    "d": Operation.DELETE,
    "r": Operation.READ,
}
_FIRST_MS: Final = 1_700_000_000_000
_NOON: Final = datetime(2013, 1, 1)  # noqa: DTZ001 - datetime2 has no zone

Offsets = dict[tuple[str, int], int]


class Change(NamedTuple):
    """One event.

    Attributes:
        table: number of its table.
        op: r, c, u or d.
    """

    table: int
    op: str
    key: int


class Topics:
    """The topics of one prefix.

    Args:
        registry: where the schemas are registered.
        partitions: of each data topic.
    """

    def __init__(
        self, bootstrap: str, registry: SchemaRegistry, prefix: str, tables: int, partitions: int
    ) -> None:
        self.names = TopicNames(prefix)
        self.schemas = [
            TableSchema(TableName(DATABASE, "dbo", f"t{n}"), f"dbo_t{n}", Lsn(0, 0, 1), COLUMNS)
            for n in range(tables)
        ]
        self.data = [self.names.data(schema.table) for schema in self.schemas]
        self._partitions = partitions
        wanted = [NewTopic(topic, partitions, 1) for topic in self.data]
        admin = AdminClient({"bootstrap.servers": bootstrap})
        for future in admin.create_topics([*wanted, NewTopic(self.names.progress, 1, 1)]).values():
            future.result(60)
        avro = [envelope_schema(prefix, schema) for schema in self.schemas]
        self._ids = [
            registry.register(value_subject(topic), schema)
            for topic, schema in zip(self.data, avro, strict=True)
        ]
        keys = [found for one in self.schemas if (found := key_schema(prefix, one)) is not None]
        self._key = fastavro.parse_schema(keys[0])
        self._key_headers = [
            frame_header(registry.register(key_subject(topic), schema))
            for topic, schema in zip(self.data, keys, strict=True)
        ]
        self._progress_id = registry.register(value_subject(self.names.progress), PROGRESS_SCHEMA)
        self._writers = [fastavro.parse_schema(schema) for schema in avro]
        self._progress = fastavro.parse_schema(PROGRESS_SCHEMA)
        self.schema_texts = [json.dumps(schema) for schema in avro]
        self._producer = Producer({"bootstrap.servers": bootstrap, "compression.type": "lz4"})
        self._block = 0
        self._command = 0
        self.offsets: Offsets = {
            (topic, partition): 0 for topic in self.data for partition in range(partitions)
        }

    def publish(self, changes: Iterable[Change], snapshotting: Sequence[int] = ()) -> str:
        """One source transaction with its progress record.

        Args:
            changes: its events in order; a key's events go to one partition.
            snapshotting: numbers of the tables whose snapshot is not finished.

        Returns:
            Its LSN.
        """
        before = Lsn(1, self._block, 1)
        self._block += 1
        lsn = Lsn(1, self._block, 1)
        parts: dict[tuple[str, int], PartitionProgress] = {}
        for change in changes:
            self._send_change(change, lsn, parts)
        record = Progress(
            shard=0,
            server="bench",
            database=DATABASE,
            after_lsn=str(before if self._block > 1 else Lsn.ZERO),
            closed_lsn=str(lsn),
            closed_commit_ms=_FIRST_MS + self._block,
            closed=True,
            # The sink asks the brokers what they still have where records are old.
            published_ms=time.time_ns() // 1_000_000,
            partitions=list(parts.values()),
            snapshotting=[self.data[table] for table in snapshotting],
        )
        body = io.BytesIO()
        fastavro.schemaless_writer(body, self._progress, record.to_record())
        self._producer.flush(60)
        self._send(self.names.progress, 0, frame_header(self._progress_id) + body.getvalue())
        self._producer.flush(60)
        return str(lsn)

    def ranges(self, since: Offsets) -> list[TopicRange]:
        """What was published since, by topic."""
        found = []
        for topic, schema_id in zip(self.data, self._ids, strict=True):
            parts = {
                partition: (since[topic, partition], self.offsets[topic, partition])
                for partition in range(self._partitions)
            }
            count = sum(end - first for first, end in parts.values())
            found.append(TopicRange(topic, parts, count, frozenset({schema_id})))
        return found

    def _send_change(
        self, change: Change, lsn: Lsn, parts: dict[tuple[str, int], PartitionProgress]
    ) -> None:
        topic, schema_id = self.data[change.table], self._ids[change.table]
        place = (topic, change.key % self._partitions)
        self._command += 1
        position = ChangePosition(lsn, self._command, lsn, _OPERATIONS[change.op])
        if change.op == "r":
            position = ChangePosition.of_snapshot(lsn)
        body = io.BytesIO()
        event = self._event(change, position)
        fastavro.schemaless_writer(body, self._writers[change.table], event)
        value = frame_header(schema_id) + body.getvalue()
        self._send(*place, value, self._key_headers[change.table] + self._encoded_key(change.key))
        first = self.offsets[place]
        part = parts.get(place)
        if part is None:
            part = PartitionProgress(*place, first, first, 0, 0, [schema_id], 0, OperationCounts())
            parts[place] = part
        self.offsets[place] = part.next_offset = first + 1
        part.count += 1
        part.bytes = (part.bytes or 0) + len(value)
        part.position_hash = signed(part.position_hash + position_hash(position.to_bytes()))
        one = OperationCounts.of_positions({int(position.operation): 1})
        part.operations = one.plus(part.operations or OperationCounts())

    def _encoded_key(self, key: int) -> bytes:
        body = io.BytesIO()
        fastavro.schemaless_writer(body, self._key, {"id": key})
        return body.getvalue()

    def _send(self, topic: str, partition: int, value: bytes, key: bytes | None = None) -> None:
        try:
            self._producer.produce(topic, value, key, partition=partition)
        except BufferError:
            self._producer.poll(1)
            self._producer.produce(topic, value, key, partition=partition)
        self._producer.poll(0)

    def _event(self, change: Change, position: ChangePosition) -> dict[str, Any]:
        key, is_read = change.key, change.op == "r"
        image = {
            "id": key,
            "carrier": "UA",
            "origin": "EWR",
            "dest": "IAH",
            "tail": f"N{key % 4000}",
            "delay": self._command % 300 - 30,
            "distance": key % 2500,
            "price": Decimal(self._command % 100_000) / 100,
            "departed": _NOON + timedelta(seconds=key),
            "cancelled": False,
        }
        schema = self.schemas[change.table]
        return {
            "before": image if change.op in {"u", "d"} else None,
            "after": None if change.op == "d" else image,
            "op": change.op,
            "ts_ms": 0,
            "transaction": None,
            "source": {
                "version": "0",
                "connector": "sqlserver",
                "name": "bench",
                "ts_ms": _FIRST_MS,
                "snapshot": "true" if is_read else None,
                "db": DATABASE,
                "schema": schema.table.schema,
                "table": schema.table.table,
                "change_lsn": None if is_read else str(position.seqval),
                "commit_lsn": str(position.commit_lsn),
                "event_serial_no": None,
                "command_id": None if is_read else position.command_id,
                "operation": None if is_read else int(position.operation),
                "capture_instance": schema.capture_instance,
                "schema_lsn": str(schema.schema_lsn),
                "changed": [],
                "unavailable": [],
            },
        }
