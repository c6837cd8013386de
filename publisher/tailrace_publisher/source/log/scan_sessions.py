"""The capture process's log scan sessions, and what they prove.

A drained session ended without an error and found fewer transactions than its limit. It has read
the log to the end that it saw. So everything that was committed before the session started is in
the change tables. A session that is still running proves nothing, and neither does one that reached
its limit. If the limit is unknown, only a session that found nothing is drained.

The view is in memory, and shows a session as ended before the rows that it captured are committed.
Who reads row versions, as under SNAPSHOT, sees the session then and not its rows. So a session that
found transactions proves something only once the entry of its last one is visible. An entry that
only marks time may be above it and shows nothing. A later session shows the same: there is one log
reader, and it commits before it scans again.

The view is empty on a readable secondary, and after a failover or a restart until the next scan.

See: sys.dm_cdc_log_scan_sessions (Transact-SQL), columns, remarks and permissions. The text of
sys.sp_cdc_scan commits each cycle before the next one. Inferred: a session that found nothing ends
(end_lsn) where the log ended when it was read.

https://learn.microsoft.com/sql/relational-databases/system-dynamic-management-objects/change-data-capture-sys-dm-cdc-log-scan-sessions
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from tailrace_publisher.ports import Connection
from tailrace_publisher.source.log.cdc_jobs import CdcJob, cdc_jobs
from tailrace_publisher.source.log.queries import NEWEST_COMMIT, lsn_or_none
from tailrace_schemas.position.lsn import Lsn

EMPTY_SCANS_BEHIND: Final = 2
"""If two more empty sessions are counted, the second started after the first had ended, which was
after the earlier query."""
ROUNDING: Final = timedelta(milliseconds=20)
"""datetime is stored rounded to steps of 1/300 s, so moments this close count as the same."""


@dataclass(frozen=True, slots=True)
class ScanSession:
    """A log scan session that is not the aggregate.

    Attributes:
        start_time: when it started, server's local time.
        end_time: when it ended; None while it runs.
        empty_scan_count: consecutive sessions that found nothing. They share one row.
        latency_s: seconds between the last commit that it captured and its end.
        end_lsn: where it ended. None while it runs, or if not reported.
        last_commit_lsn: the last commit that it read, captured or not. None if it read none.
        last_captured_lsn: the last commit that it captured. None if it captured none.
        last_commit_time: server's local time of the last commit that it read.
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
    last_captured_lsn: Lsn | None = None
    last_commit_time: datetime | None = None

    def has_drained(self, maxtrans: int | None) -> bool:
        """Return whether it ended having read the log to the end that it saw.

        Args:
            maxtrans: its limit of transactions; None if unknown.
        """
        if self.end_time is None or self.error_count:
            return False
        return self.tran_count == 0 or (maxtrans is not None and self.tran_count < maxtrans)


@dataclass(frozen=True, slots=True)
class Sessions:
    """The sessions at a moment.

    Attributes:
        moment: the server's local time, read before the sessions were.
        newest_first: at most 32 sessions.
        newest_lsn: high endpoint of the validity interval, read after the sessions. None before
            anything was captured.
        newest_commit: the newest entry of a transaction, read after the sessions. None without one.
    """

    moment: datetime
    newest_first: Sequence[ScanSession]
    newest_lsn: Lsn | None = None
    newest_commit: Lsn | None = None

    def committed(self) -> Iterator[ScanSession]:
        """Yield the sessions that ended without an error, and whose rows can be read."""
        for session in self.newest_first:
            if session.end_time is None or session.error_count:
                continue
            last = session.last_captured_lsn or session.last_commit_lsn
            if (
                not session.tran_count
                or session is not self.newest_first[0]
                or (last is not None and last <= (self.newest_commit or Lsn.ZERO))
            ):
                yield session


