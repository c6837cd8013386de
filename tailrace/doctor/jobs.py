"""The capture and cleanup jobs: do they keep up, and do they leave enough time.

https://learn.microsoft.com/sql/relational-databases/track-changes/administer-and-monitor-change-data-capture-sql-server
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Final

from tailrace.doctor.asking import Source
from tailrace.doctor.findings import Finding, Fix, Judge, Part
from tailrace_publisher.daemon.session.capture_job_watch import latency_s, scan_age_s
from tailrace_publisher.errors import PermissionMissing
from tailrace_publisher.options.cleanup import CleanupConfig
from tailrace_publisher.source.connection.quoting import quote_name
from tailrace_publisher.source.log.scan_sessions import Sessions, scan_sessions

_JUDGE: Final = Judge(Part.CAPTURE)
_BUSY: Final = 0.5
"""Share of what the capture job can take from which on a peak may be too much for it."""
_SILENT_SCANS: Final = 10
_SILENT_AT_LEAST_S: Final = 60
_LATE_S: Final = 60
_SHORTEST_S: Final = 60
_SHORT_RETENTION_MIN: Final = 24 * 60
_LONG_RETENTION_MIN: Final = 14 * 24 * 60
"""With it the job bounds outages, and leaves the rest to cleanup.wait_for."""
_USED_RETENTION: Final = 0.5


def look_at_jobs(
    source: Source, lag: timedelta | None, cleanup: CleanupConfig
) -> Iterator[Finding]:
    """Judge the jobs' settings, their last sessions and their errors.

    Args:
        lag: lag of the topics; None while nothing is published, or if it is not known.
    """
    rows = source.rows(
        "msdb.dbo.cdc_jobs",
        "SELECT job_type, maxtrans, maxscans, continuous, pollinginterval, retention"
        " FROM msdb.dbo.cdc_jobs WHERE database_id = DB_ID()",
    )
    if rows is None:
        yield _JUDGE.warning(
            "jobs",
            "msdb.dbo.cdc_jobs cannot be read",
            "what the capture job can take, and how long change rows are kept, is not known",
            Fix(
                "USE msdb; CREATE USER"
                f" {quote_name(source.user)} FOR LOGIN {quote_name(source.user)};"
                f" GRANT SELECT ON dbo.cdc_jobs TO {quote_name(source.user)}"
            ),
        )
    jobs: dict[str, Any] = {str(row[0]): row for row in rows or ()}
    if rows is not None:
        yield from _capture(source, jobs.get("capture"))
    capture = jobs.get("capture")
    yield from _sessions(source, int(capture[4]) if capture else 5)
    if rows is not None:
        yield from _cleanup(jobs.get("cleanup"), lag, cleanup)


def _capture(source: Source, job: Any | None) -> Iterator[Finding]:
    if job is None:
        yield _JUDGE.problem(
            "capture job",
            "there is none",
            "nothing reads the log, so no change reaches the change tables (unless the database is"
            " published by transactional replication, whose Log Reader Agent does it)",
            Fix("EXEC sys.sp_cdc_add_job @job_type = N'capture'"),
        )
        return
    _, maxtrans, maxscans, continuous, interval, _ = job
    text = f"up to {maxtrans} transactions x {maxscans} scans, every {interval} s"
    if not continuous:
        yield _JUDGE.warning(
            "capture job",
            "runs once each time that it is started (continuous = 0)",
            "changes arrive only when a schedule or a person starts it",
            Fix("EXEC sys.sp_cdc_change_job @job_type = N'capture', @continuous = 1"),
        )
        return
    ceiling = maxtrans * maxscans / max(1, interval)
    rate = _transactions_per_s(source)
    if rate is not None and rate > ceiling * _BUSY:
        wanted = max(maxtrans, round(rate * max(1, interval) / max(1, maxscans) * 4 / 1000) * 1000)
        yield _JUDGE.warning(
            "capture job",
            f"{text}: {ceiling:.0f} a second at most, and the last hour had {rate:.0f}",
            "a peak above what it can take makes it late, and the log grows meanwhile",
            Fix(
                f"EXEC sys.sp_cdc_change_job @job_type = N'capture', @maxtrans = {wanted};"
                " EXEC sys.sp_cdc_stop_job @job_type = N'capture';"
                " EXEC sys.sp_cdc_start_job @job_type = N'capture'"
            ),
        )
        return
    now = "" if rate is None else f"; the last hour had {rate:.1f}"
    yield _JUDGE.ok("capture job", f"{text}: {ceiling:.0f} a second at most{now}")


def _transactions_per_s(source: Source) -> float | None:
    """Transactions with captured changes in the last hour that there is, a second."""
    row = source.row(
        "cdc.lsn_time_mapping",
        "SELECT COUNT(*), DATEDIFF(second, MIN(tran_end_time), MAX(tran_end_time))"
        " FROM cdc.lsn_time_mapping WHERE tran_id <> 0x00 AND tran_end_time >"
        " (SELECT DATEADD(minute, -60, MAX(tran_end_time)) FROM cdc.lsn_time_mapping)",
    )
    if row is None or not row[0]:
        return None
    return float(row[0]) / max(_SHORTEST_S, int(row[1] or 0))


def _sessions(source: Source, interval_s: int) -> Iterator[Finding]:
    try:
        sessions = scan_sessions(source.connection)
    except PermissionMissing as error:
        yield _JUDGE.warning(
            "scan sessions",
            f"cannot be seen ({error})",
            "a stopped capture job looks like a quiet database",
            Fix(f"GRANT VIEW DATABASE STATE TO {quote_name(source.user)}"),
        )
        return
    yield from _liveness(sessions, interval_s)
    errors = source.rows(
        "sys.dm_cdc_errors",
        "SELECT TOP (3) entry_time, error_number, error_message FROM sys.dm_cdc_errors"
        " ORDER BY entry_time DESC",
    )
    for at, number, message in errors or ():
        yield _JUDGE.warning(
            "capture errors",
            f"{at:%Y-%m-%d %H:%M:%S} error {number}: {message}",
            "the capture process retries after an error; an error that returns stops it",
            Fix("SELECT * FROM sys.dm_cdc_errors ORDER BY entry_time DESC"),
        )


def _liveness(sessions: Sessions, interval_s: int) -> Iterator[Finding]:
    age, late = scan_age_s(sessions), latency_s(sessions)
    if not sessions.newest_first:
        yield _JUDGE.warning(
            "scans",
            "none since the server started or failed over",
            "the capture job has not read the log yet, or does not run here",
            Fix("EXEC sys.sp_cdc_start_job @job_type = N'capture'", is_safe=True),
        )
    elif age > max(_SILENT_AT_LEAST_S, _SILENT_SCANS * interval_s):
        yield _JUDGE.problem(
            "scans",
            f"the last one ended {age:.0f} s ago",
            "the capture job does not run: committed changes do not reach the change tables, and"
            " the log grows",
            Fix("EXEC sys.sp_cdc_start_job @job_type = N'capture'", is_safe=True),
        )
    elif late > _LATE_S:
        yield _JUDGE.warning(
            "scans",
            f"the capture process is {late:.0f} s behind the last commit that it captured",
            "topics and lake are at least as late",
            Fix("raise maxtrans and maxscans of the capture job (sys.sp_cdc_change_job)"),
        )
    else:
        yield _JUDGE.ok("scans", f"the last one ended {age:.0f} s ago, {late:.0f} s behind")


def _cleanup(job: Any | None, lag: timedelta | None, cleanup: CleanupConfig) -> Iterator[Finding]:
    if job is None:
        yield _JUDGE.warning(
            "cleanup job",
            "there is none",
            "change tables grow for ever",
            Fix("EXEC sys.sp_cdc_add_job @job_type = N'cleanup'"),
        )
        return
    minutes = int(job[5])
    kept = timedelta(minutes=minutes)
    text = f"change rows are kept for {_days(kept)}"
    raise_it = Fix(
        f"EXEC sys.sp_cdc_change_job @job_type = N'cleanup', @retention = {max(3 * minutes, 4320)}"
    )
    if lag is not None and lag > kept * _USED_RETENTION:
        yield _JUDGE.problem(
            "cleanup job",
            f"{text}, and the topics are {_days(lag)} behind",
            "rows that are removed before they are published are lost: their tables need new"
            " snapshots",
            raise_it,
        )
    elif cleanup.is_on and minutes < _LONG_RETENTION_MIN:
        yield _JUDGE.warning(
            "cleanup job",
            f"{text}, published or not",
            "cleanup.wait_for removes what is published, so the job should only bound an outage",
            Fix(
                "EXEC sys.sp_cdc_change_job @job_type = N'cleanup',"
                f" @retention = {_LONG_RETENTION_MIN}",
                is_safe=True,
            ),
        )
    elif minutes < _SHORT_RETENTION_MIN:
        yield _JUDGE.warning(
            "cleanup job",
            text,
            "an outage of the publisher that lasts longer loses changes",
            raise_it,
        )
    else:
        behind = "" if lag is None else f"; the topics are {_days(lag)} behind"
        yield _JUDGE.ok("cleanup job", f"{text}{behind}")


def _days(time: timedelta) -> str:
    seconds = time.total_seconds()
    for size, name in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.1f} {name}"
    return f"{seconds:.0f} s"
