"""Requests for new snapshots of tables that cannot return otherwise.

Such a table lacks changes: it was excluded for a while, they are gone from Kafka, or they are not
those of the ledger. The publisher treats a request as an operator's signal (ADR 0010). It ignores a
request for a table whose snapshot runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import structlog
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tailrace_schemas.records.signals import SnapshotSignal
from tailrace_sink.errors import EXCLUDED, SNAPSHOT_HELPS
from tailrace_sink.kafka.offset_reads import producer_options
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.spark.jvm_errors import translated

_AGAIN_AFTER_S: Final = 3600.0

_log = structlog.get_logger("tailrace.sink")


class SnapshotRequests:
    """Sender of at most one request for each table and hour.

    Args:
        clock_s: seconds of a monotonic clock.
    """

    def __init__(
        self,
        spark: SparkSession,
        config: SinkConfig,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._spark = spark
        self._config = config
        self._clock_s = clock_s
        self._asked: dict[str, float] = {}

    def ask_for(self, stopped: Mapping[str, str], held: Iterable[str]) -> tuple[str, ...]:
        """Request the tables that only a snapshot brings back; failures are only logged.

        Args:
            stopped: topic to reason of each stopped table.
            held: topics of unfinished snapshots.

        Returns:
            The requested tables, ``schema.table``.
        """
        if not self._config.request_snapshots:
            return ()
        now = self._clock_s()
        due = {
            topic: name
            for topic, name in self._tables(stopped, set(held)).items()
            if now - self._asked.get(topic, -_AGAIN_AFTER_S) >= _AGAIN_AFTER_S
        }
        if not due:
            return ()
        tables = tuple(sorted(due.values()))
        self._asked |= dict.fromkeys(due, now)
        try:
            self._send(SnapshotSignal(tables))
        except (PySparkException, Py4JError) as error:
            reason = str(translated(f"writing to {self._config.topics.signals}", error))
            _log.warning(
                "snapshots_not_requested",
                tables=tables,
                reason=reason,
                fix="let the sink write to the signals topic, or run tailrace snapshot",
            )
            return ()
        _log.info("snapshots_requested", tables=tables)
        return tables

    def _tables(self, stopped: Mapping[str, str], held: set[str]) -> dict[str, str]:
        found = {}
        for topic, reason in stopped.items():
            table = self._config.topics.table_of(topic)
            if table is None or topic in held or not self._config.tables.selects(table):
                continue
            if reason == EXCLUDED or SNAPSHOT_HELPS in reason:
                found[topic] = f"{table.schema}.{table.table}"
        return found

    def _send(self, signal: SnapshotSignal) -> None:
        frame = self._spark.createDataFrame([(bytearray(signal.to_bytes()),)], "value BINARY")
        (
            frame.write.format("kafka")
            .options(**producer_options(self._config.kafka))
            .option("topic", self._config.topics.signals)
            .save()
        )
