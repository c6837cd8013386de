"""What the delivery tests share: a table, deliveries of it, and readers that trust nothing of ours.

Run as a program it is a publisher to be killed: it commits some rows, sends more, says so on
standard output, and waits.
"""

from __future__ import annotations

import io
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fastavro
import structlog
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from tailrace_publisher.checkpoint import read_checkpoints
from tailrace_publisher.daemon.adapters.production import kafka_at
from tailrace_publisher.deliver import DeliveryOptions, KafkaDelivery, TopicSpec
from tailrace_publisher.encode.encoded_events import EncodedRows
from tailrace_publisher.encode.envelopes.envelope import EnvelopeEncoder
from tailrace_publisher.runtime import DatabaseTopics
from tailrace_schemas.events.column_types import ColumnType
from tailrace_schemas.events.envelope import SchemaColumn, TableSchema, envelope_schema, key_schema
from tailrace_schemas.position.change_position import ChangePosition, Operation
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.records.checkpoint import CheckpointKey, DatabaseCheckpoint
from tailrace_schemas.records.progress import Progress
from tailrace_schemas.topics.topic_names import TableName, TopicNames, key_subject, value_subject
from tailrace_service.registry.client import SchemaRegistry

SERVER = "airline"
DATABASE = "flights"
DATABASE_KEY = CheckpointKey(SERVER, DATABASE)
ROWS_PER_COMMIT = 10


@dataclass
class Table:
    """One table's topic and encoder; its change rows are numbered from 0."""

    registry: SchemaRegistry
    topics: TopicNames
    name: str = "flights"
    encoder: EnvelopeEncoder = field(init=False)
    topic: str = field(init=False)

    def __post_init__(self) -> None:
        table = TableName(DATABASE, "dbo", self.name)
        columns = (
            SchemaColumn(1, "id", ColumnType("int"), nullable=False, key_ordinal=1),
            SchemaColumn(2, "carrier", ColumnType("nvarchar", length=400)),
        )
        schema = TableSchema(table, f"dbo_{self.name}", Lsn(1, 1, 1), columns)
        prefix = self.topics.prefix
        self.topic = self.topics.data(table)
        value_id = self.registry.register(
            value_subject(self.topic), envelope_schema(prefix, schema)
        )
        key = key_schema(prefix, schema)
        assert key is not None
        key_id = self.registry.register(key_subject(self.topic), key)
        self.encoder = EnvelopeEncoder(SERVER, schema, self.topic, value_id, key_id)

    def rows(self, start: int, stop: int, text: str = "UA") -> EncodedRows:
        """Change rows start to stop: ten to a transaction, every seventh a delete."""
        rows = []
        commit_ms = {}
        for number in range(start, stop):
            position = position_of(number)
            commit = position.commit_lsn.to_bytes()
            commit_ms[commit] = 1_700_000_000_000 + number // ROWS_PER_COMMIT
            head = (commit, position.command_id, position.seqval.to_bytes(), position.operation)
            rows.append((*head, b"\x03", number, text))
        return self.encoder.encode(rows, commit_ms)


