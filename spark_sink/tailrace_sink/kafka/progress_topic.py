"""The progress topic, read in slices that fit in the driver, however large the backlog."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

from tailrace_sink.errors import (
    ChangesLost,
    DividedIntoShards,
    ProgressTruncated,
    SinkError,
    TopicUnknown,
)
from tailrace_sink.kafka.offset_bounds import Bounds, TopicCheck
from tailrace_sink.kafka.offset_reads import read_messages
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.plan.progress_record import ProgressRecord, SchemaById, decode_progress
from tailrace_sink.plan.slice_size import SLICE_BYTES, SliceSize, fitting
from tailrace_sink.spark.jvm_errors import translated

PARTITION: Final = 0
"""The partition with the records."""


class ProgressTopic:
    """The progress records in Kafka.

    Args:
        spark: a session for small reads.
    """

    def __init__(self, spark: SparkSession, config: SinkConfig, schema_by_id: SchemaById) -> None:
        self._spark = spark
        self._kafka = config.kafka
        self._schema_by_id = schema_by_id
        self._check = TopicCheck(spark, config.kafka)
        self.name = config.topics.progress

    def bounds(self) -> Bounds | None:
        """Return its offsets; None if the brokers do not know the topic.

        Raises:
            SinkError: the brokers do not answer.
            DividedIntoShards: the topic has a partition of each shard.
        """
        found = self._check.bounds(self.name)
        if len(found) > 1:
            raise DividedIntoShards(f"topic {self.name}, which has {len(found)} partitions,")
        return found.get(PARTITION)

    def after(self, known: int | None) -> Iterator[list[ProgressRecord]]:
        """Read slices from an offset to the present end.

        Args:
            known: the next offset; None: read from the start.

        Raises:
            TopicUnknown: the brokers do not know the topic.
            ProgressTruncated: it no longer has the next records.
            DividedIntoShards: the topic has a partition of each shard.
            SinkError: Kafka does not answer.
            ForeignRecord: a record is no progress record.
        """
        bounds = self.bounds()
        if bounds is None:
            raise TopicUnknown(f"topic {self.name} does not exist: waiting for the publisher")
        if known is not None and bounds.end < known:
            raise ProgressTruncated(
                f"topic {self.name} ends before offset {known}, which the lake has: the topic was"
                " deleted and created again. Fix: publish under another prefix, into another lake"
                " address"
            )
        return self.between(bounds.start if known is None else known, bounds.stable_end)

    def between(self, first: int, end: int) -> Iterator[list[ProgressRecord]]:
        """Read slices of the records in [first, end).

        Raises:
            ProgressTruncated: Kafka deleted records of the range.
            SinkError: Kafka does not answer.
            ForeignRecord: a record is no progress record.
        """
        size = SliceSize()
        while first < end:
            up_to = min(end, first + size.offsets)
            if size.may_be_large(up_to - first):
                lengths = self._collected(first, up_to, "offset", "length(value) AS size")
                sizes = sorted((row["offset"], row["size"]) for row in lengths)
                last = fitting(sizes, SLICE_BYTES)
                if last is not None and last != sizes[-1][0]:
                    up_to = last + 1
            records = self.decoded(self._collected(first, up_to, "partition", "offset", "value"))
            size.learn(up_to - first, sum(len(record.value) for record in records))
            first = up_to
            yield records

    def decoded(self, rows: Iterable[Row]) -> list[ProgressRecord]:
        """Decode rows with partition, offset and value.

        Raises:
            ForeignRecord: a row is no progress record.
        """
        found = []
        for row in rows:
            value = bytes(row["value"])
            progress = decode_progress(value, self._schema_by_id)
            found.append(ProgressRecord(row["partition"], row["offset"], progress, value))
        return found

    def _collected(self, first: int, end: int, *columns: str) -> list[Row]:
        ranges = {self.name: {PARTITION: (first, end)}}
        try:
            messages = read_messages(self._spark, self._kafka, ranges)
            return messages.selectExpr(*columns).collect()
        except (PySparkException, Py4JError) as error:
            raise of_progress(f"reading {self.name}", error) from error


def of_progress(step: str, error: PySparkException | Py4JError) -> SinkError:
    """Convert an error of Spark that reading the progress topic raised."""
    found = translated(step, error)
    return ProgressTruncated(str(found)) if isinstance(found, ChangesLost) else found
