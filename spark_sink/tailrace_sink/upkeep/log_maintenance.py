"""Maintenance of log and commit table between batches, and removal of old data."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tailrace_sink.delta.table_maintenance import is_due
from tailrace_sink.log.commit_table import COMPACT_EVERY, CommitTable
from tailrace_sink.log.sink_parts import SinkParts
from tailrace_sink.plan.sink_state import SinkState
from tailrace_sink.spark.jvm_errors import translated
from tailrace_sink.upkeep.old_data import OldData


class LakeUpkeep:
    """Maintenance that the fold does between two batches, so that no cut waits for it."""

    def __init__(self, spark: SparkSession, parts: SinkParts, commits: CommitTable) -> None:
        self._log = parts.log
        self._commits = commits
        self._config = parts.config
        self._old = OldData(spark, parts, commits)
        self._version: int | None = None

    def open(self) -> None:
        """Read the lake's state of removals again."""
        self._old.open()

    def after_batch(self, state: SinkState, now: dt.datetime) -> None:
        """Do the maintenance that is due.

        Args:
            now: the present time, in UTC.

        Raises:
            SinkError: the lake cannot be written.
        """
        try:
            version = self._commits.version()
            # A batch is one commit row. Rows of other processes were theirs to compact.
            seen = version - 1 if self._version is None else self._version
            self._version = version
            has_many = is_due(seen, version, COMPACT_EVERY)
            now_ms = _milliseconds(now)
            if has_many or self._old.is_due(now_ms):
                self._old.forget(state, now_ms)
            if has_many:
                self._log.optimize()
                self._commits.compact()
            self._old.tend(state.versions, now_ms)
        except (PySparkException, Py4JError) as error:
            lake = self._config.lake
            raise translated(f"upkeep of log and commit table of {lake}", error) from error

    def tend_all(self, state: SinkState, now: dt.datetime, should_stop: Callable[[], bool]) -> None:
        """Remove old files of all tables that are due."""
        now_ms = _milliseconds(now)
        while not should_stop() and self._old.tend(state.versions, now_ms):
            pass


def _milliseconds(moment: dt.datetime) -> int:
    return round(moment.timestamp() * 1000)
