"""The job that people write by hand: Kafka, from_avro, the last change of a key, MERGE.

Rows that are all new are also appended, without keys: what people write for an initial load.

It is the sink's peer, with the sink's own settings of Spark, and handles its tables in parallel. It
has nothing that the sink promises: no cut over tables, no ledger, no harmless repetition, no schema
changes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.avro.functions import from_avro

from tailrace_sink.delta.file_log import table_version
from tailrace_sink.kafka.offset_reads import read_messages
from tailrace_sink.options.kafka_options import KafkaConfig
from tailrace_sink.plan.topic_ranges import TopicRange

_FRAME_BYTES: Final = 5


class ByHand:
    """A MERGE for each topic.

    Args:
        spark: any session of the application.
        avro: by topic the schema of its events, as JSON text.
        folder: where the tables are.
    """

    def __init__(
        self, spark: SparkSession, kafka: KafkaConfig, avro: Mapping[str, str], folder: str
    ) -> None:
        self._sessions = {topic: spark.newSession() for topic in avro}
        self._kafka = kafka
        self._avro = avro
        self._folder = folder

    def location(self, topic: str) -> str:
        """Where a topic's table is."""
        return f"{self._folder}/{topic}"

    def apply(self, ranges: Iterable[TopicRange]) -> float:
        """Bring some ranges into the tables.

        Returns:
            Seconds.
        """
        return self._timed(self._merge, ranges)

    def append(self, ranges: Iterable[TopicRange]) -> float:
        """Append some ranges to tables of their own: a fair initial load, as nothing is updated.

        Returns:
            Seconds.
        """
        return self._timed(self._append, ranges)

    def decode(self, ranges: Iterable[TopicRange]) -> float:
        """Decode some ranges into Parquet and do nothing else: no keys, no MERGE, no Delta.

        Returns:
            Seconds: what everything that decodes needs at least.
        """
        return self._timed(self._write_decoded, ranges)

    def _timed(self, work: Callable[[TopicRange], None], ranges: Iterable[TopicRange]) -> float:
        started = time.perf_counter()
        with ThreadPoolExecutor(len(self._sessions)) as pool:
            list(pool.map(work, [found for found in ranges if found.count]))
        return time.perf_counter() - started

    def rows(self, spark: SparkSession, found: TopicRange) -> DataFrame:
        """Every change with its image."""
        values = read_messages(spark, self._kafka, {found.topic: found.partitions})
        event = from_avro(F.expr(f"substring(value, {_FRAME_BYTES + 1})"), self._avro[found.topic])
        return values.select("offset", event.alias("event")).selectExpr(
            "coalesce(event.after, event.before) AS image",
            "event.op AS op",
            "event.source.commit_lsn AS lsn",
            "offset",
        )

    def _append(self, found: TopicRange) -> None:
        rows = self._images(found)
        rows.write.format("delta").mode("append").save(f"{self._folder}/appended-{found.topic}")

    def _images(self, found: TopicRange) -> DataFrame:
        return self.rows(self._sessions[found.topic], found).select("image.*", "op", "lsn")

    def _write_decoded(self, found: TopicRange) -> None:
        rows = self._images(found)
        rows.write.parquet(f"{self._folder}/decoded-{found.topic}-{time.monotonic_ns()}")

    def latest(self, spark: SparkSession, found: TopicRange) -> DataFrame:
        """Return the last change of each key, as in the table."""
        rows = self.rows(spark, found)
        # A key's events are in one partition: the last of it has the greatest offset.
        latest = rows.groupBy("image.id").agg(F.max_by(F.struct("image", "op", "lsn"), "offset"))
        return latest.toDF("id", "last").select("last.image.*", "last.op", "last.lsn")

    def _merge(self, found: TopicRange) -> None:
        spark = self._sessions[found.topic]
        latest, location = self.latest(spark, found), self.location(found.topic)
        if table_version(spark, location) < 0:
            latest.limit(0).write.format("delta").save(location)
        latest.createOrReplaceTempView("latest")
        spark.sql(
            f"MERGE INTO delta.`{location}` t USING latest s ON t.id = s.id"
            " WHEN MATCHED AND s.op = 'd' THEN DELETE"
            " WHEN MATCHED THEN UPDATE SET *"
            " WHEN NOT MATCHED AND s.op <> 'd' THEN INSERT *"
        )
