"""The log: one Delta table to which the events of all topics are appended first, undecoded.

One cut is one append, and so one Delta commit. It has the records of every topic, the progress
records that count them, and a row with the state of the log after it (topic ''). So a cut of all
tables appears as a whole or not at all.

The transaction version of the append consists of the sink's epoch and the batch id. Delta skips the
write of a sink whose epoch is not the newest, and refuses one that overlaps with another. So two
sinks never both write (``mark``).

It is a plain table, which every Delta reader can open. It is partitioned by day, so that old days
are deleted without reading them.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tailrace_sink.delta.append_once import append_version
from tailrace_sink.delta.classes import has_delta_log
from tailrace_sink.delta.conflicts import is_concurrent_batch
from tailrace_sink.delta.file_log import (
    files_with,
    folders,
    frame_of,
    table_id,
    table_version,
    transaction_version,
)
from tailrace_sink.log.batch_rows import rows_of_batch
from tailrace_sink.log.cut_rows import rows_of_events, rows_of_state
from tailrace_sink.log.log_sql import (
    batches_condition,
    exact_condition,
    looked_up,
    stable_condition,
)
from tailrace_sink.log.recent_cuts import RecentCuts
from tailrace_sink.plan.log_state import LogState, Mark
from tailrace_sink.plan.progress_record import ProgressRecord
from tailrace_sink.plan.scopes import log_scope
from tailrace_sink.plan.topic_ranges import TopicRange
from tailrace_sink.tables.lake_table import literal, quote

_COLUMNS: Final = (
    ("day", "DATE", "When the cut was appended, UTC"),
    ("batch", "BIGINT", "Grows with every cut: the progress offsets added up"),
    ("topic", "STRING", "Topic of the record; empty for the state of the log after the cut"),
    ("partition", "INT", "Its partition"),
    ("offset", "BIGINT", "Its offset"),
    ("schema_id", "INT", "Registry id of its writer schema"),
    ("lsn", "STRING", "Source LSN that the cut closes"),
    ("key", "BINARY", "Key of the record"),
    ("value", "BINARY", "Value of the record: frame and Avro"),
    ("state", "STRING", "JSON: the state of the log after the cut"),
)
_PROPERTIES: Final[Mapping[str, str]] = {
    # Reads compare only these columns. Statistics of all would take longer than the append.
    "delta.dataSkippingStatsColumns": "batch,topic,partition,offset",
    # By default every tenth commit writes a checkpoint, and takes 1 s longer (measured).
    "delta.checkpointInterval": "100",
    # Nobody reads older versions of the log: the newest has all its rows.
    "delta.logRetentionDuration": "interval 1 days",
    "delta.deletedFileRetentionDuration": "interval 1 days",
    "delta.autoOptimize.autoCompact": "false",
}
_LARGE_FILE: Final = 16 * 1024 * 1024
_RECENT_BYTES_MAX: Final = 32 * 1024 * 1024
"""Bytes of the newest cuts in memory, which the fold need not read again."""


class LogTable:
    """The log of one lake.

    Args:
        spark: a session for small reads.

    Attributes:
        recent: events of the newest cuts that this process appended.
    """

    def __init__(self, spark: SparkSession, path: str, prefix: str) -> None:
        self._spark = spark
        self.recent = RecentCuts(_RECENT_BYTES_MAX)
        self.path = path
        self._name = f"delta.{quote(path)}"
        self._app_id = log_scope(prefix)
        self.prefix = prefix

    @classmethod
    def of_lake(cls, spark: SparkSession, path: str) -> LogTable | None:
        """Open the log of a lake without knowing the prefix; None if it has no log."""
        if table_version(spark, path) < 0:
            return None
        row = (
            spark.read.format("delta")
            .load(path)
            .where("topic = ''")
            .selectExpr("get_json_object(state, '$.prefix') AS prefix")
            .first()
        )
        return None if row is None else cls(spark, path, row["prefix"])

    def ensure(self) -> None:
        """Create the table if there is none."""
        if table_version(self._spark, self.path) >= 0:
            return
        columns = ", ".join(f"{quote(n)} {type_} COMMENT '{text}'" for n, type_, text in _COLUMNS)
        properties = ", ".join(f"'{name}' = '{value}'" for name, value in _PROPERTIES.items())
        self._spark.sql(
            f"CREATE TABLE IF NOT EXISTS {self._name} ({columns}) USING delta PARTITIONED BY (day)"
            f" TBLPROPERTIES ({properties})"
        )

    def id(self) -> str:
        """Return Delta's id of the table; a log that was created again has another one."""
        return table_id(self._spark, self.path)

    def mark(self) -> Mark | None:
        """Return the mark of the last append, from Delta's state; None before the first one."""
        if not has_delta_log(self._spark):
            last = self._last_by_rows()
            return None if last is None else last.mark
        version = transaction_version(self._spark, self.path, self._app_id)
        return None if version is None else Mark.of_version(version)

    def last(self) -> LogState | None:
        """Return the newest state; None if there is none."""
        if not has_delta_log(self._spark):
            return self._last_by_rows()
        mark = self.mark()
        if mark is None:
            return None
        rows = rows_of_batch(self._spark, self.path, mark.batch).where("topic = ''").collect()
        found = [LogState.of_json(row["state"]) for row in rows]
        return next(state for state in found if state.epoch == mark.epoch)

    def _last_by_rows(self) -> LogState | None:
        """Find the newest state among all rows: no sink writes after the start of a newer one."""
        epoch = "CAST(get_json_object(state, '$.epoch') AS BIGINT)"
        newest = f"max_by(state, struct({epoch}, batch)) AS state"
        row = self.rows().where("topic = ''").selectExpr(newest).first()
        return None if row is None or row["state"] is None else LogState.of_json(row["state"])

    def append(
        self,
        spark: SparkSession,
        state: LogState,
        records: Sequence[ProgressRecord],
        progress_topic: str,
        events: DataFrame | pa.Table | None,
        day: dt.date,
        *,
        one_file: bool,
    ) -> bool:
        """Append one cut, unless its mark is not newer than the table's.

        Args:
            spark: the session of the write.
            state: the one after the cut.
            events: topic, partition, offset, schema_id (``schema_id_sql``), key and value of the
                changes; in memory if they are few.
            day: the present day in UTC.
            one_file: whether the cut is small enough for one file.

        Returns:
            False if another write used this mark or a newer one first.
        """
        local = rows_of_state(state, records, progress_topic, day)
        if isinstance(events, pa.Table):
            local, events = pa.concat_tables([local, rows_of_events(events, state, day)]), None
        rows = spark.createDataFrame(local)
        if events is not None:
            of_events = events.selectExpr(
                f"DATE'{day.isoformat()}' AS day",
                f"{looked_up(state.state.batch)} AS batch",
                "topic",
                "partition",
                "offset",
                "schema_id",
                f"{literal(state.state.closed_lsn)} AS lsn",
                "key",
                "value",
                "CAST(NULL AS STRING) AS state",
            )
            rows = of_events.unionByName(rows)
        if one_file:
            rows = rows.coalesce(1)
        # The table's history then shows the time of each LSN.
        metadata = state.state.closed_lsn
        try:
            return append_version(rows, self.path, self._app_id, state.mark.version, metadata)
        except (PySparkException, Py4JError) as error:
            if is_concurrent_batch(error):
                return False  # Another sink took the log over in between.
            raise

    def states(self, after_batch: int, up_to_batch: int, limit: int) -> list[LogState]:
        """Return the states of the cuts in (after, up to], the oldest first."""
        rows = (
            self.rows()
            .where(_of_cuts("", after_batch, up_to_batch))
            .where("get_json_object(state, '$.is_start') = 'false'")
            .orderBy("batch")
            .limit(limit)
            .select("state")
            .collect()
        )
        return [LogState.of_json(row["state"]) for row in rows]

    def progress(
        self, topic: str, after_batch: int, up_to_batch: int
    ) -> list[tuple[int, int, int, bytes]]:
        """Return batch, partition, offset and value of the progress records of some cuts."""
        found = self.rows().where(_of_cuts(topic, after_batch, up_to_batch))
        rows = found.select("batch", "partition", "offset", "value").collect()
        return [(r["batch"], r["partition"], r["offset"], bytes(r["value"])) for r in rows]

    def progress_bytes(
        self, topic: str, after_batch: int, up_to_batch: int
    ) -> list[tuple[int, int]]:
        """Return the batch ids of some cuts in order, with the bytes of their progress records."""
        found = self.rows().where(_of_cuts(topic, after_batch, up_to_batch))
        rows = found.selectExpr("batch", "length(value) AS size").groupBy("batch").sum("size")
        return sorted((row["batch"], row["sum(size)"]) for row in rows.collect())

    def values(self, spark: SparkSession, ranges: Iterable[TopicRange]) -> DataFrame:
        """Read the events of ranges: topic, partition, offset, key and value."""
        return self.records(spark, ranges).select("topic", "partition", "offset", "key", "value")

    def many(self, spark: SparkSession, found: TopicRange) -> DataFrame:
        """Read the events of one range in a session that generates code.

        The generated code contains the numbers of a condition, so each batch would be compiled
        again (ADR 0033). So the log's own session, which compiles nothing, chooses the files, and
        the condition on their rows looks its numbers up.
        """
        files = files_with(self.rows().where(batches_condition(found)))
        rows = frame_of(spark, self.path, files).where(stable_condition(found))
        return rows.select("topic", "partition", "offset", "key", "value")

    def records(self, spark: SparkSession, ranges: Iterable[TopicRange]) -> DataFrame:
        """Read all columns of the events of ranges."""
        listed = list(ranges)
        since = min(found.from_batch for found in listed)
        asked = " OR ".join(exact_condition(found) for found in listed)
        return spark.read.format("delta").load(self.path).where(f"batch >= {since} AND ({asked})")

    def optimize(self) -> None:
        """Combine small files: each cut is a file."""
        # Large files stay as they are. By default Delta would rewrite the whole day.
        self._spark.conf.set("spark.databricks.delta.optimize.minFileSize", str(_LARGE_FILE))
        self._spark.sql(f"OPTIMIZE {self._name}")

    def expire(self, before: dt.date, needed_batch: int) -> dt.date | None:
        """Delete the days before one, except those with a batch that is still needed.

        Returns:
            The first remaining day, if any was deleted.
        """
        # Each start checks this. A listing usually shows that nothing is old, without Spark jobs.
        days = (name.partition("day=")[2] for name in folders(self._spark, self.path))
        if all(dt.date.fromisoformat(day) >= before for day in days if day):
            return None
        needed = self.rows().where(f"batch >= {needed_batch}")
        oldest, first_needed = (
            None if row is None else row["day"]
            for row in (
                frame.selectExpr("min(day) AS day").first() for frame in (self.rows(), needed)
            )
        )
        keep = before if first_needed is None else min(before, first_needed)
        if oldest is None or oldest >= keep:
            return None
        self._spark.sql(f"DELETE FROM {self._name} WHERE day < DATE'{keep.isoformat()}'")
        return keep

    def rows(self) -> DataFrame:
        """Read the whole table."""
        return self._spark.read.format("delta").load(self.path)


def _of_cuts(topic: str, after_batch: int, up_to_batch: int) -> str:
    return f"topic = {literal(topic)} AND batch > {after_batch} AND batch <= {up_to_batch}"
