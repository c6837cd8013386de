"""Where a batch reads its events: small ones from the log, in one pass; many changes from Kafka."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import structlog
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tailrace_sink.errors import SinkError
from tailrace_sink.fold.ledger import counted_in
from tailrace_sink.kafka.offset_bounds import TopicCheck
from tailrace_sink.log.events import Events
from tailrace_sink.log.recent_cuts import events_of
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.plan.ledger_difference import difference
from tailrace_sink.plan.sink_state import BatchPlan
from tailrace_sink.plan.topic_ranges import TopicRange
from tailrace_sink.rows.writer_schema import WriterSchema
from tailrace_sink.spark.jvm_errors import translated

_log = structlog.get_logger("tailrace.sink")


class TopicReader:
    """Reads ranges of topics into memory, and finds those that are read from Kafka instead.

    Args:
        spark: a session for small reads.
    """

    def __init__(
        self, spark: SparkSession, config: SinkConfig, events: Events, check: TopicCheck
    ) -> None:
        self._spark = spark
        self._config = config
        self._events = events
        self._check = check

    def large_from_kafka(self, plan: BatchPlan) -> BatchPlan:
        """Let many changes of a table be read from Kafka, if it still has all of them.

        Values in Kafka are decoded by columns, those in the log by Spark, which takes longer. So
        the small cuts of a snapshot or of a backlog are not read from the log.
        """
        many = {
            of.topic: of.partitions
            for of in plan.topics
            if self._config.is_bulk(of.count) and of.from_kafka != of.partitions
        }
        try:
            lost = self._check.gone(many)
        except SinkError as error:
            _log.info("large_batch_read_from_log", reason=str(error))
            return plan
        topics = (
            replace(of, in_kafka=of.partitions) if of.topic in many.keys() - lost else of
            for of in plan.topics
        )
        return replace(plan, topics=tuple(topics))

    def lost(self, plan: BatchPlan) -> dict[str, SinkError]:
        """Return the error of each topic of which Kafka has deleted changes that the log lacks.

        It had those of bulk cuts when they were planned.

        Raises:
            SinkError: the brokers do not know it yet, or do not answer.
        """
        return self._check.gone({of.topic: of.from_kafka for of in plan.topics if of.from_kafka})

    def values(
        self, ranges: Mapping[str, TopicRange], writers: Mapping[str, Sequence[WriterSchema]]
    ) -> tuple[dict[str, pa.Table], dict[str, SinkError]]:
        """Read the events of topics.

        Args:
            writers: topic to all writer schemas that the ledger names.

        Returns:
            Topic to partition, offset, key and value of its events; and topic to error, for topics
            that differ from the ledger.

        Raises:
            SinkError: Spark reported an error.
        """
        values: dict[str, pa.Table] = {}
        lost: dict[str, SinkError] = {}
        left = ranges
        # Who says that records were removed must have looked everywhere: a table stops only if no
        # place has what the publisher counted.
        for read in (self._from_memory, self._from_log, self._from_kafka):
            for topic, rows in read(left).items():
                table = str(self._config.topics.table_of(topic) or topic)
                differs = difference(table, ranges[topic], counted_in(rows, writers[topic]))
                if differs is not None:
                    lost[topic] = differs
                    values.setdefault(topic, rows)
                    continue
                values[topic] = rows
                if topic in lost:
                    _log.error(
                        "read_elsewhere",
                        topic=topic,
                        reason=str(lost.pop(topic)),
                        effect="none: another place has every event that the publisher counted",
                    )
            right = values.keys() - lost
            left = {topic: of for topic, of in ranges.items() if topic not in right}
            if not left:
                break
        return values, lost

    def _from_memory(self, ranges: Mapping[str, TopicRange]) -> dict[str, pa.Table]:
        return self._events.log.recent.values(ranges.values()) or {}

    def _from_log(self, ranges: Mapping[str, TopicRange]) -> dict[str, pa.Table]:
        """Read from the log, and from Kafka what only Kafka has."""
        if not ranges:
            return {}
        try:
            read: pa.Table = self._events.values(self._spark, ranges.values()).toArrow()
        except (PySparkException, Py4JError) as error:
            raise translated(f"reading {', '.join(sorted(ranges))}", error) from error
        return {topic: events_of(topic, read) for topic in ranges}

    def _from_kafka(self, ranges: Mapping[str, TopicRange]) -> dict[str, pa.Table]:
        """Read what Kafka still has all of; nothing if it does not answer."""
        asked = {t: of for t, of in ranges.items() if of.from_kafka != of.partitions}
        try:
            gone = self._check.gone({topic: of.partitions for topic, of in asked.items()})
            there = {t: replace(of, in_kafka=of.partitions) for t, of in asked.items()}
            return self._from_log({t: of for t, of in there.items() if t not in gone})
        except SinkError as error:
            _log.warning("not_counted_in_kafka", topics=sorted(asked), reason=str(error))
            return {}
