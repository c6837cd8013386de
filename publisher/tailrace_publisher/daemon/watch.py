"""Watching the capture job: without it, silence would look like a quiet database."""

from __future__ import annotations

import math
from datetime import datetime

import structlog

from tailrace_publisher.errors import PermissionMissing
from tailrace_publisher.metrics import Metrics
from tailrace_publisher.source.connection import Connection
from tailrace_publisher.source.queries import ScanSession, local_time, newest_scan_session

_log = structlog.get_logger(__name__)


class CaptureWatch:
    """Warns when the capture job has not scanned the log for some time.

    Args:
        connection: where to ask.
        stall_s: age of the newest scan session from which on the job counts as stopped, seconds.
        metrics: takes the age.
    """

    def __init__(self, connection: Connection, stall_s: float, metrics: Metrics) -> None:
        self._connection = connection
        self._stall_s = stall_s
        self._metrics = metrics
        self._is_visible = True
        self._is_stalled = False

    def look(self) -> float:
        """Look at the newest scan session; warn once per stall.

        Returns:
            Its age in seconds, infinite when there is none; 0 when it may not be seen.

        Raises:
            SourceError: the server did not answer.
        """
        if not self._is_visible:
            return 0.0
        try:
            session = newest_scan_session(self._connection)
            now = local_time(self._connection)
        except PermissionMissing as error:
            self._is_visible = False
            self._metrics.capture_scan_age_seconds.set(math.nan)
            _log.warning(
                "capture_job_not_visible",
                effect="a stopped capture job cannot be told from a quiet database",
                fix="GRANT VIEW DATABASE STATE to the login",
                reason=str(error),
            )
            return 0.0
        age = session_age_s(session, now)
        self._metrics.capture_scan_age_seconds.set(age)
        stalled = age > self._stall_s
        if stalled and not self._is_stalled:
            _log.warning(
                "capture_job_stalled",
                newest_scan_age_s=None if math.isinf(age) else round(age, 1),
                effect="committed changes do not reach the change tables, so none are published",
                fix="start SQL Server Agent, or EXEC sys.sp_cdc_start_job @job_type = N'capture';"
                " see sys.dm_cdc_errors",
            )
        elif self._is_stalled and not stalled:
            _log.info("capture_job_resumed")
        self._is_stalled = stalled
        return age


def session_age_s(session: ScanSession | None, now: datetime) -> float:
    """Seconds since the session ended; 0 while it runs, infinite when there is none."""
    if session is None:
        return math.inf
    if session.end_time is None:
        return 0.0
    return max(0.0, (now - session.end_time).total_seconds())
