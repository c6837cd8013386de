"""A publisher of the tests' own: writes topics by the contract, and knows what the lake must hold.

It shares the contract (schemas/) with the real publisher and nothing else, so that the sink is
tested against the contract alone.
"""

from __future__ import annotations

import copy
import io
import itertools
import threading
import time
import uuid
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import fastavro
import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from confluent_kafka.cimpl import NewTopic

from tailrace_schemas.events.column_types import ColumnType
from tailrace_schemas.events.envelope import (
    VERSION,
    SchemaColumn,
    TableSchema,
    envelope_schema,
    key_schema,
)
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
from tailrace_schemas.records.signals import AcceptedLoss, SnapshotSignal, read_signal
from tailrace_schemas.topics.escaped_names import avro_name
from tailrace_schemas.topics.topic_names import TableName, TopicNames, value_subject
from tailrace_service.registry.client import SchemaRegistry

DATABASE = "shop"
PARTITIONS = 2
FIRST_COMMIT_MS = 1_700_000_000_000

Row = dict[str, Any]
Key = tuple[Any, ...]
Cut = dict[str, dict[Key, Row]]
"""Rows by table and key at one LSN."""


def column(
    column_id: int, name: str, sql_type: str, *, key: int = 0, nullable: bool = True
) -> SchemaColumn:
    """A captured column."""
    return SchemaColumn(column_id, name, ColumnType.parse(sql_type), nullable and not key, key)


@dataclass
class SourceTable:
    """A source table: its newest schema version, and its rows."""

    name: TableName
    topic: str
    schema: TableSchema
    value_schema_id: int
    rows: dict[Key, Row] = field(default_factory=dict)

    def key_of(self, row: Row) -> Key:
        return tuple(row[c.name] for c in self.schema.key_columns)


@dataclass
class Message:
    """One message of a data topic."""

    topic: str
    partition: int
    value: bytes | None
    position: ChangePosition | None
    schema_id: int
    key: bytes | None


