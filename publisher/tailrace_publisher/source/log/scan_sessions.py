"""The capture process's log scan sessions, and what they prove.

A drained session ended without an error and found fewer transactions than its limit. It has read
the log to the end that it saw. So everything that was committed before the session started is in
the change tables. A session that is still running proves nothing, and neither does one that reached
its limit. If the limit is unknown, only a session that found nothing is drained.

The view is empty on a readable secondary, and after a failover or a restart until the next scan.

https://learn.microsoft.com/sql/relational-databases/system-dynamic-management-views/change-data-capture-sys-dm-cdc-log-scan-sessions
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from tailrace_publisher.errors import PermissionMissing
from tailrace_publisher.ports import Connection
from tailrace_schemas.position.lsn import Lsn

EMPTY_SCANS_BEHIND: Final = 2
"""If two more empty sessions are counted, the second started after the first had ended, which was
after the earlier query."""


@dataclass(frozen=True, slots=True)
class ScanSession:
    """A log scan session that is not the aggregate.

    Attributes:
        start_time: when it started, server's local time.
        end_time: when it ended; None while it runs.
        empty_scan_count: consecutive sessions that found nothing. They share one row.
        latency_s: seconds between the last commit that it captured and its end.
        end_lsn: where it ended. None while it runs, or if not reported.
        last_commit_lsn: the last commit that it captured. None if it captured none.
    """

    session_id: int
    start_time: datetime
    end_time: datetime | None
    tran_count: int
    empty_scan_count: int
    error_count: int
    latency_s: int = 0
    end_lsn: Lsn | None = None
    last_commit_lsn: Lsn | None = None


@dataclass(frozen=True, slots=True)
class Sessions:
    """The sessions at a moment.

    Attributes:
        moment: the server's local time, read before the sessions were.
        newest_first: at most 32 sessions.
    """

    moment: datetime
    newest_first: Sequence[ScanSession]


def scan_sessions(connection: Connection) -> Sessions:
    """Return the server's clock and its log scan sessions, from one round trip.

    Raises:
        PermissionMissing: VIEW DATABASE STATE is not granted.
        SourceError: the server did not answer.
    """
    clock, rows = connection.query_sets(
        "SELECT GETDATE(); SELECT session_id, start_time, end_time, tran_count, empty_scan_count,"
        " error_count, latency, end_lsn, last_commit_lsn FROM sys.dm_cdc_log_scan_sessions"
        " WHERE session_id > 0 ORDER BY session_id DESC"
    )
    return Sessions(
        clock[0][0],
        [
            ScanSession(*row[:3], *(count or 0 for count in row[3:7]), *map(_lsn, row[7:]))
            for row in rows
        ],
    )


def _lsn(text: str | None) -> Lsn | None:
    """Parse an LSN of the view; None for NULL, zeros, and any other form."""
    if text is None:
        return None
    try:
        lsn = Lsn.parse(text)
    except ValueError:
        return None
    return None if lsn == Lsn.ZERO else lsn


def captured_lsn(sessions: Sessions) -> Lsn | None:
    """Return the LSN up to which everything is in the change tables, as finished sessions prove.

    A session that found nothing has read to its end. One that found transactions has captured them
    up to its last commit, however many are left.
    """
    return max(
        (
            lsn
            for session in sessions.newest_first
            if session.end_time is not None and not session.error_count
            for lsn in (session.last_commit_lsn if session.tran_count else session.end_lsn,)
            if lsn is not None
        ),
        default=None,
    )


def is_drained(session: ScanSession, maxtrans: int | None) -> bool:
    """Return whether a session ended having read the log to the end that it saw.

    Args:
        maxtrans: the session's limit of transactions; None if unknown.
    """
    if session.end_time is None or session.error_count:
        return False
    return session.tran_count == 0 or (maxtrans is not None and session.tran_count < maxtrans)


def captured_until(
    sessions: Sessions, maxtrans: int | None, before: Sessions | None = None
) -> datetime | None:
    """Return the moment up to which every commit is known to be in the change tables.

    It is the start of the newest drained session. Consecutive empty sessions share one row, whose
    times may be those of the first of them. An earlier query then shows that others ran since.

    Args:
        maxtrans: the sessions' limit of transactions; None if unknown.
        before: the sessions at an earlier query.

    Returns:
        Server's local time; None if no session proves anything.
    """
    for session in sessions.newest_first:
        if not is_drained(session, maxtrans):
            continue
        if before is not None and has_run_since(session, before):
            return max(session.start_time, before.moment)
        return session.start_time
    return None


def has_run_since(session: ScanSession, before: Sessions) -> bool:
    """Return whether an empty session of the row started after an earlier query."""
    return any(
        session.session_id == known.session_id
        and session.empty_scan_count >= known.empty_scan_count + EMPTY_SCANS_BEHIND
        for known in before.newest_first
    )


class MaxTransactions:
    """The lowest limit of transactions per scan session that was seen.

    A change of the capture job takes effect when the job starts again, so the previous limit still
    counts.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._is_visible = True
        self._smallest: int | None = None

    def read(self) -> int | None:
        """Return the limit; None if the login may not see it, or there is no job.

        Raises:
            SourceError: the server did not answer.
        """
        if not self._is_visible:
            return None
        try:
            found = capture_job_maxtrans(self._connection)
        except PermissionMissing:
            self._is_visible = False
            return None
        if found is None:
            return None
        self._smallest = found if self._smallest is None else min(found, self._smallest)
        return self._smallest


def capture_job_maxtrans(connection: Connection) -> int | None:
    """Return the transactions per scan cycle of the capture job; None if there is no such job.

    https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sys-sp-cdc-help-jobs-transact-sql
    """
    rows = connection.query("EXEC sys.sp_cdc_help_jobs")
    for row in rows:
        if str(row.job_type).strip() == "capture":
            return int(row.maxtrans)
    return None