def scan_sessions(connection: Connection) -> Sessions:
    """Return the server's clock, its log scan sessions and the newest LSNs, from one round trip.

    See: sys.dm_cdc_log_scan_sessions (Transact-SQL), permissions: VIEW DATABASE STATE, from SQL
    Server 2022 on VIEW DATABASE PERFORMANCE STATE, which the former covers;
    sys.fn_cdc_get_max_lsn (Transact-SQL); cdc.lsn_time_mapping (Transact-SQL), tran_id.

    Raises:
        PermissionMissing: VIEW DATABASE STATE is not granted.
        SourceError: the server did not answer.
    """
    clock, rows, newest, commits = connection.query_sets(
        "SELECT GETDATE(); SELECT session_id, start_time, end_time, tran_count, empty_scan_count,"
        " error_count, latency, end_lsn, last_commit_lsn, last_commit_cdc_lsn, last_commit_time"
        " FROM sys.dm_cdc_log_scan_sessions WHERE session_id > 0 ORDER BY session_id DESC;"
        f" SELECT sys.fn_cdc_get_max_lsn(); {NEWEST_COMMIT}"
    )
    return Sessions(
        clock[0][0],
        [_session(*row) for row in rows],
        lsn_or_none(newest[0][0]),
        lsn_or_none(commits[0][0]) if commits else None,
    )


def _session(*row: Any) -> ScanSession:
    """Return the session of a row."""
    tran_count, empty_scan_count, error_count, latency_s = (count or 0 for count in row[3:7])
    end_lsn, last_commit_lsn, last_captured_lsn = map(_lsn, row[7:10])
    return ScanSession(
        row[0],
        row[1],
        row[2],
        tran_count,
        empty_scan_count,
        error_count,
        latency_s,
        end_lsn,
        last_commit_lsn,
        last_captured_lsn,
        row[10],
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
            for session in sessions.committed()
            for lsn in (session.last_commit_lsn if session.tran_count else session.end_lsn,)
            if lsn is not None
        ),
        default=None,
    )


def last_commit_read(sessions: Sessions) -> Lsn:
    """Return the newest commit that a session has read, zero for none.

    The log reader reads commits in order, so none at or below it is to come.
    """
    found = (s.last_commit_lsn for s in sessions.committed() if s.tran_count)
    return max((lsn for lsn in found if lsn is not None), default=Lsn.ZERO)


def captured_time(sessions: Sessions) -> datetime | None:
    """Return the moment before which every commit is in the change tables, by the last one read.

    The log reader reads commits in order. So this holds where it waits for replicas, too.

    Returns:
        Server's local time; None if no session proves anything.
    """
    times = [s.last_commit_time for s in sessions.committed() if s.tran_count]
    return max((time - ROUNDING for time in times if time is not None), default=None)


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
    for session in sessions.committed():
        if not session.has_drained(maxtrans):
            continue
        if before is not None and _has_run_since(session, before):
            return max(session.start_time, before.moment)
        return session.start_time
    return None


def was_drained_since(sessions: Sessions, before: Sessions, maxtrans: int | None) -> bool:
    """Return whether a session that started after an earlier query has drained the log.

    A session is later by its number and by its time. The row of a session that started before the
    query may get its number after it. A clock may be set back.
    """
    known = max((session.session_id for session in before.newest_first), default=0)
    return any(
        session.has_drained(maxtrans)
        and (
            (session.session_id > known and session.start_time > before.moment + ROUNDING)
            or _has_run_since(session, before)
        )
        for session in sessions.committed()
    )


def _has_run_since(session: ScanSession, before: Sessions) -> bool:
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
        """Return the limit; None if it is not shown, or there is no job.

        Raises:
            SourceError: the server did not answer.
        """
        if not self._is_visible:
            return None
        jobs = cdc_jobs(self._connection)
        self._is_visible = bool(jobs)
        found = jobs.get("capture", CdcJob()).maxtrans
        if found is None:
            return None
        self._smallest = found if self._smallest is None else min(found, self._smallest)
        return self._smallest