class Source:
    """A source database and its publisher in one."""

    def __init__(
        self, bootstrap: str, registry_url: str, *, shard: int = 0, prefix: str | None = None
    ) -> None:
        self.prefix = prefix or f"t{uuid.uuid4().hex[:10]}"
        self.names = TopicNames(self.prefix)
        self.shard = shard
        self.placeholder: str | None = None  # in the place of values that are unavailable
        self.tables: dict[str, SourceTable] = {}
        self.cuts: dict[str, Cut] = {}
        self.registry = SchemaRegistry(registry_url)
        self._bootstrap = bootstrap
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        self.producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": f"{self.prefix}-{shard}",
                "linger.ms": 0,
                "log_level": 0,
            }
        )
        self.producer.init_transactions(30)
        self._beside = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
        self._next_lsn = Lsn(1, 0, 1)
        self.through = str(Lsn.ZERO)
        self.pending: list[Message] = []
        self._parsed: dict[int, Any] = {}
        self._create(self.names.progress, 1)
        subject = value_subject(self.names.progress)
        self._progress_id = self.registry.register(subject, PROGRESS_SCHEMA)

    def close(self) -> None:
        self.registry.close()

    def next_lsn(self) -> Lsn:
        lsn, self._next_lsn = self._next_lsn, Lsn(1, self._next_lsn.block + 1, 1)
        return lsn

    def _create(self, topic: str, partitions: int) -> None:
        for future in self.admin.create_topics([NewTopic(topic, partitions, 1)]).values():
            future.result(30)

    def make(self, topic: str) -> None:
        """Make a topic of one partition."""
        self._create(topic, 1)

    def signals(self) -> list[SnapshotSignal | AcceptedLoss]:
        """What was asked of the publisher."""
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": self.prefix,
                "auto.offset.reset": "earliest",
                "enable.partition.eof": True,
            }
        )
        found: list[SnapshotSignal | AcceptedLoss] = []
        consumer.assign([TopicPartition(self.names.signals, 0, 0)])
        try:
            while True:
                message = consumer.poll(30)
                assert message is not None, "the broker does not answer"
                error = message.error()
                if error is not None:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    return found
                found.append(read_signal(message.value()))
        finally:
            consumer.close()

    def offsets_end(self, topic: str) -> int:
        """The offset behind the last record of a topic's first partition."""
        place = TopicPartition(topic, 0)
        (found,) = self.admin.list_offsets({place: OffsetSpec.latest()}).values()
        return int(found.result(30).offset)

    def delete_topic(self, table: SourceTable) -> None:
        """Delete the topic of a table."""
        for future in self.admin.delete_topics([table.topic]).values():
            future.result(30)
        self._wait_for(table.topic, exists=False)

    def make_topic(self, table: SourceTable) -> None:
        """Make the topic of a table again."""
        self._create(table.topic, PARTITIONS)
        self._wait_for(table.topic, exists=True)

    def _wait_for(self, topic: str, *, exists: bool) -> None:
        deadline, pause = time.monotonic() + 60, threading.Event()
        while (topic in self.admin.list_topics(timeout=10).topics) != exists:
            assert time.monotonic() < deadline, topic
            pause.wait(0.05)

    def table(self, name: str, *columns: SchemaColumn) -> SourceTable:
        """A captured table with its topic and its first schema version."""
        table_name = TableName(DATABASE, "dbo", name)
        topic = self.names.data(table_name)
        self._create(topic, PARTITIONS)
        schema = TableSchema(table_name, f"dbo_{name}", self.next_lsn(), columns)
        table = SourceTable(table_name, topic, schema, self._register(topic, schema))
        self.tables[name] = table
        return table

    def alter(self, table: SourceTable, *columns: SchemaColumn) -> None:
        """Begin a new schema version; the rows follow by column id."""
        old = {c.column_id: c.name for c in table.schema.columns}
        table.schema = TableSchema(
            table.name, table.schema.capture_instance, self.next_lsn(), columns
        )
        table.value_schema_id = self._register(table.topic, table.schema)
        table.rows = {
            key: {c.name: row[old[c.column_id]] if c.column_id in old else None for c in columns}
            for key, row in table.rows.items()
        }

    def _register(self, topic: str, schema: TableSchema) -> int:
        return self.registry.register(value_subject(topic), envelope_schema(self.prefix, schema))

    def commit(self, *changes: Callable[[Transaction], None]) -> str:
        """One source transaction; its messages wait for :meth:`publish`.

        Returns:
            The commit LSN.
        """
        transaction = Transaction(self, self.next_lsn())
        for change in changes:
            change(transaction)
        self.pending += transaction.messages
        self.cuts[str(transaction.lsn)] = self.cut()
        return str(transaction.lsn)

    def cut(self) -> Cut:
        """All rows as they are now."""
        return {name: copy.deepcopy(table.rows) for name, table in self.tables.items()}

    def snapshot(self, table: SourceTable, rows: Iterable[Row]) -> str:
        """Snapshot rows read at a fence; they wait for :meth:`publish`."""
        fence = self.next_lsn()
        for row in rows:
            position = ChangePosition.of_snapshot(fence)
            table.rows[table.key_of(row)] = dict(row)
            self.pending.append(self.message(table, "r", None, row, position))
        self.cuts[str(fence)] = self.cut()
        return str(fence)

    def publish(
        self,
        through: str | None = None,
        *,
        closed: bool = True,
        snapshotting: Sequence[SourceTable] = (),
        messages: Sequence[Message] | None = None,
        abort: bool = False,
        late_marker: bool = False,
    ) -> None:
        """Write the waiting messages and their progress record in one Kafka transaction.

        Args:
            through: the LSN that the record closes; default: the last commit.
            closed: False inside an unfinished source transaction.
            snapshotting: tables whose snapshot is not finished.
            messages: these instead of all that wait.
            abort: abort the Kafka transaction instead.
            late_marker: leave the changes without the marker that commits them, until
                :meth:`write_marker`; the progress record is there already.
        """
        if messages is None:
            messages, self.pending = self.pending, []
        after = self.through
        if not abort:
            self.through = self.through if not closed else through or self._last_lsn()
        self.producer.begin_transaction()
        ledger: dict[tuple[str, int], PartitionProgress] = {}
        for message in messages:
            entry = ledger.setdefault(
                (message.topic, message.partition),
                PartitionProgress(message.topic, message.partition, -1, -1, 0, 0),
            )
            self._produce(message, entry)
        self.producer.flush(30)
        record = Progress(
            shard=self.shard,
            server="test",
            database=DATABASE,
            after_lsn=after,
            closed_lsn=self.through,
            closed_commit_ms=FIRST_COMMIT_MS + Lsn.parse(self.through).block,
            closed=closed,
            published_ms=FIRST_COMMIT_MS,
            partitions=list(ledger.values()),
            snapshotting=[table.topic for table in snapshotting],
        )
        framed = _framed_progress(self._progress_id, record)
        if late_marker:
            self._beside.produce(self.names.progress, framed)
            self._beside.flush(30)
            return
        self.producer.produce(self.names.progress, framed)
        if abort:
            self.producer.abort_transaction(30)
        else:
            self.producer.commit_transaction(30)

    def write_marker(self) -> None:
        """Commit what a late marker left open."""
        self.producer.commit_transaction(30)

    def _produce(self, message: Message, entry: PartitionProgress) -> None:
        def delivered(error: Any, report: Any) -> None:
            assert error is None, error
            offset = report.offset()
            entry.first_offset = (
                offset if entry.first_offset < 0 else min(entry.first_offset, offset)
            )
            entry.next_offset = max(entry.next_offset, offset + 1)

        if message.position is not None:
            entry.count += 1
            one = OperationCounts.of_positions({int(message.position.operation): 1})
            entry.operations = one.plus(entry.operations or OperationCounts())
            entry.bytes = (entry.bytes or 0) + len(message.value or b"")
            total = entry.position_hash + position_hash(message.position.to_bytes())
            entry.position_hash = signed(total)
        if message.schema_id not in entry.schema_ids:
            entry.schema_ids.append(message.schema_id)
        self.producer.produce(
            message.topic,
            message.value,
            key=message.key,
            partition=message.partition,
            on_delivery=delivered,
        )
        self.producer.poll(0)

    def _last_lsn(self) -> str:
        return max(self.cuts, default=self.through)

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
            "source": self._source(table, op, position, unavailable),
            "op": op,
            "ts_ms": FIRST_COMMIT_MS,
            "transaction": None,
        }
        schema_id = table.value_schema_id
        parsed = self._parsed.get(schema_id)
        if parsed is None:
            key_form = key_schema(self.prefix, table.schema)
            parsed = (
                fastavro.parse_schema(envelope_schema(self.prefix, table.schema)),
                None if key_form is None else fastavro.parse_schema(key_form),
            )
            self._parsed[schema_id] = parsed
        of_value, of_key = parsed
        value = _framed(schema_id, of_value, event)
        key = None if of_key is None else _framed(schema_id, of_key, _image(row))
        # Not hash(): it is another in each process, and leaves a partition empty now and then.
        partition = zlib.crc32(str(table.key_of(row)).encode()) % PARTITIONS
        return Message(table.topic, partition, value, position, schema_id, key)

    @staticmethod
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
            "unavailable": list(unavailable),
        }


