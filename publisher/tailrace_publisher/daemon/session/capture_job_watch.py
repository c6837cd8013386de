"""The watch over the capture job: without it, a stopped job would look like a quiet database."""

from __future__ import annotations

import math
from collections import deque
from datetime import datetime

import structlog

from tailrace_publisher.errors import PermissionMissing
from tailrace_publisher.metrics.publisher_metrics import Metrics
from tailrace_publisher.ports import Connection
from tailrace_publisher.source.log.log_end import LogEndSource
from tailrace_publisher.source.log.queries import is_read_only, may_wait_for_replicas
from tailrace_publisher.source.log.scan_sessions import (
    MaxTransactions,
    ScanSession,
    Sessions,
    captured_lsn,
    captured_time,
    captured_until,
    scan_sessions,
)
from tailrace_schemas.position.lsn import Lsn

_MARKS_MAX = 1000
"""Ends of the log to remember until the capture process has reached them."""

_log = structlog.get_logger(__name__)


class CaptureWatch:
    """The time up to which the log was scanned; warns if it was not scanned for some time.

    Args:
        connection: the one that the polls use. This watch qualifies their results.
        stall_s: age in seconds from which on the newest scan session counts as stopped.
    """

    def __init__(self, connection: Connection, stall_s: float, metrics: Metrics) -> None:
        self._connection = connection
        self._stall_s = stall_s
        self._metrics = metrics
        self._maxtrans = MaxTransactions(connection)
        self._log_ends = LogEndSource(connection, "the capture job's backlog is not known")
        self._before: Sessions | None = None
        self._waits_for_replicas: bool | None = None
        self._is_secondary: bool | None = None
        self._marks: deque[tuple[datetime, Lsn]] = deque(maxlen=_MARKS_MAX)
        self._is_visible = True
        self._is_stalled = False

    def look(self) -> datetime | None:
        """Check the scan sessions; warn once per stall.

        Returns:
            The moment up to which every later reader of the change tables finds everything that was
            committed, server's local time; None if unknown.

        Raises:
            SourceError: the server did not answer.
        """
        if not self._is_visible:
            return None
        try:
            sessions = scan_sessions(self._connection)
        except PermissionMissing as error:
            self._is_visible = False
            self._metrics.capture_scan_age_seconds.set(math.nan)
            self._metrics.capture_latency_seconds.set(math.nan)
            self._metrics.log_backlog_bytes.set(math.nan)
            _log.warning(
                "capture_job_not_visible",
                effect="a stopped capture job looks like a quiet database, and only commit times"
                " show up to when the changes are complete",
                fix="GRANT VIEW DATABASE STATE to the login",
                reason=str(error),
            )
            return None
        age = scan_age_s(sessions)
        self._metrics.capture_scan_age_seconds.set(age)
        self._metrics.capture_latency_seconds.set(latency_s(sessions))
        self._log_stall(age)
        known = self._captured_by_lsn(sessions)
        if not self._is_waiting_possible():
            known = captured_until(sessions, self._maxtrans.read(), self._before)
        elif self._is_at_secondary():
            known = None  # its log ends before the primary's, so it proves nothing
        elif known is None:
            # The log's end is not visible, or none of its marks is reached. A session that drained
            # the log may have waited for a replica, but what it read is captured.
            known = captured_time(sessions)
        self._before = sessions
        # After the clock was set back, earlier sessions have times in the future.
        return None if known is None or known > sessions.moment else known

    def _captured_by_lsn(self, sessions: Sessions) -> datetime | None:
        """Return the newest moment whose end of the log the capture process has reached.

        Also measures the backlog. The log's end is read after the clock, so everything that was
        committed before the moment is below that end.
        """
        self._metrics.log_backlog_bytes.set(math.nan)
        end = self._log_ends.read()
        if end is None:
            return None
        captured = max(captured_lsn(sessions) or Lsn.ZERO, sessions.newest_lsn or Lsn.ZERO)
        backlog = None if captured == Lsn.ZERO else end.bytes_behind(captured)
        if backlog is not None:
            self._metrics.log_backlog_bytes.set(backlog)
        self._marks.append((sessions.moment, end.lsn))
        return next((at for at, lsn in reversed(self._marks) if lsn <= captured), None)

    def _is_waiting_possible(self) -> bool:
        if self._waits_for_replicas is None:
            self._waits_for_replicas = may_wait_for_replicas(self._connection)
        return self._waits_for_replicas

    def _is_at_secondary(self) -> bool:
        """Return whether the server is a secondary.

        One query is enough: a replica that changes its role ends its connections.
        """
        if self._is_secondary is None:
            self._is_secondary = is_read_only(self._connection)
        return self._is_secondary

    def _log_stall(self, age: float) -> None:
        stalled = age > self._stall_s
        if stalled and not self._is_stalled:
            _log.warning(
                "capture_job_stalled",
                newest_scan_age_s=None if math.isinf(age) else round(age, 1),
                effect="committed changes do not reach the change tables, so none are published",
                # Inferred: whether the sessions of a Log Reader Agent are in the view.
                fix="start SQL Server Agent, or EXEC sys.sp_cdc_start_job @job_type = N'capture';"
                " if the database is published by transactional replication, start its Log Reader"
                " Agent, which captures then; see sys.dm_cdc_errors",
            )
        elif self._is_stalled and not stalled:
            _log.info("capture_job_resumed")
        self._is_stalled = stalled


def scan_age_s(sessions: Sessions) -> float:
    """Return the seconds since the newest session ended without an error.

    It is 0 while a session runs, unless the one before it failed: then each may fail. It is
    infinite without a session. This shows whether the job runs, not how far it is.
    """
    found = sessions.newest_first
    failed = failed_scan(sessions) is not None
    if found and found[0].end_time is None and not failed:
        return 0.0
    ended = (s.end_time for s in found if s.end_time is not None and not s.error_count)
    newest = next(ended, None)
    return math.inf if newest is None else max(0.0, (sessions.moment - newest).total_seconds())


def failed_scan(sessions: Sessions) -> ScanSession | None:
    """Return the newest session that ended, if it ended with an error.

    See: sys.dm_cdc_log_scan_sessions (error_count).
    """
    newest = next((s for s in sessions.newest_first if s.end_time is not None), None)
    return newest if newest is not None and newest.error_count else None


def latency_s(sessions: Sessions) -> float:
    """Return the seconds by which the capture process lags the log, as its sessions show it.

    This is the latency of the newest finished session, 0 if it found nothing. If the running
    session has run longer than that, it is the time it has run.
    """
    finished = next((s for s in sessions.newest_first if s.end_time is not None), None)
    latency = math.nan if finished is None else float(finished.latency_s)
    if sessions.newest_first and sessions.newest_first[0].end_time is None:
        running_s = (sessions.moment - sessions.newest_first[0].start_time).total_seconds()
        return max(running_s, 0.0 if finished is None else latency)
    return latency
