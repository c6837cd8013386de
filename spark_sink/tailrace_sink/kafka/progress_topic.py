"""The progress topic, read in slices that fit the driver, whatever has gathered there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

from tailrace_sink.errors import ChangesLost, ProgressTruncated, SinkError, TopicUnknown
from tailrace_sink.kafka.offset_bounds import Bounds, TopicCheck
from tailrace_sink.kafka.offset_reads import read_messages
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.plan.progress_record import ProgressRecord, SchemaById, decode_progress
from tailrace_sink.spark.jvm_errors import translated

SLICE_BYTES: Final = 8 * 1024 * 1024
"""Bytes of progress records read in one go; decoded, they take about ten times as much memory."""
_FIRST: Final = 200
_MOST: Final = 20_000
_GROWTH: Final = 4


def fitting(sizes: Iterable[tuple[int, int]], bytes_max: int) -> int | None:
    """The last number whose bytes, with those before it, are within a bound; at least the first.

    Args:
        sizes: numbers with their bytes, in their order.
        bytes_max: the bound.
    """
    last, total = None, 0
    for number, size in sizes:
        total += size
        if last is not None and total > bytes_max:
            break
        last = number
    return last


class SliceSize:
    """How many offsets to look at next, by how large the last records were.

    The next ones may be larger: of more than the first 200 their lengths are asked for, before they
    are read.

    Args:
        bytes_max: of the records of a slice.

    Attributes:
        offsets: at most so many; 200 at first.
    """

    def __init__(self, bytes_max: int = SLICE_BYTES) -> None:
        self._bytes_max = bytes_max
        self.offsets = _FIRST

    def learn(self, offsets: int, size: int) -> None:
        """Note how many bytes some offsets had."""
        as_many = offsets * self._bytes_max // max(1, size)
        self.offsets = max(1, min(as_many, self.offsets * _GROWTH, _MOST))

    def may_be_large(self, offsets: int) -> bool:
        """Whether so many offsets are too many to read before their lengths are known."""
        return offsets > _FIRST


class ProgressTopic:
    """The progress records in Kafka.

    Args:
        spark: a session for small reads.
        config: the options.
        schema_by_id: looks writer schemas up.
    """

    def __init__(self, spark: SparkSession, config: SinkConfig, schema_by_id: SchemaById) -> None:
        self._spark = spark
        self._kafka = config.kafka
        self._schema_by_id = schema_by_id
        self._check = TopicCheck(spark, config.kafka)
        self.name = config.topics.progress

    def bounds(self) -> dict[int, Bounds]:
        """What each partition has; nothing while the brokers do not know the topic.

        Raises:
            SinkError: the brokers do not answer.
        """
        return self._check.bounds(self.name)

    def after(self, known: Mapping[int, int]) -> Iterator[list[ProgressRecord]]:
        """Slices of everything from some offsets to the present end, of all partitions.

        Args:
            known: next offset by partition; a partition without one is read from its beginning.

        Raises:
            TopicUnknown: the brokers do not know the topic.
            ProgressTruncated: it does not have what comes next.
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
        """Slices of the records in [first, end), by partition.

        Raises:
            ProgressTruncated: the topic no longer has them.
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
        """The records of some rows with partition, offset and value.

        Raises:
            ForeignRecord: one is no progress record.
        """
        found = []
        for row in rows:
            value = bytes(row["value"])
            progress = decode_progress(value, self._schema_by_id)
            found.append(ProgressRecord(row["partition"], row["offset"], progress, value))
        return found

    def _fitting(self, ranges: Mapping[int, tuple[int, int]]) -> dict[int, tuple[int, int]]:
        """The beginnings of some ranges that are not too large to be read."""
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
    """The sink's error for one of Spark's that came of reading the progress topic."""
    found = translated(step, error)
    return ProgressTruncated(str(found)) if isinstance(found, ChangesLost) else found
