"""The lake's table of records that could not be applied (``sink.on_bad_record``)."""

from __future__ import annotations

import threading
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from tailrace_sink.delta.append_once import append_once
from tailrace_sink.delta.file_log import table_version
from tailrace_sink.log.events import Events
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.plan.sink_state import CutPoint
from tailrace_sink.plan.topic_ranges import TopicRange
from tailrace_sink.rows.bad_records import REASON, Screen
from tailrace_sink.tables.lake_table import literal, quote, table_path

_COLUMNS: Final = (
    ("topic", "STRING", "Topic of the record"),
    ("partition", "INT", "Its partition"),
    ("offset", "BIGINT", "Its offset"),
    ("lsn", "STRING", "LSN of the cut that lacks it"),
    ("table", "STRING", "Source table: database.schema.table"),
    ("reason", "STRING", "Why it is no change of the table"),
    ("key", "BINARY", "Key of the record"),
    ("value", "BINARY", "Value of the record: frame and Avro, as far as it is that"),
    ("schema_id", "INT", "Registry id of its writer schema"),
    ("at", "TIMESTAMP", "When it was stored"),
)
_PLACE: Final = ("topic", "partition", "offset")


class DeadLetters:
    """The dead letters of one lake; thread-safe."""

    def __init__(self, config: SinkConfig, events: Events) -> None:
        self._path = config.dead_letters_path
        self._events = events
        self._lock = threading.Lock()

    def put(
        self, spark: SparkSession, screen: Screen, topic_range: TopicRange, cut: CutPoint
    ) -> int:
        """Store the bad records of one table, once for each table and batch.

        Args:
            spark: used by this thread only.
            screen: selects the bad records.
            cut: the cut that lacks them.

        Returns:
            Number of records that were not stored before.

        Raises:
            AppendSkipped: the table has a later batch.
        """
        self._ensure(spark)
        known = spark.read.format("delta").load(self._path)
        # Compare values too: a topic that was created again has the same offsets.
        known = known.where(f"topic = {literal(topic_range.topic)}").select(*_PLACE, "value")
        found = screen.bad(self._events.records(spark, [topic_range]))
        rows = found.join(known, [*_PLACE, "value"], "left_anti").selectExpr(
            *_PLACE,
            f"{literal(cut.lsn)} AS lsn",
            f"{literal(str(screen.table))} AS {quote('table')}",
            f"{REASON} AS reason",
            "key",
            "value",
            "schema_id",
            "current_timestamp() AS at",
        )
        rows.persist()
        try:
            count = rows.count()
            if count:
                application = f"tailrace-dead-letters-{table_path(screen.table)}"
                append_once(rows.coalesce(1), self._path, application, cut.batch)
        finally:
            rows.unpersist()
        return count

    def _ensure(self, spark: SparkSession) -> None:
        with self._lock:
            if table_version(spark, self._path) >= 0:
                return
            columns = ", ".join(
                f"{quote(name)} {type_} COMMENT {literal(text)}" for name, type_, text in _COLUMNS
            )
            spark.sql(
                f"CREATE TABLE IF NOT EXISTS delta.{quote(self._path)} ({columns}) USING delta"
            )


def dead_letters(spark: SparkSession, path: str) -> DataFrame:
    """Read the dead letters at a path; without a table, no rows."""
    if table_version(spark, path) < 0:
        columns = ", ".join(f"{quote(name)} {type_}" for name, type_, _ in _COLUMNS)
        return spark.createDataFrame([], columns)
    return spark.read.format("delta").load(path).orderBy(F.col("at"), *_PLACE)
