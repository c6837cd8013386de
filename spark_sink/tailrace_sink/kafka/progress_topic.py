"""The progress topic, read in slices that fit in the driver, however large the backlog."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
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

    def bounds(self) -> dict[int, Bounds]:
        """Return the offsets of each partition; empty if the brokers do not know the topic.

        Raises:
            SinkError: the brokers do not answer.
            DividedIntoShards: the topic has a partition of each shard.
        """
        found = self._check.bounds(self.name)
        if len(found) > 1:
            raise DividedIntoShards(f"topic {self.name}, which has {len(found)} partitions,")
        return found

    def after(self, known: Mapping[int, int]) -> Iterator[list[ProgressRecord]]:
        """Read slices from some offsets to the present end, of all partitions.

        Args:
            known: next offset by partition; other partitions are read from their start.

        Raises:
            TopicUnknown: the brokers do not know the topic.
            ProgressTruncated: it no longer has the next records.
            SinkError: Kafka does not answer.
            ForeignRecord: a record is no progress record.
        """
        bounds = self.bounds()
        if not bounds:
            raise TopicUnknown(f"topic {self.name} does not exist: waiting for the publisher")
        for partition, offset in known.items():
            has = bounds.get(partition)
            if has is None or has.end < offset:
                raise ProgressTruncated(
                    f"topic {self.name} partition {partition} ends before offset {offset}, which"
                    " the lake has: the topic was deleted and created again. Fix: publish under"
                    " another prefix, into another lake address"
                )
        first = {partition: known.get(partition, of.start) for partition, of in bounds.items()}
        return self.between(first, {partition: of.stable_end for partition, of in bounds.items()})

    def between(
        self, first: Mapping[int, int], end: Mapping[int, int]
    ) -> Iterator[list[ProgressRecord]]:
        """Read slices of the records in [first, end), by partition.

        Raises:
            ProgressTruncated: Kafka deleted records of the range.
            SinkError: Kafka does not answer.
            ForeignRecord: a record is no progress record.
        """
        size, done = SliceSize(), dict(first)
        while ranges := {
            partition: (offset, min(end[partition], offset + size.offsets))
            for partition, offset in done.items()
            if offset < end[partition]
        }:
            if size.may_be_large(max(up_to - offset for offset, up_to in ranges.values())):
                ranges = self._fitting(ranges)
            records = self._read(ranges)
            done |= {partition: up_to for partition, (_, up_to) in ranges.items()}
            read = sum(up_to - offset for offset, up_to in ranges.values())
            size.learn(read // len(ranges) or 1, sum(len(record.value) for record in records))
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

    def _fitting(self, ranges: Mapping[int, tuple[int, int]]) -> dict[int, tuple[int, int]]:
        """Cut ranges so that they are not too large to read."""
        lengths = self._collected(ranges, "partition", "offset", "length(value) AS size")
        found = {}
        for partition, (first, end) in ranges.items():
            of_it = (row for row in lengths if row["partition"] == partition)
            sizes = sorted((row["offset"], row["size"]) for row in of_it)
            last = fitting(sizes, SLICE_BYTES // len(ranges))
            is_all = last is None or last == sizes[-1][0]
            found[partition] = (first, end if last is None or is_all else last + 1)
        return found

    def _read(self, ranges: Mapping[int, tuple[int, int]]) -> list[ProgressRecord]:
        return self.decoded(self._collected(ranges, "partition", "offset", "value"))

    def _collected(self, ranges: Mapping[int, tuple[int, int]], *columns: str) -> list[Row]:
        try:
            messages = read_messages(self._spark, self._kafka, {self.name: ranges})
            return messages.selectExpr(*columns).collect()
        except (PySparkException, Py4JError) as error:
            raise of_progress(f"reading {self.name}", error) from error


def of_progress(step: str, error: PySparkException | Py4JError) -> SinkError:
    """Convert an error of Spark that reading the progress topic raised."""
    found = translated(step, error)
    return ProgressTruncated(str(found)) if isinstance(found, ChangesLost) else found
