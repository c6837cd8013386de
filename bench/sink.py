"""The sink's catch-up rate, beside plain Spark on the same records.

One run makes its own records (a small publisher writes them by the contract), lets the sink apply
them to empty lake tables, and lets plain Spark read, decode and write the same offsets as Parquet:
``ratio_to_raw_spark`` is the raw time divided by the sink's, so 1.0 would mean that keys,
positions, MERGE and commit rows cost nothing.
"""

from __future__ import annotations

import argparse
import io
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import fastavro
import structlog
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.avro.functions import from_avro

from tailrace_compose.local.broker import KafkaBroker
from tailrace_compose.local.jars import spark_jars
from tailrace_compose.local.registry import SchemaRegistry as RegistryServer
from tailrace_schemas.envelope import SchemaColumn, TableSchema, envelope_schema, position_of
from tailrace_schemas.framing import frame_header
from tailrace_schemas.lsn import Lsn
from tailrace_schemas.position import ChangePosition, Operation
from tailrace_schemas.progress import PROGRESS_SCHEMA, position_hash
from tailrace_schemas.registry import SchemaRegistry
from tailrace_schemas.topics import TableName, TopicNames, value_subject
from tailrace_schemas.types import ColumnType
from tailrace_sink.application import warm_up
from tailrace_sink.config import SinkConfig
from tailrace_sink.kafka_ranges import read_messages
from tailrace_sink.session import session_with
from tailrace_sink.sink import Sink
from tailrace_sink.streaming import ProgressStream
from tailrace_sink.topic_ranges import TopicRange

