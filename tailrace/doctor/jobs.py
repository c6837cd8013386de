"""The capture and cleanup jobs: do they keep up, and do they leave enough time.

See: dbo.cdc_jobs (Transact-SQL); Change data capture (CDC) with Azure SQL Database, customization;
sys.dm_cdc_errors (Transact-SQL); cdc.lsn_time_mapping (Transact-SQL). Inferred: cdc.cdc_jobs has
the columns of the table of msdb.

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
from tailrace_publisher.source.log.server_kind import ServerKind, server_kind

_JUDGE: Final = Judge(Part.CAPTURE)
_TABLE: Final = {False: "msdb.dbo.cdc_jobs", True: "cdc.cdc_jobs"}
"""By whether it is a single database, as of Azure SQL Database, which has no msdb."""
_COLUMNS: Final = "job_type, maxtrans, maxscans, continuous, pollinginterval, retention"
# See: dbo.cdc_jobs. Inferred: has cdc.cdc_jobs of Azure SQL Database the same columns?
_SETTINGS: Final = {
    False: f"SELECT {_COLUMNS} FROM msdb.dbo.cdc_jobs WHERE database_id = DB_ID()",
    True: f"SELECT {_COLUMNS} FROM cdc.cdc_jobs",
}
_INTERVAL_S: Final = {False: 5, True: 20}
"""Seconds between scans: the default of the jobs, and what Azure's scheduler always has."""
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
    # See: dbo.cdc_jobs, permissions
    kind = server_kind(source.connection)
    rows = source.rows(_TABLE[kind.is_single_database], _SETTINGS[kind.is_single_database])
    if rows is None:
        user = quote_name(source.user)
        yield _JUDGE.warning(
            "jobs",
            f"{_TABLE[kind.is_single_database]} cannot be read",
            "what the capture job can take, and how long change rows are kept, is not known",
            Fix(
                f"GRANT SELECT ON cdc.cdc_jobs TO {user}"
                if kind.is_single_database
                else f"USE msdb; CREATE USER {user} FOR LOGIN {user};"
                f" GRANT SELECT ON dbo.cdc_jobs TO {user}"
            ),
        )
    jobs: dict[str, Any] = {str(row[0]): row for row in rows or ()}
    if rows is not None:
        yield from _capture(source, jobs.get("capture"), kind)
    capture = jobs.get("capture")
    interval_s = int(capture[4] or 0) if capture else 0
    yield from _sessions(source, interval_s or _INTERVAL_S[kind.is_single_database])
    if rows is not None:
        yield from _cleanup(jobs.get("cleanup"), lag, cleanup)


def _capture(source: Source, job: Any | None, kind: ServerKind) -> Iterator[Finding]:
    # See: sys.sp_cdc_add_job; sys.sp_cdc_change_job. Inferred: does NULL in maxtrans or maxscans
    # stand for the server's own limit?
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
    if maxtrans is None or maxscans is None:
        yield _JUDGE.ok("capture job", "its limits are not set, so the server's own hold")
        return
    interval = int(interval or 0)
    text = f"up to {maxtrans} transactions x {maxscans} scans, every {interval} s"
    if kind.is_single_database:  # the scheduler's interval cannot be set, nor whether it goes on
        interval, text = _INTERVAL_S[True], f"up to {maxtrans} transactions x {maxscans} scans"
    elif not continuous:
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
            Fix(_more_transactions(wanted, kind)),
        )
        return
    now = "" if rate is None else f"; the last hour had {rate:.1f}"
    yield _JUDGE.ok("capture job", f"{text}: {ceiling:.0f} a second at most{now}")


def _more_transactions(maxtrans: int, kind: ServerKind) -> str:
    """Return the statements that raise the limit of transactions.

    See: sys.sp_cdc_change_job (Transact-SQL); Change data capture (CDC) with Azure SQL Database,
    customization; Using change data capture for Amazon RDS for SQL Server, Multi-AZ instances.
    """
    change = f"EXEC sys.sp_cdc_change_job @job_type = N'capture', @maxtrans = {maxtrans}"
    if kind.is_single_database:
        return change
    if kind.is_rds:  # a failover creates the jobs again, with these settings
        change += f"; EXEC rdsadmin.dbo.rds_set_configuration 'cdc_capture_maxtrans', {maxtrans}"
    return (
        f"{change}; EXEC sys.sp_cdc_stop_job @job_type = N'capture';"
        " EXEC sys.sp_cdc_start_job @job_type = N'capture'"
    )


def _transactions_per_s(source: Source) -> float | None:
    """Transactions with captured changes in the last hour that there is, a second."""
    # See: cdc.lsn_time_mapping, tran_id 0x00
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
    # See: the page of sys.dm_cdc_errors; sys.dm_cdc_log_scan_sessions, permissions
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
    # See: sys.dm_cdc_log_scan_sessions, remarks; sys.sp_cdc_start_job
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
    # See: sys.sp_cdc_add_job; sys.sp_cdc_change_job, @retention in minutes
    if job is None:
        yield _JUDGE.warning(
            "cleanup job",
            "there is none",
            "change tables grow for ever",
            Fix("EXEC sys.sp_cdc_add_job @job_type = N'cleanup'"),
        )
        return
    if job[5] is None:
        yield _JUDGE.ok("cleanup job", "its retention is not set, so the server's own holds")
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
