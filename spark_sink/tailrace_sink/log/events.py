"""The events of topic ranges: from the log, and from Kafka for the cuts of which the log has none.

A bulk cut is not copied into the log (``sink.bulk_changes``). Its row in the log names it, and its
batch reads the exact offsets of the ledger from Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyspark.sql import DataFrame, SparkSession

from tailrace_sink.kafka.offset_reads import read_messages
from tailrace_sink.log.log_sql import schema_id_sql
from tailrace_sink.log.log_table import LogTable
from tailrace_sink.options.kafka_options import KafkaConfig
from tailrace_sink.plan.topic_ranges import TopicRange
from tailrace_sink.tables.lake_table import literal

_COLUMNS = ("topic", "partition", "offset", "key", "value")


class Events:
    """Reads events; thread-safe.

    Attributes:
        log: the log of the lake.
    """

    def __init__(self, log: LogTable, kafka: KafkaConfig) -> None:
        self.log = log
        self._kafka = kafka

    def values(self, spark: SparkSession, ranges: Iterable[TopicRange]) -> DataFrame:
        """Read few events of ranges: topic, partition, offset, key and value."""
        return self.records(spark, ranges).select(*_COLUMNS)

    def many(self, spark: SparkSession, found: TopicRange) -> DataFrame:
        """Read the events of one range in a session that generates code (``LogTable.many``)."""
        offsets = found.from_kafka
        if not offsets:
            return self.log.many(spark, found)
        messages = self._messages(spark, {found.topic: offsets})
        if _is_all(found):
            return messages
        return self.log.many(spark, found).where(_outside([found])).unionByName(messages)

    def records(self, spark: SparkSession, ranges: Iterable[TopicRange]) -> DataFrame:
        """Read events like rows of the log, with the registry id of their writer schema."""
        listed = list(ranges)
        offsets = {found.topic: found.from_kafka for found in listed if found.from_kafka}
        if not offsets:
            return self.log.records(spark, listed)
        known = {schema_id for found in listed for schema_id in found.schema_ids}
        messages = self._messages(spark, offsets).selectExpr(
            "*", f"{schema_id_sql(known)} AS schema_id"
        )
        if all(map(_is_all, listed)):
            return messages
        logged = self.log.records(spark, listed).where(_outside(listed))
        return logged.select(*messages.columns).unionByName(messages)

    def _messages(
        self, spark: SparkSession, offsets: Mapping[str, Mapping[int, tuple[int, int]]]
    ) -> DataFrame:
        return read_messages(spark, self._kafka, offsets, spark.sparkContext.defaultParallelism)


def _is_all(found: TopicRange) -> bool:
    """Whether Kafka has all events of a range."""
    return found.from_kafka == dict(found.partitions)


def _outside(ranges: Iterable[TopicRange]) -> str:
    """Condition on the rows of the log that are not read from Kafka."""
    inside = [
        f"(topic = {literal(found.topic)} AND partition = {partition} AND offset >= {first}"
        f" AND offset < {end})"
        for found in ranges
        for partition, (first, end) in found.from_kafka.items()
    ]
    return f"NOT ({' OR '.join(inside)})"
