"""The capture process's log scan sessions, and what they prove.

A session that began at a moment, ended without an error and found fewer transactions than it may
take has read the log to the end that it saw, so everything committed before that moment is in the
change tables. A session that is still running proves nothing, one that took as many as it may
neither, and one of an unknown bound only when it found nothing.

The view is empty on a readable secondary and after a failover or a restart, until the next scan.

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
"""Of two more empty sessions the second began after the first had ended, which was later than the
look before."""


@dataclass(frozen=True, slots=True)
class ScanSession:
    """A log scan session that is not the aggregate.

    Attributes:
        session_id: its number.
        start_time: when it began, server's local time.
        end_time: when it ended; None while it runs.
        tran_count: transactions that it found.
        empty_scan_count: consecutive sessions that found nothing, reported as one.
        error_count: errors that it met.
        latency_s: seconds between the last commit that it captured and its end.
        end_lsn: where it ended; None while it runs, or where it is not told.
        last_commit_lsn: the last commit that it captured; None when it captured none.
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
        newest_first: at most 32 of them.
    """

    moment: datetime
    newest_first: Sequence[ScanSession]


def scan_sessions(connection: Connection) -> Sessions:
    """The server's clock and its log scan sessions, in one round trip.

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
    """An LSN of the view; NULL and zeros mean that there is none, another form proves nothing."""
    if text is None:
        return None
    try:
        lsn = Lsn.parse(text)
    except ValueError:
        return None
    return None if lsn == Lsn.ZERO else lsn


def captured_lsn(sessions: Sessions) -> Lsn | None:
    """The LSN up to which everything is in the change tables, as sessions that are over tell.

    A session that found nothing has read to its end; one that found transactions has captured them
    up to its last commit, however many were left.
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
    """Whether a session ended having read the log to the end that it saw.

    Args:
        session: the session.
        maxtrans: transactions that it might take at most; None when that is not known.
    """
    if session.end_time is None or session.error_count:
        return False
    return session.tran_count == 0 or (maxtrans is not None and session.tran_count < maxtrans)


def captured_until(
    sessions: Sessions, maxtrans: int | None, before: Sessions | None = None
) -> datetime | None:
    """The moment up to which everything committed is known to be in the change tables.

    It is the beginning of the newest drained session. Consecutive empty sessions share one row,
    whose times may be those of the first of them: what was seen in an earlier look tells then that
    others ran since.

    Args:
        sessions: as they are now.
        maxtrans: see :func:`is_drained`.
        before: as they were in an earlier look.

    Returns:
        Server's local time; None when no session proves anything.
    """
    for session in sessions.newest_first:
        if not is_drained(session, maxtrans):
            continue
        if before is not None and has_run_since(session, before):
            return max(session.start_time, before.moment)
        return session.start_time
    return None


def has_run_since(session: ScanSession, before: Sessions) -> bool:
    """Whether an empty session of the row began after an earlier look."""
    return any(
        session.session_id == known.session_id
        and session.empty_scan_count >= known.empty_scan_count + EMPTY_SCANS_BEHIND
        for known in before.newest_first
    )


class MaxTransactions:
    """How many transactions a scan session may take: the smallest bound that was seen.

    A change of the capture job takes effect when the job starts again, so the bound that was in
    force before still counts.

    Args:
        connection: where to ask.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._is_visible = True
        self._smallest: int | None = None

    def read(self) -> int | None:
        """The bound; None when the login may not see it, or there is no job.

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
    """Transactions per scan cycle of the capture job; None when there is no such job.

    https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sys-sp-cdc-help-jobs-transact-sql
    """
    rows = connection.query("EXEC sys.sp_cdc_help_jobs")
    for row in rows:
        if str(row.job_type).strip() == "capture":
            return int(row.maxtrans)
    return None
