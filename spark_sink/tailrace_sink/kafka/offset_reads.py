"""Reads of exactly the offsets that the ledger names, of committed records only."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from tailrace_sink.options.kafka_options import KafkaConfig

FETCH_WAIT_MS = 3
"""With the consumer's default of 500, each read of a small range waits half a second at the end of
the partition (measured)."""
_READERS: Final = f"tailrace-sink-{uuid.uuid4().hex}"
"""Consumer group of this process's reads. Nothing is committed to it. Spark stores open consumers
under this name, by partition. Without it each read opens new ones, at 50 ms a partition, one after
the other if a cut becomes one file."""


def kafka_options(kafka: KafkaConfig) -> dict[str, str]:
    """Return the options of every read, batch or stream."""
    timeout_ms = str(int(kafka.request_timeout_s * 1000))
    extra = {f"kafka.{name}": value for name, value in kafka.further_options().items()}
    return {
        "kafka.fetch.max.wait.ms": str(FETCH_WAIT_MS),
        "kafka.default.api.timeout.ms": timeout_ms,
        "kafka.request.timeout.ms": timeout_ms,
        # Otherwise a range past the end of the partition hangs for two minutes (measured).
        "kafkaConsumer.pollTimeoutMs": str(int(kafka.poll_timeout_s * 1000)),
        **extra,
        "kafka.bootstrap.servers": kafka.bootstrap,
        "kafka.isolation.level": "read_committed",
        "failOnDataLoss": "true",
    }


def client_properties(jvm: Any, kafka: KafkaConfig) -> Any:
    """Return these options as ``java.util.Properties``, for a client that Spark does not create."""
    properties = jvm.java.util.Properties()
    for name, value in kafka_options(kafka).items():
        if name.startswith("kafka."):
            properties.setProperty(name.removeprefix("kafka."), value)
    return properties


def producer_options(kafka: KafkaConfig) -> dict[str, str]:
    """Return the options of a write."""
    ours = {"kafka.fetch.max.wait.ms", "kafka.isolation.level"}
    options = {
        name: value
        for name, value in kafka_options(kafka).items()
        if name.startswith("kafka.") and name not in ours
    }
    # Otherwise a write waits a minute for a topic that does not exist.
    return {"kafka.max.block.ms": str(int(kafka.request_timeout_s * 1000)), **options}


def offsets_json(offsets: Mapping[str, Mapping[int, int]]) -> str:
    """Format offsets by topic and partition for Spark's options."""
    return json.dumps({t: {str(p): o for p, o in found.items()} for t, found in offsets.items()})


def read_messages(
    spark: SparkSession,
    kafka: KafkaConfig,
    ranges: Mapping[str, Mapping[int, tuple[int, int]]],
    tasks: int | None = None,
) -> DataFrame:
    """Read the messages of ranges: topic, partition, offset, key, value; without tombstones.

    Offsets are not counts: transaction markers and aborted records also take offsets.

    Args:
        ranges: (first, next) offset by topic and partition.
        tasks: least number of tasks; None: one for each partition.
    """
    assign = {topic: sorted(found) for topic, found in ranges.items()}
    first = {topic: {p: of[0] for p, of in found.items()} for topic, found in ranges.items()}
    end = {topic: {p: of[1] for p, of in found.items()} for topic, found in ranges.items()}
    reader = (
        spark.read.format("kafka")
        .options(**kafka_options(kafka))
        .option("kafka.group.id", _READERS)
        .option("assign", json.dumps(assign))
        .option("startingOffsets", offsets_json(first))
        .option("endingOffsets", offsets_json(end))
    )
    if tasks is not None:
        reader = reader.option("minPartitions", tasks)
    return (
        reader.load()
        .where("value IS NOT NULL")
        .select("topic", "partition", "offset", "key", "value")
    )