PREFIX = "bench"
DATABASE = "bench"
CHANGES_PER_KEY = 3
COLUMNS = (
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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this benchmark's options."""
    parser.add_argument("--changes", type=int, default=200_000, help="sink: changes in all tables")
    parser.add_argument("--tables", type=int, default=3, help="sink: tables they go to")
    parser.add_argument("--transaction", type=int, default=5_000, help="sink: changes per LSN")


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Run the benchmark.

    Returns:
        Rates in changes per second, durations in seconds, and ``ratio_to_raw_spark``.
    """
    # Standard output belongs to the figures.
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    changes = int(getattr(arguments, "changes", 200_000))
    tables = int(getattr(arguments, "tables", 3))
    per_lsn = int(getattr(arguments, "transaction", 5_000))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-sink-")))
        broker, server = KafkaBroker(folder / "kafka"), RegistryServer(folder / "registry")
        bootstrap = broker.start()
        stack.callback(broker.stop)
        url = server.start()
        stack.callback(server.stop)
        registry = stack.enter_context(SchemaRegistry(url))
        ranges, schema_text = _produce(bootstrap, registry, changes, tables, per_lsn)
        spark = stack.enter_context(_session(folder))
        config = SinkConfig.load(
            {
                "kafka": {"bootstrap": bootstrap},
                "registry": {"url": url},
                "prefix": PREFIX,
                "lake": str(folder / "lake"),
            }
        )
        warm_up(spark, config)
        # Both ways run once before they are timed: compiling takes longer than the work.
        _raw(spark, config, _tenth(ranges), schema_text, folder / "warm")
        raw_s = _raw(spark, config, ranges, schema_text, folder / "raw")
        cold_s, _ = _sink(spark, _into(config, "cold"), registry)
        sink_s, commits = _sink(spark, config, registry)
    return {
        "changes": changes,
        "tables": tables,
        "sink_s": round(sink_s, 2),
        "sink_changes_per_s": round(changes / sink_s),
        "sink_cold_s": round(cold_s, 2),
        "sink_commits": commits,
        "raw_spark_s": round(raw_s, 2),
        "raw_spark_changes_per_s": round(changes / raw_s),
        "ratio_to_raw_spark": round(raw_s / sink_s, 3),
    }


def _into(config: SinkConfig, lake: str) -> SinkConfig:
    return config.model_copy(update={"lake": f"{config.lake}-{lake}"})


@contextmanager
def _session(folder: Path) -> Iterator[SparkSession]:
    spark = session_with(
        {
            "spark.jars": ",".join(map(str, spark_jars())),
            "spark.driver.memory": "2g",
            "spark.local.dir": str(folder / "local"),
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
        }
    )
    try:
        yield spark
    finally:
        spark.stop()


def _sink(spark: SparkSession, config: SinkConfig, registry: SchemaRegistry) -> tuple[float, int]:
    """Catch up from nothing; seconds and commit rows."""
    sink = Sink(spark, config, registry.schema_by_id)
    try:
        started = time.perf_counter()
        sink.open()
        stream = ProgressStream(spark, config, registry.schema_by_id, sink)
        stream.catch_up(threading.Event())
        commits = sink.fold_tables(threading.Event())
        return time.perf_counter() - started, commits
    finally:
        sink.close()


def _raw(
    spark: SparkSession,
    config: SinkConfig,
    ranges: Sequence[TopicRange],
    schema_text: str,
    folder: Path,
) -> float:
    """Read the same offsets, decode the row image, write Parquet; seconds."""
    started = time.perf_counter()
    for topic in ranges:
        envelope = read_messages(spark, config.kafka, {topic.topic: topic.partitions}).select(
            from_avro(F.expr("substring(value, 6)"), schema_text).alias("envelope")
        )
        image = envelope.selectExpr("coalesce(envelope.after, envelope.before) AS image")
        image.select("image.*").write.parquet(str(folder / topic.topic))
    return time.perf_counter() - started


def _tenth(ranges: Sequence[TopicRange]) -> list[TopicRange]:
    return [
        TopicRange(
            topic.topic,
            topic.shard,
            {p: (first, max(first + 1, end // 10)) for p, (first, end) in topic.partitions.items()},
            topic.count,
            topic.schema_ids,
        )
        for topic in ranges
    ]


def _produce(
    bootstrap: str, registry: SchemaRegistry, changes: int, tables: int, per_lsn: int
) -> tuple[list[TopicRange], str]:
    """Write the topics and one progress record per LSN; give the ranges and a schema as JSON."""
    import json

    names = TopicNames(PREFIX)
    schemas = [
        TableSchema(TableName(DATABASE, "dbo", f"t{n}"), f"dbo_t{n}", Lsn(0, 0, 1), COLUMNS)
        for n in range(tables)
    ]
    topics = [names.data(schema.table) for schema in schemas]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    created = admin.create_topics([NewTopic(t, 1, 1) for t in [*topics, names.progress]])
    for future in created.values():
        future.result(30)
    avro = [envelope_schema(PREFIX, schema) for schema in schemas]
    ids = [
        registry.register(value_subject(topic), schema)
        for topic, schema in zip(topics, avro, strict=True)
    ]
    progress_id = registry.register(value_subject(names.progress), PROGRESS_SCHEMA)
    writers = [fastavro.parse_schema(schema) for schema in avro]
    progress = fastavro.parse_schema(PROGRESS_SCHEMA)
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": "lz4"})
    offsets = [0] * tables
    number = 0
    block = 1
    while number < changes:
        lsn, before = Lsn(1, block, 1), list(offsets)
        hashes = [0] * tables
        for _ in range(min(per_lsn, changes - number)):
            table = number % tables
            event = _event(number, tables, changes, schemas[table], lsn)
            body = io.BytesIO()
            fastavro.schemaless_writer(body, writers[table], event)
            _send(producer, topics[table], frame_header(ids[table]) + body.getvalue())
            offsets[table] += 1
            hashes[table] += position_hash(position_of(event).to_bytes())
            number += 1
        record = _progress(topics, before, offsets, hashes, ids, block)
        body = io.BytesIO()
        fastavro.schemaless_writer(body, progress, record)
        _send(producer, names.progress, frame_header(progress_id) + body.getvalue())
        block += 1
    producer.flush(60)
    ranges = [
        TopicRange(topic, 0, {0: (0, end)}, end, frozenset({schema_id}))
        for topic, end, schema_id in zip(topics, offsets, ids, strict=True)
    ]
    return ranges, json.dumps(avro[0])


def _send(producer: Producer, topic: str, value: bytes) -> None:
    try:
        producer.produce(topic, value, partition=0)
    except BufferError:
        producer.poll(1)
        producer.produce(topic, value, partition=0)
    producer.poll(0)


def _event(number: int, tables: int, changes: int, schema: TableSchema, lsn: Lsn) -> dict[str, Any]:
    """The n-th change: every key is created, then updated."""
    from datetime import datetime, timedelta
    from decimal import Decimal

    keys = max(tables, changes // CHANGES_PER_KEY // tables * tables)
    is_new = number < keys
    image = {
        "id": number % keys,
        "carrier": "UA",
        "origin": "EWR",
        "dest": "IAH",
        "tail": f"N{number % 4000}",
        "delay": number % 300 - 30,
        "distance": number % 2500,
        "price": Decimal(number % 100_000) / 100,
        "departed": datetime(2013, 1, 1) + timedelta(seconds=number),  # noqa: DTZ001 - no zone
        "cancelled": False,
    }
    position = ChangePosition(lsn, number, lsn, Operation.INSERT)
    return {
        "before": None if is_new else image,
        "after": image,
        "op": "c" if is_new else "u",
        "ts_ms": 0,
        "transaction": None,
        "source": {
            "version": "0",
            "connector": "sqlserver",
            "name": "bench",
            "ts_ms": 1_700_000_000_000,
            "db": DATABASE,
            "schema": schema.table.schema,
            "table": schema.table.table,
            "change_lsn": str(position.seqval),
            "commit_lsn": str(lsn),
            "command_id": number,
            "operation": 2 if is_new else 4,
            "capture_instance": schema.capture_instance,
            "schema_lsn": str(schema.schema_lsn),
            "changed": [],
            "unavailable": [],
        },
    }


def _progress(
    topics: Sequence[str],
    before: Sequence[int],
    after: Sequence[int],
    hashes: Sequence[int],
    ids: Sequence[int],
    n: int,
) -> dict[str, Any]:
    return {
        "shard": 0,
        "server": "bench",
        "database": DATABASE,
        "after_lsn": str(Lsn(1, n - 1, 1)),
        "through_lsn": str(Lsn(1, n, 1)),
        "through_commit_ms": 1_700_000_000_000 + n,
        "closed": True,
        "published_ms": 1_700_000_000_000 + n,
        "partitions": [
            {
                "topic": topic,
                "partition": 0,
                "first_offset": first,
                "next_offset": end,
                "count": end - first,
                "position_hash": position_sum,
                "schema_ids": [schema_id],
            }
            for topic, first, end, position_sum, schema_id in zip(
                topics, before, after, hashes, ids, strict=True
            )
        ],
        "snapshotting": [],
    }
