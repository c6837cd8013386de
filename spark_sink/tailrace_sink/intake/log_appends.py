"""Appends of cuts to the log: from Kafka to Delta, small cuts through the driver."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tailrace_sink.kafka.offset_reads import read_messages
from tailrace_sink.log.log_sql import schema_id_sql
from tailrace_sink.log.recent_cuts import EVENTS
from tailrace_sink.log.sink_parts import SinkParts
from tailrace_sink.plan.cut_plan import LogRange
from tailrace_sink.plan.log_state import LogState
from tailrace_sink.plan.progress_record import ProgressRecord
from tailrace_sink.spark.jvm_errors import translated
from tailrace_sink.spark.session import own_session, small_batch_session

_IN_MEMORY_BYTES: Final = 1024 * 1024
"""Bytes of values of a cut that passes through the driver and stays in memory for the fold
(``recent_cuts``). Spark warns of tasks that carry more."""
_NOTHING_NEW: Final = EVENTS.empty_table()


class LogAppends:
    """Reader of a cut's events and writer of the log.

    Attributes:
        small_session: a session that is tuned for few rows.
    """

    def __init__(self, parts: SinkParts) -> None:
        self._config = parts.config
        self._log = parts.log
        self._now_s = parts.now_s
        self.small_session = small_batch_session(parts.spark)
        self._large = own_session(parts.spark)

    def append(
        self,
        before: int,
        state: LogState,
        records: Iterable[ProgressRecord],
        topics: Mapping[str, LogRange],
    ) -> bool:
        """Append one cut.

        Args:
            before: batch id of the previous cut.
            state: the one after the cut.

        Returns:
            Whether it was written (see ``LogTable.append``).

        Raises:
            SinkError: Kafka does not answer or lacks something, or the lake cannot be written.
        """
        count = sum(of.count for of in topics.values())
        size = sum(of.bytes for of in topics.values())
        is_small = bool(state.in_kafka) or self._config.fits_driver(count, size)
        session = self.small_session if is_small else self._large
        # Jobs of the log run alongside those of the tables instead of waiting for them. The
        # property holds for this thread only.
        session.sparkContext.setLocalProperty("spark.scheduler.pool", "log")
        day = dt.datetime.fromtimestamp(self._now_s(), dt.UTC).date()
        try:
            is_copied = bool(topics) and not state.in_kafka
            events = self._events(session, topics, is_small=is_small) if is_copied else None
            kept = None if is_copied or state.in_kafka else _NOTHING_NEW
            if is_small and events is not None and size <= _IN_MEMORY_BYTES:
                events = kept = events.coalesce(1).toArrow()
            is_written = self._log.append(
                session,
                state,
                list(records),
                self._config.topics.progress,
                events,
                day,
                one_file=is_small,
            )
        except (PySparkException, Py4JError) as error:
            raise translated("appending to the log", error) from error
        if is_written:
            # A start row does not continue the cuts in memory.
            kept = None if state.is_start else kept
            self._log.recent.keep(before, state.state.batch, kept)
        return is_written

    def _events(
        self, session: SparkSession, topics: Mapping[str, LogRange], *, is_small: bool
    ) -> DataFrame:
        partitions = {topic: of.partitions for topic, of in topics.items()}
        cores = None if is_small else session.sparkContext.defaultParallelism
        known = {schema_id for of in topics.values() for schema_id in of.schema_ids}
        messages = read_messages(session, self._config.kafka, partitions, cores)
        return messages.selectExpr("*", f"{schema_id_sql(known)} AS schema_id")