class Transaction:
    """The changes of one source transaction, in order."""

    def __init__(self, source: Source, lsn: Lsn) -> None:
        self.source = source
        self.lsn = lsn
        self.messages: list[Message] = []
        self._command = itertools.count(1)

    def insert(self, table: SourceTable, **row: Any) -> None:
        full = {c.name: row.get(c.name) for c in table.schema.columns}
        table.rows[table.key_of(full)] = full
        self._emit(table, "c", None, full, Operation.INSERT)

    def update(self, table: SourceTable, key: Key, /, **changes: Any) -> None:
        """Change a row; a change of its key is published as delete, tombstone and create.

        Large columns that do not change are not in the event, as CDC does not hold them.
        """
        before = table.rows.pop(key)
        after = {**before, **changes}
        table.rows[table.key_of(after)] = after
        if table.key_of(after) != key:
            seqval = self._seqval()
            self._emit(table, "d", before, None, Operation.DELETE, seqval=seqval)
            self._tombstone(table)
            self._emit(table, "c", None, after, Operation.INSERT, seqval=seqval)
            return
        unavailable = [
            c.name for c in table.schema.columns if c.type.is_large and c.name not in changes
        ]
        untold = dict.fromkeys(unavailable, self.source.placeholder)
        seen = {**after, **untold}
        self._emit(table, "u", before, seen, Operation.UPDATE_AFTER, unavailable=unavailable)

    def delete(self, table: SourceTable, key: Key) -> None:
        before = table.rows.pop(key)
        self._emit(table, "d", before, None, Operation.DELETE)
        self._tombstone(table)

    def _seqval(self) -> Lsn:
        # Deferred updates: seqval does not grow with the command id.
        return Lsn(1, self.lsn.block, 1000 - next(self._command) % 1000)

    def _emit(
        self,
        table: SourceTable,
        op: str,
        before: Row | None,
        after: Row | None,
        operation: Operation,
        *,
        seqval: Lsn | None = None,
        unavailable: Sequence[str] = (),
    ) -> None:
        position = ChangePosition(
            self.lsn, next(self._command), seqval or self._seqval(), operation
        )
        self.messages.append(self.source.message(table, op, before, after, position, unavailable))

    def _tombstone(self, table: SourceTable) -> None:
        last = self.messages[-1]
        self.messages.append(
            Message(table.topic, last.partition, None, None, last.schema_id, last.key)
        )


def _image(row: Row | None) -> Row | None:
    return None if row is None else {avro_name(name): value for name, value in row.items()}


def _framed(schema_id: int, parsed: Any, record: Any) -> bytes:
    body = io.BytesIO()
    fastavro.schemaless_writer(body, parsed, record)
    return frame_header(schema_id) + body.getvalue()


def _framed_progress(schema_id: int, record: Progress) -> bytes:
    return _framed(schema_id, fastavro.parse_schema(PROGRESS_SCHEMA), record.to_record())


@pytest.fixture
def source(kafka: str, registry: str):
    """A source with a prefix of its own."""
    made = Source(kafka, registry)
    try:
        yield made
    finally:
        made.close()
