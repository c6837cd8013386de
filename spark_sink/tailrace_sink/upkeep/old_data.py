"""Removal of what no kept cut needs: commit rows first, then days of the log, then files.

All of it follows from the oldest kept cut (``oldest_cut``), which is stored before anything is
removed. What is due is read from the lake, never from counters of the process. So a sink that a
scheduler starts for a few batches removes as much as one that never ends.

A table that the oldest kept cut does not name waits until it does: later cuts may need any of its
versions.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

import structlog
from pyspark.sql import SparkSession

from tailrace_sink.delta import old_files
from tailrace_sink.delta.classes import has_delta_log
from tailrace_sink.delta.file_log import table_metadata
from tailrace_sink.delta.old_files import DELETED_MAX, TableLog, vacuum
from tailrace_sink.errors import SinkError
from tailrace_sink.log.commit_table import CommitTable
from tailrace_sink.log.oldest_cut import OldestCutFile
from tailrace_sink.log.sink_parts import SinkParts
from tailrace_sink.plan.oldest_cut import DAY_MS, OldestCut, Tended, oldest_kept
from tailrace_sink.plan.sink_state import SinkState
from tailrace_sink.ports.one_table import of_one_table
from tailrace_sink.spark.session import own_session
from tailrace_sink.upkeep.removal import Oldest, is_due, is_listing_due, removal, tended

_OWN: Final = tuple(f"_tailrace/{name}" for name in ("commits", "log", "dead_letters", "names"))
_TOMBSTONES: Final = "delta.deletedFileRetentionDuration"

_log = structlog.get_logger("tailrace.sink")


class OldData:
    """Removal of old data of one lake; used by the fold's thread."""

    def __init__(self, spark: SparkSession, parts: SinkParts, commits: CommitTable) -> None:
        config = parts.config
        self._spark = own_session(spark)
        self._config = config
        self._log = parts.log
        self._commits = commits
        self._tables = parts.tables
        self._metrics = parts.metrics
        self._file = OldestCutFile(spark, config.retention_path, config.commits_path)
        self._oldest: OldestCut | None = None
        self._state: SinkState | None = None

    def open(self) -> None:
        """Read the oldest kept cut again: another sink may have changed it."""
        self._oldest = self._state = None

    def is_due(self, now_ms: int) -> bool:
        """Whether the oldest kept cut was chosen a day ago or earlier, or by other options."""
        known, days = self._known(), self._config.retention.days
        is_other = (known.days, known.cuts) != (days, self._config.kept_cuts)
        return is_other or known.is_due(now_ms)

    def forget(self, state: SinkState, now_ms: int) -> None:
        """Choose the oldest kept cut; delete earlier commit rows and days of the log.

        Args:
            state: of the tables; changes that it holds for a snapshot are still needed.
        """
        rows = self._commits.times()
        days, cuts = self._config.retention.days, self._config.kept_cuts
        known = self._known().look(now_ms)
        now_ms = known.chosen_ms
        batch = oldest_kept(rows, days, cuts, now_ms)
        oldest = self._commits.state_of(batch)
        if oldest is None:
            return
        is_older, committed_ms = any(of < batch for of, _ in rows), dict(rows)[batch]
        found = replace(
            known,
            batch=batch,
            lsn=oldest.closed_lsn,
            commit_ms=oldest.closed_commit_ms,
            committed_ms=committed_ms,
            has_forgotten=known.has_forgotten or is_older,
            days=days,
            cuts=cuts,
            is_late=self._is_late(known, oldest),
        )
        self._write(found)
        self._state = oldest
        if is_older:
            self._commits.forget(batch)
            _log.info("cuts_forgotten", before_lsn=oldest.closed_lsn)
        # One day longer than promised; but not than a cut that the number of cuts made the oldest.
        since_ms = max(now_ms - round(days * DAY_MS), committed_ms) - DAY_MS
        since = datetime.fromtimestamp(since_ms / 1000, UTC).date()
        held = [*oldest.held.values(), *state.held.values()]
        needed = [of.from_batch for of in held if not of.torn]
        removed = self._log.expire(since, min([*needed, oldest.batch + 1, state.batch]))
        if removed is not None:
            _log.info("log_expired", before=removed.isoformat())

    def _is_late(self, known: OldestCut, oldest: SinkState) -> bool:
        if oldest.batch == known.batch:
            return known.is_late
        return self._commits.has_earlier(oldest.closed_lsn, oldest.batch)

    def tend(self, paths: Iterable[str], now_ms: int) -> bool:
        """Remove old files of one table, if any table is due.

        That is so a day after it was last tended. If old versions slow its writes down, it is due
        as soon as the oldest kept cut has a later version.

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
        # Entries of a log that still have to go come first: a run removes some of them.
        due = [path for path in every if known.tended[path].trim_to >= 0]
        due = due or [p for p in every if self._is_due(p, known.tended[p], now_ms)]
        if not due:
            return False
        path = min(due, key=lambda path: known.tended[path].at_ms)
        before = known.tended[path]
        try:
            with of_one_table(path):
                if before.trim_to >= 0:
                    after = replace(before, trim_to=self._trimmed_to(path, before.trim_to))
                else:
                    after = self._tended(path, before, now_ms)
        except SinkError as error:
            # A damaged table stops at its next write; the others are tended.
            _log.warning("old_files_not_removed", table=path, reason=str(error))
            self._metrics.failed(error, f"removing old files of {path}: {error}", path)
            through = self._oldest_version(path) if self._is_slowed(path) else None
            through = before.through if through is None else through
            after = replace(before, at_ms=now_ms, trim_to=-1, through=through)
        self._write(replace(known, tended={**known.tended, path: after}))
        return True

    def _is_due(self, path: str, before: Tended, now_ms: int) -> bool:
        has_left = self._is_slowed(path) and self._oldest_version(path) not in (
            None,
            before.through,
        )
        return has_left or is_due(before, now_ms)

    def _is_slowed(self, path: str) -> bool:
        return path not in _OWN and self._tables.versions_slow_writes

    def _tended(self, path: str, before: Tended, now_ms: int) -> Tended:
        version = None if path in _OWN else self._oldest_version(path)
        is_full = is_listing_due(before, now_ms)
        if version is not None and self._tables.expire(self._spark, path, version, is_full=is_full):
            after = replace(before, at_ms=now_ms, through=version)
            return replace(after, full_ms=now_ms) if is_full else after
        location = f"{self._config.lake}/{path}"
        metadata = table_metadata(self._spark, location)
        waits = replace(before, at_ms=now_ms)
        if metadata is None or metadata.version == before.through:
            return waits
        log = TableLog(self._spark, location)
        oldest = None if path in _OWN else self._oldest_of(path, log)
        if oldest is None and path not in _OWN:
            return waits
        present_ms = round(time.time() * 1000)
        found = removal(
            before, now_ms, present_ms, oldest, metadata.properties.get(_TOMBSTONES, "")
        )
        has_listed = vacuum(
            self._spark,
            location,
            found.horizon_ms,
            is_full=found.is_full,
            may_list=found.may_list,
        )
        _log.info("old_files_removed", table=path, has_listed=has_listed)
        version = log.version_before(found.horizon_ms)
        needed = log.newest if oldest is None else oldest.version
        trim_to = -1 if version is None else min(version, needed)
        # As long as newer versions may have left files, the table is tended again.
        through = log.newest if version == log.newest else -1
        return tended(before, now_ms, has_listed=has_listed, through=through, trim_to=trim_to)

    def _trimmed_to(self, path: str, trim_to: int) -> int:
        """Remove some entries of a table's log; return before which version some are left, or -1.

        Args:
            trim_to: version before which entries have to go.
        """
        log = TableLog(self._spark, f"{self._config.lake}/{path}")
        oldest = None if path in _OWN else self._oldest_of(path, log)
        if oldest is None and path not in _OWN:
            return -1
        needed = log.newest if oldest is None else oldest.version
        removed = log.trim(min(trim_to, needed))
        _log.info("log_entries_removed", table=path, entries=removed)
        return trim_to if removed == DELETED_MAX else -1

    def _oldest_of(self, path: str, log: TableLog) -> Oldest | None:
        """Return the version of a table in the oldest kept cut; None if the table has to wait."""
        version = self._oldest_version(path)
        written_ms = None if version is None else log.written_ms(version)
        if version is None or written_ms is None:
            return None
        if written_ms - old_files.SLACK_MS > self._known().committed_ms:
            return None  # Another table has been in its place since.
        return Oldest(version, written_ms, log.written_ms(version + 1))

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