def position_of(number: int) -> ChangePosition:
    """Position of the change row with that number."""
    operation = Operation.DELETE if number % 7 == 6 else Operation.INSERT
    commit = Lsn(1, number // ROWS_PER_COMMIT + 1, 9)
    seqval = Lsn(1, number // ROWS_PER_COMMIT + 1, number % ROWS_PER_COMMIT)
    return ChangePosition(commit, 1, seqval, operation)


def checkpoint_at(number: int) -> DatabaseCheckpoint:
    """The database's checkpoint: all rows before that number are out. The number is kept in
    ``signals_offset``, so that the tests need no second bookkeeping."""
    position = position_of(max(number - 1, 0))
    return DatabaseCheckpoint(position, position.commit_lsn, 0, signals_offset=number)


def commit(delivery: KafkaDelivery, start: int, stop: int) -> Progress:
    """Commit rows [start, stop) with their checkpoint."""
    return delivery.commit(
        after_lsn=position_of(max(start - 1, 0)).commit_lsn,
        closed_lsn=position_of(max(stop - 1, 0)).commit_lsn,
        closed_commit_ms=1,
        closed=True,
        checkpoints={DATABASE_KEY: checkpoint_at(stop)},
    )


def topics_of(
    bootstrap: str,
    names: TopicNames,
    registry: SchemaRegistry,
    server: str = SERVER,
    extra: Mapping[str, str] | None = None,
) -> DatabaseTopics:
    """The topics as the publisher reads and writes them."""
    return DatabaseTopics(kafka_at(bootstrap, extra), registry, names, server, DATABASE)


def next_row(bootstrap: str, topics: TopicNames, registry: SchemaRegistry) -> int:
    """Number of the row to go on with, by the checkpoint that was read back."""
    found = read_checkpoints(topics_of(bootstrap, topics, registry), 60.0)
    return 0 if found.database is None else found.database.signals_offset or 0


@contextmanager
def delivering(
    bootstrap: str,
    topics: TopicNames,
    registry: SchemaRegistry,
    *tables: Table,
    partitions: int = 4,
    extra: Mapping[str, str] | None = None,
    **options: Any,
) -> Iterator[KafkaDelivery]:
    """A started delivery with the tables' topics."""
    timeouts = {"commit_timeout_s": 60.0, "start_timeout_s": 60.0}
    delivery = KafkaDelivery(
        topics_of(bootstrap, topics, registry, extra=extra),
        DeliveryOptions(f"tx-{topics.prefix}", **{**timeouts, **options}),
    )
    try:
        delivery.start()
        delivery.ensure_topics([TopicSpec(table.topic, partitions) for table in tables])
        yield delivery
    finally:
        delivery.close()


@dataclass(frozen=True)
class Message:
    """A committed record as a foreign consumer sees it."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


def read_committed(bootstrap: str, topic: str) -> list[Message]:
    """All committed records of a topic, by a plain consumer.

    It reads to the high watermark. A commit returns before its markers are on the partitions, and
    until they are a read_committed consumer is told that the partition ends before them.
    """
    ends = high_watermarks(bootstrap, topic)
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "audit",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 20,
        }
    )
    found: list[Message] = []
    deadline = time.monotonic() + 60
    try:
        open_partitions = {partition for partition, end in ends.items() if end > 0}
        consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in open_partitions])
        while open_partitions:
            assert time.monotonic() < deadline, f"{topic}: end not reached: {open_partitions}"
            for message in consumer.consume(1000, 0.02):
                error = message.error()
                if error is not None:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    if (message.offset() or 0) >= ends[message.partition() or 0]:
                        open_partitions.discard(message.partition() or 0)
                    continue
                partition, offset = message.partition(), message.offset()
                assert partition is not None
                assert offset is not None
                found.append(Message(topic, partition, offset, message.key(), message.value()))
    finally:
        consumer.close()
    return found


def high_watermarks(bootstrap: str, topic: str) -> dict[int, int]:
    """The end of every partition, whatever is open in it."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "audit",
            "isolation.level": "read_uncommitted",
        }
    )
    try:
        partitions = consumer.list_topics(topic, timeout=60).topics[topic].partitions
        return {
            partition: consumer.get_watermark_offsets(TopicPartition(topic, partition), 60)[1]
            for partition in partitions
        }
    finally:
        consumer.close()


def decoded(registry: SchemaRegistry, raw: bytes) -> dict[str, Any]:
    """A framed record, by fastavro and the schema that the registry has for its id."""
    schema = registry.schema_by_id(int.from_bytes(raw[1:5], "big"))
    record = fastavro.schemaless_reader(io.BytesIO(raw[5:]), fastavro.parse_schema(schema), None)
    assert isinstance(record, dict)
    return record


def row_numbers(registry: SchemaRegistry, messages: list[Message]) -> list[int]:
    """Numbers of the change rows that the events are of."""
    numbers = []
    for message in messages:
        if message.value is not None:
            event = decoded(registry, message.value)
            numbers.append((event["after"] or event["before"])["id"])
    return numbers


def _program(bootstrap: str, url: str, prefix: str, committed: int, sent: int) -> None:
    """Commit [0, committed), send [committed, sent) to the brokers, wait to be killed."""
    registry = SchemaRegistry(url)
    topics = TopicNames(prefix)
    table = Table(registry, topics)
    with delivering(bootstrap, topics, registry, table) as delivery:
        delivery.send(table.rows(0, committed))
        commit(delivery, 0, committed)
        delivery.send(table.rows(committed, sent))
        producer = delivery._producer
        assert producer is not None
        producer.flush()
        print("sent", flush=True)  # noqa: T201
        threading.Event().wait(60)


def _peak_kb() -> int:
    """Peak resident memory of this program in kB.

    Not getrusage: its ru_maxrss passes through exec, so a child would report its parent's peak.
    """
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0])


def _large(bootstrap: str, url: str, prefix: str, rows: int, page: int) -> None:
    """One Kafka transaction of that many rows; prints the growth of peak memory in kB."""
    registry = SchemaRegistry(url)
    topics = TopicNames(prefix)
    table = Table(registry, topics)
    with delivering(bootstrap, topics, registry, table) as delivery:
        delivery.send(table.rows(0, page, "x" * 350))
        before = _peak_kb()
        for start in range(page, rows, page):
            delivery.send(table.rows(start, min(start + page, rows), "x" * 350))
        commit(delivery, 0, rows)
        after = _peak_kb()
        print(before, after, flush=True)  # noqa: T201


if __name__ == "__main__":
    # Standard output is what the test reads.
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    chosen = {"program": _program, "large": _large}[sys.argv[1]]
    chosen(*sys.argv[2:5], *map(int, sys.argv[5:7]))  # type: ignore[arg-type]
