"""The server and its database: may CDC run here, does the Agent, and what else reads the log.

See: SERVERPROPERTY (Transact-SQL); sys.databases (Transact-SQL); sys.dm_exec_sessions,
sys.dm_server_services, sys.dm_db_log_space_usage and sys.dm_hadr_database_replica_states
(Transact-SQL), permissions.

https://learn.microsoft.com/sql/relational-databases/track-changes/about-change-data-capture-sql-server
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tailrace.doctor.asking import Source
from tailrace.doctor.findings import Finding, Fix, Judge, Part
from tailrace.enable.tsql import enable_database
from tailrace_publisher.source.connection.quoting import quote_name
from tailrace_publisher.source.log.server_kind import FABRIC, ServerKind, server_kind

_JUDGE: Final = Judge(Part.SERVER)
_EXPRESS: Final = 4
_STANDARD: Final = 2
_FIRST_MAJOR: Final = 13
_SP1_OF_2016: Final = (13, 0, 4001)
"""From which on Standard edition has CDC."""
_LOG_FULL_PERCENT: Final = 70


def look_at_server(source: Source) -> Iterator[Finding]:
    """Judge version, edition, database, Agent, log and replicas."""
    # See: SERVERPROPERTY, ProductVersion and Edition
    kind = server_kind(source.connection)
    row = source.row(
        "version",
        "SELECT CAST(SERVERPROPERTY('ProductVersion') AS nvarchar(128)),"
        " CAST(SERVERPROPERTY('Edition') AS nvarchar(128))",
    )
    if row is not None:
        yield judge_version(str(row[0]), str(row[1]), kind)
    yield from _database(source, kind)
    if not kind.is_managed:
        yield from _agent(source, kind)
    yield from _log(source)
    yield from accelerated_recovery(source)
    yield from _replicas(source)


def judge_version(version: str, name: str, kind: ServerKind) -> Finding:
    """The judgement on version and edition (SERVERPROPERTY)."""
    numbers = tuple(int(part) for part in version.split(".")[:3] if part.isdigit())
    text = f"{name}, {version}"
    if kind.edition == FABRIC:
        return _JUDGE.warning(
            "edition",
            text,
            "SQL database in Microsoft Fabric is not tested: its pages say what Azure SQL"
            " Database's do",
            Fix("report what does not work"),
        )
    if kind.edition == _EXPRESS:
        return _JUDGE.problem(
            "edition",
            text,
            "Express edition has neither change data capture nor SQL Server Agent",
            Fix("move the database to Standard, Enterprise or Developer edition"),
        )
    if kind.edition == _STANDARD and numbers < _SP1_OF_2016:
        return _JUDGE.problem(
            "edition",
            text,
            "Standard edition has change data capture from SQL Server 2016 SP1 on",
            Fix("update to SQL Server 2016 SP1 or later, or use Enterprise edition"),
        )
    if not kind.is_managed and numbers and numbers[0] < _FIRST_MAJOR:
        return _JUDGE.warning(
            "version",
            text,
            "versions before SQL Server 2016 are not tested, and get no security updates",
            Fix("update the server"),
        )
    return _JUDGE.ok("version", text)


def _database(source: Source, kind: ServerKind) -> Iterator[Finding]:
    # See: sys.databases; ALTER DATABASE SET Options
    row = source.row(
        "sys.databases",
        "SELECT state_desc, is_cdc_enabled, is_read_only, snapshot_isolation_state_desc,"
        " collation_name, recovery_model_desc, is_published"
        " FROM sys.databases WHERE name = DB_NAME()",
    )
    if row is None:
        return
    state, is_enabled, is_read_only, snapshots, collation, recovery, is_published = row
    yield _JUDGE.ok(
        f"database {source.database}", f"{state}, {recovery} recovery, collation {collation}"
    )
    if not is_enabled:
        yield _JUDGE.problem(
            "change data capture",
            f"not enabled in {source.database}",
            "without it there are no change tables to read",
            Fix(enable_database(source.database, kind)[0]),
        )
    else:
        yield _JUDGE.ok("change data capture", "enabled")
    if snapshots != "ON":
        yield _JUDGE.warning(
            "snapshot isolation",
            f"{snapshots}",
            "initial snapshots take shared locks, so they and your writers wait for each other",
            Fix(f"ALTER DATABASE {quote_name(source.database)} SET ALLOW_SNAPSHOT_ISOLATION ON"),
        )
    else:
        yield _JUDGE.ok("snapshot isolation", "allowed: initial snapshots take no locks on rows")
    if is_read_only:
        yield _JUDGE.ok("updates", "the database is read-only: this is a readable secondary")
    if is_published:
        yield _JUDGE.warning(
            "replication",
            "the database is published by transactional replication",
            "the Log Reader Agent captures the changes then, and there is no capture job: its"
            " settings and its outages are those of CDC",
            Fix("watch the Log Reader Agent as you would the capture job"),
        )


def _agent(source: Source, kind: ServerKind) -> Iterator[Finding]:
    """Judge whether the Agent runs: it has sessions then, on Linux too.

    sys.dm_server_services shows services of Windows; what it shows on Linux is not documented. A
    login without the right for other sessions sees its own alone.
    """
    # See: sys.dm_exec_sessions, permissions; sys.dm_server_services. Inferred: has the view of
    # services a row of the Agent on Linux?
    found = source.rows(
        "sys.dm_exec_sessions",
        "SELECT COUNT(*) FROM sys.dm_exec_sessions WHERE program_name LIKE N'SQLAgent%'",
    )
    services = source.rows(
        "sys.dm_server_services", "SELECT servicename, status_desc FROM sys.dm_server_services"
    )
    has_sessions = bool(found and found[0][0])
    of_agent = [str(row[1]) for row in services or () if str(row[0]).startswith("SQL Server Agent")]
    if has_sessions or "Running" in of_agent:
        yield _JUDGE.ok("SQL Server Agent", "running")
    elif services is None:
        yield _JUDGE.warning(
            "SQL Server Agent",
            "its service cannot be seen",
            "it runs the capture job: when it stops, no change arrives",
            Fix(f"USE master; GRANT {kind.services_right} TO {quote_name(source.user)}"),
        )
    else:
        yield _JUDGE.problem(
            "SQL Server Agent",
            of_agent[0].lower() if of_agent else "neither its service nor a session of it is there",
            "it runs the capture job: committed changes do not reach the change tables, and the log"
            " grows",
            Fix("start the service SQL Server Agent, and let it start with the machine"),
        )


def _log(source: Source) -> Iterator[Finding]:
    # See: sys.databases, log_reuse_wait_desc; The transaction log, REPLICATION
    row = source.row(
        "log_reuse_wait", "SELECT log_reuse_wait_desc FROM sys.databases WHERE name = DB_NAME()"
    )
    used = _log_used(source)
    reason = str(row[0]) if row is not None else "unknown"
    size = "" if used is None else f", {used:.0f} % of it in use"
    if reason == "REPLICATION":
        grave = used is not None and used >= _LOG_FULL_PERCENT
        judge = _JUDGE.problem if grave else _JUDGE.warning
        yield judge(
            "transaction log",
            f"waits for the capture process (log_reuse_wait_desc REPLICATION){size}",
            "what the capture job has not read cannot be truncated: a full log stops all writers",
            Fix("EXEC sys.sp_cdc_start_job @job_type = N'capture'"),
        )
    else:
        yield _JUDGE.ok("transaction log", f"reuse waits for {reason}{size}")


def accelerated_recovery(source: Source) -> Iterator[Finding]:
    """Judge accelerated database recovery, which servers have from 2019 on.

    See: Known limitations, issues, and errors with CDC, accelerated database recovery
    """
    row = source.row(
        "accelerated database recovery",
        "SELECT is_accelerated_database_recovery_on FROM sys.databases WHERE name = DB_NAME()",
    )
    if row is not None and row[0]:
        yield _JUDGE.warning(
            "accelerated database recovery",
            "is on",
            "with change data capture it does not truncate the log early, so the log may grow more",
            Fix(
                "watch the size of the log, or ALTER DATABASE"
                f" {quote_name(source.database)} SET ACCELERATED_DATABASE_RECOVERY = OFF"
            ),
        )


def _log_used(source: Source) -> float | None:
    # See: the page of sys.dm_db_log_space_usage
    row = source.row(
        "sys.dm_db_log_space_usage",
        "SELECT used_log_space_in_percent FROM sys.dm_db_log_space_usage",
    )
    return None if row is None or row[0] is None else float(row[0])


def _replicas(source: Source) -> Iterator[Finding]:
    # See: sys.dm_hadr_database_replica_states; Replication, change tracking, & change data capture
    # - Always On availability groups
    row = source.row("HADR", "SELECT CAST(SERVERPROPERTY('IsHadrEnabled') AS int)")
    if row is None or not row[0]:
        return
    found: Any = source.row(
        "sys.dm_hadr_database_replica_states",
        "SELECT is_primary_replica, synchronization_state_desc, redo_queue_size"
        " FROM sys.dm_hadr_database_replica_states WHERE database_id = DB_ID() AND is_local = 1",
    )
    if found is None:
        return
    if found[0]:
        yield _JUDGE.warning(
            "availability group",
            f"primary replica, {found[1]}",
            "the capture and cleanup jobs do not fail over with the database: they must exist at"
            " every replica that may become primary",
            Fix(
                "on each other replica, once it is primary: EXEC sys.sp_cdc_add_job @job_type ="
                " N'capture'; EXEC sys.sp_cdc_add_job @job_type = N'cleanup'"
            ),
        )
    else:
        yield _JUDGE.ok(
            "availability group", f"readable secondary, {found[1]}, {found[2] or 0} kB to redo"
        )
