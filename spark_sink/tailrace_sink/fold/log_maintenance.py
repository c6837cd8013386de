"""Maintenance of log and commit table: compaction, and removal of old rows."""

from __future__ import annotations

import datetime as dt

import structlog
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from tailrace_sink.fold.table_maintenance import is_due
from tailrace_sink.log.commit_table import COMPACT_EVERY, CommitTable
from tailrace_sink.log.log_table import LogTable
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.plan.sink_state import SinkState
from tailrace_sink.spark.jvm_errors import translated

_log = structlog.get_logger("tailrace.sink")


class LakeUpkeep:
    """Maintenance that the fold does between two batches, so that no cut waits for it."""

    def __init__(self, log: LogTable, commits: CommitTable, config: SinkConfig) -> None:
        self._log = log
        self._commits = commits
        self._config = config
        self._version: int | None = None
        self._day: dt.date | None = None

    def after_batch(self, state: SinkState, now: dt.datetime) -> None:
        """Do the maintenance that is due.

        Args:
            state: of the tables; changes that it holds for a snapshot are still needed.
            now: the present time, in UTC.

        Raises:
            SinkError: the lake cannot be written.
        """
        try:
            version = self._commits.version()
            # A batch is one commit row. Rows of other processes were theirs to compact.
            seen = version - 1 if self._version is None else self._version
            self._version = version
            if is_due(seen, version, COMPACT_EVERY):
                self._log.optimize()
                keep = dt.timedelta(days=self._config.commit_retention_days)
                self._commits.compact(keep, state.batch)
            self._expire(state, now)
        except (PySparkException, Py4JError) as error:
            lake = self._config.lake
            raise translated(f"upkeep of log and commit table of {lake}", error) from error

    def _expire(self, state: SinkState, now: dt.datetime) -> None:
        if self._day == now.date():
            return
        self._day = now.date()
        # One day longer: a cut is read from the newest commit row before it, which is older.
        kept = dt.timedelta(days=self._config.commit_retention_days + 1)
        needed = min(
            (held.from_batch for held in state.held.values() if not held.torn), default=state.batch
        )
        removed = self._log.expire((now - kept).date(), min(needed, state.batch))
        if removed is not None:
            _log.info("log_expired", before=removed.isoformat())
