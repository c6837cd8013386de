"""Reading exactly the offsets that the ledger names, and nothing that was not committed."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from tailrace_sink.options.kafka_options import KafkaConfig

FETCH_WAIT_MS = 3
"""With the consumer's default of 500 every read of a small range waits half a second at the end of
the log (measured)."""
_READERS: Final = f"tailrace-sink-{uuid.uuid4().hex}"
"""Consumer group of this process' exact reads. Nothing is committed to it: it is the name under
which Spark keeps consumers open, by partition. Without one each read opens its own, 50 ms a
partition, one after another where a cut becomes one file."""


def kafka_options(kafka: KafkaConfig) -> dict[str, str]:
    """The options of every read, batch or stream."""
    timeout_ms = str(int(kafka.request_timeout_s * 1000))
    extra = {f"kafka.{name}": value for name, value in kafka.further_options().items()}
    return {
        "kafka.fetch.max.wait.ms": str(FETCH_WAIT_MS),
        "kafka.default.api.timeout.ms": timeout_ms,
        "kafka.request.timeout.ms": timeout_ms,
        # A range that ends beyond the log would hang for two minutes otherwise (measured).
        "kafkaConsumer.pollTimeoutMs": str(int(kafka.poll_timeout_s * 1000)),
        **extra,
        "kafka.bootstrap.servers": kafka.bootstrap,
        "kafka.isolation.level": "read_committed",
        "failOnDataLoss": "true",
    }


def client_properties(jvm: Any, kafka: KafkaConfig) -> Any:
    """The same as ``java.util.Properties``, for a client of Kafka that Spark does not make."""
    properties = jvm.java.util.Properties()
    for name, value in kafka_options(kafka).items():
        if name.startswith("kafka."):
            properties.setProperty(name.removeprefix("kafka."), value)
    return properties


def producer_options(kafka: KafkaConfig) -> dict[str, str]:
    """The options of a write."""
    ours = {"kafka.fetch.max.wait.ms", "kafka.isolation.level"}
    options = {
        name: value
        for name, value in kafka_options(kafka).items()
        if name.startswith("kafka.") and name not in ours
    }
    # A topic that is not there would be waited for a minute otherwise.
    return {"kafka.max.block.ms": str(int(kafka.request_timeout_s * 1000)), **options}


def offsets_json(offsets: Mapping[str, Mapping[int, int]]) -> str:
    """Offsets by topic and partition as Spark's options have them."""
    return json.dumps({t: {str(p): o for p, o in found.items()} for t, found in offsets.items()})


def read_messages(
    spark: SparkSession,
    kafka: KafkaConfig,
    ranges: Mapping[str, Mapping[int, tuple[int, int]]],
    tasks: int | None = None,
) -> DataFrame:
    """The messages of some ranges: topic, partition, offset, key, value; tombstones left out.

    Offsets are not counts: transaction markers and aborted records lie between them.

    Args:
        spark: the session to read in.
        kafka: the brokers.
        ranges: (first, next) offset by topic and partition.
        tasks: into how many to split the work at least; None takes one for each partition.
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
