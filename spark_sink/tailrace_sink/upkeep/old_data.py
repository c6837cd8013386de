"""Removal of what no kept cut needs: commit rows first, then days of the log, then files.

All of it follows from the oldest kept cut (``oldest_cut``), which is stored before anything is
removed. What is due is read from the lake, never from counters of the process. So a sink that a
scheduler starts for a few batches removes as much as one that never ends.

A table that the oldest kept cut does not name waits until it does: later cuts may need any of its
versions.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

import structlog
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tailrace_sink.delta import old_files
from tailrace_sink.delta.classes import has_delta_log
from tailrace_sink.delta.file_log import table_metadata
from tailrace_sink.delta.old_files import TableLog, vacuum
from tailrace_sink.log.commit_table import CommitTable
from tailrace_sink.log.log_table import LogTable
from tailrace_sink.log.oldest_cut import DAY_MS, OldestCut, OldestCutFile, Tended, oldest_kept
from tailrace_sink.log.progress_feed import LogSlices
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.plan.sink_state import SinkState
from tailrace_sink.spark.jvm_errors import translated

FULL_EVERY_MS: Final = 7 * DAY_MS
"""Time between two listings of a table's folder. Only they find files of writes that failed."""

_OWN: Final = tuple(f"_tailrace/{name}" for name in ("commits", "log", "dead_letters", "names"))
_INTERVAL: Final = re.compile(r"interval (\d+) (hour|day|week)s?", re.IGNORECASE)
_UNIT_MS: Final = {"hour": 3_600_000, "day": DAY_MS, "week": 7 * DAY_MS}
_TOMBSTONES: Final = "delta.deletedFileRetentionDuration"

_log = structlog.get_logger("tailrace.sink")


class OldData:
    """Removal of old data of one lake; used by the fold's thread."""

    def __init__(
        self, spark: SparkSession, config: SinkConfig, log: LogTable, commits: CommitTable
    ) -> None:
        self._spark = spark.newSession()
        self._config = config
        self._log = log
        self._commits = commits
        self._file = OldestCutFile(spark, config.retention_path, config.commits_path)
        self._oldest: OldestCut | None = None
        self._state: SinkState | None = None

    def open(self) -> None:
        """Read the oldest kept cut again: another sink may have changed it."""
        self._oldest = self._state = None

    def forget(self, state: SinkState, slices: LogSlices, now_ms: int) -> None:
        """Choose the oldest kept cut; delete earlier commit rows and days of the log.

        Args:
            state: of the tables; changes that it holds for a snapshot are still needed.
            slices: find where the log has what the tables of a cut lack.
        """
        rows = self._commits.times()
        retention = self._config.retention
        batch = oldest_kept(rows, retention, now_ms)
        oldest = self._commits.state_of(batch)
        if oldest is None:
            return
        is_older, committed_ms = any(of < batch for of, _ in rows), dict(rows)[batch]
        known = self._known()
        found = replace(
            known,
            batch=batch,
            lsn=oldest.closed_lsn,
            commit_ms=oldest.closed_commit_ms,
            committed_ms=committed_ms,
            has_forgotten=known.has_forgotten or is_older,
            days=retention.days,
            cuts=retention.cuts,
        )
        if found != known:
            self._write(found)
        self._state = oldest
        if is_older:
            self._commits.forget(batch)
            _log.info("cuts_forgotten", before_lsn=oldest.closed_lsn)
        # One day longer than promised; but not than a cut that the number of cuts made the oldest.
        since_ms = max(now_ms - round(retention.days * DAY_MS), committed_ms) - DAY_MS
        since = datetime.fromtimestamp(since_ms / 1000, UTC).date()
        held = [*oldest.held.values(), *state.held.values()]
        needed = [of.from_batch for of in held if not of.torn]
        removed = self._log.expire(since, min([*needed, slices.start(oldest) + 1, state.batch]))
        if removed is not None:
            _log.info("log_expired", before=removed.isoformat())

    def tend(self, paths: Iterable[str], now_ms: int) -> bool:
        """Remove old files of one table, if any table was last tended a day ago or earlier.

        Args:
            paths: of lake tables, below the lake.

        Returns:
            Whether a table was due.
        """
        if not has_delta_log(self._spark):
            return False
        known = self._known()
        every = (*_OWN, *sorted(paths))
        new = {path: Tended(-1, now_ms, now_ms) for path in every if path not in known.tended}
        if new:
            known = replace(known, tended={**known.tended, **new})
            self._write(known)
        due = [path for path in every if now_ms - known.tended[path].at_ms >= DAY_MS]
        if not due:
            return False
        path = min(due, key=lambda path: known.tended[path].at_ms)
        try:
            tended = self._tended(path, known.tended[path], now_ms)
        except (PySparkException, Py4JError) as error:
            # A damaged table stops at its next write; the others are tended.
            reason = str(translated(f"removing old files of {path}", error))
            _log.warning("old_files_not_removed", table=path, reason=reason)
            tended = replace(known.tended[path], at_ms=now_ms)
        self._write(replace(known, tended={**known.tended, path: tended}))
        return True

    def _tended(self, path: str, before: Tended, now_ms: int) -> Tended:
        location = f"{self._config.lake}/{path}"
        metadata = table_metadata(self._spark, location)
        waits = replace(before, at_ms=now_ms)
        if metadata is None or metadata.version == before.through:
            return waits
        log = TableLog(self._spark, location)
        horizon_ms, oldest, may_list = round(time.time() * 1000), log.newest, True
        if path not in _OWN:
            found = self._oldest_version(path)
            written_ms = None if found is None else log.written_ms(found)
            if found is None or written_ms is None:
                return waits
            if written_ms - old_files.SLACK_MS > self._known().committed_ms:
                return waits  # Another table has been in its place since.
            oldest, left_ms = found, log.written_ms(found + 1)
            if left_ms is not None:
                kept_ms = _milliseconds(metadata.properties.get(_TOMBSTONES, ""))
                may_list = horizon_ms - left_ms < kept_ms
                horizon_ms = written_ms
        horizon_ms -= old_files.SLACK_MS
        is_full = now_ms - before.full_ms >= FULL_EVERY_MS
        has_listed = vacuum(self._spark, location, horizon_ms, is_full=is_full, may_list=may_list)
        version = log.version_before(horizon_ms)
        entries = 0 if version is None else log.trim(min(version, oldest))
        _log.info("old_files_removed", table=path, log_entries=entries, has_listed=has_listed)
        return Tended(
            # As long as newer versions may have left files, the table is tended again.
            log.newest if version == log.newest else -1,
            now_ms,
            now_ms if has_listed else before.full_ms,
        )

    def _oldest_version(self, path: str) -> int | None:
        """Return the version of a table in the oldest kept cut; None if it is not part of it."""
        if self._state is None:
            self._state = self._commits.state_of(self._known().batch) or SinkState()
        return self._state.versions.get(path)

    def _known(self) -> OldestCut:
        if self._oldest is None:
            self._oldest = self._file.read()
        return self._oldest

    def _write(self, oldest: OldestCut) -> None:
        self._file.write(oldest)
        self._oldest = oldest


def _milliseconds(interval: str) -> int:
    """Read an interval property; 0 if it is in another form."""
    match = _INTERVAL.fullmatch(interval.strip())
    return 0 if match is None else int(match[1]) * _UNIT_MS[match[2].lower()]
