"""Reading the topics of a small batch, and telling which of them do not hold what they should."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tailrace_sink.config import SinkConfig
from tailrace_sink.decode import WriterSchema
from tailrace_sink.errors import ChangesLost, SinkError, TopicGone, TopicUnknown
from tailrace_sink.jvm_errors import translated
from tailrace_sink.kafka_ranges import read_values
from tailrace_sink.ledger import counted_in, difference
from tailrace_sink.topic_ranges import TopicRange

TOPIC_GONE_AFTER_S: Final = 30.0
"""How long the brokers may not know a topic until it counts as deleted: one that has just started
knows less for a moment."""


class TopicReader:
    """Reads ranges of topics into memory.

    Args:
        spark: the session for reading small batches.
        config: the options.
    """

    def __init__(self, spark: SparkSession, config: SinkConfig) -> None:
        self._spark = spark
        self._config = config
        self._unknown_since: dict[str, float] = {}

    def values(
        self, ranges: Mapping[str, TopicRange], writers: Mapping[str, Sequence[WriterSchema]]
    ) -> tuple[dict[str, pa.Table], dict[str, SinkError]]:
        """The messages of some topics, read at once.

        Args:
            ranges: what to read, by topic.
            writers: all writer schemas that the ledger names, by topic.

        Returns:
            Partition, offset and value of the messages by topic, and the error of each topic that
            does not hold what it should.

        Raises:
            SinkError: Kafka is not available, or reading failed.
        """
        values: dict[str, pa.Table] = {}
        lost: dict[str, SinkError] = {}
        try:
            values = self._read(ranges)
        except (ChangesLost, TopicUnknown):
            # Which of them lost theirs, the error does not tell.
            for topic, found in ranges.items():
                try:
                    values |= self._read({topic: found})
                except ChangesLost as error:
                    lost[topic] = error
                except TopicUnknown as error:
                    lost[topic] = self.gone(topic, error)
        for topic, found in values.items():
            self.known(topic)
            table = str(self._config.topics.table_of(topic) or topic)
            counted = counted_in(found, writers[topic])
            differs = difference(table, ranges[topic], counted)
            if differs is not None:
                lost[topic] = differs
        return values, lost

    def known(self, topic: str) -> None:
        """A topic could be read."""
        self._unknown_since.pop(topic, None)

    def gone(self, topic: str, error: TopicUnknown) -> TopicGone:
        """A topic that is unknown for long was deleted; until then Kafka is not available.

        Raises:
            TopicUnknown: not long enough.
        """
        since = self._unknown_since.setdefault(topic, time.monotonic())
        if time.monotonic() - since < TOPIC_GONE_AFTER_S:
            raise error
        del self._unknown_since[topic]
        return TopicGone(topic)

    def _read(self, ranges: Mapping[str, TopicRange]) -> dict[str, pa.Table]:
        if not ranges:
            return {}
        try:
            read: pa.Table = read_values(self._spark, self._config.kafka, ranges.values()).toArrow()
        except (PySparkException, Py4JError) as error:
            raise translated(f"reading {', '.join(sorted(ranges))}", error) from error
        return {
            topic: read.filter(pc.equal(read["topic"], topic))
            .select(["partition", "offset", "value"])
            .combine_chunks()
            for topic in ranges
        }
