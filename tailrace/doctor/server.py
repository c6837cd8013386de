"""The server and its database: may CDC run here, does the Agent, and what else reads the log.

https://learn.microsoft.com/sql/relational-databases/track-changes/about-change-data-capture-sql-server
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tailrace.doctor.asking import Source
from tailrace.doctor.findings import Finding, Fix, Judge, Part
from tailrace_publisher.source.connection.quoting import quote_name

_JUDGE: Final = Judge(Part.SERVER)
_EXPRESS: Final = 4
_STANDARD: Final = 2
_AZURE_DATABASE: Final = 5
_MANAGED: Final = frozenset({_AZURE_DATABASE, 8})
"""Azure SQL Database and Managed Instance (SERVERPROPERTY('EngineEdition'))."""
_FIRST_MAJOR: Final = 13
_SP1_OF_2016: Final = (13, 0, 4001)
"""From which on Standard edition has CDC."""
_LOG_FULL_PERCENT: Final = 70


def look_at_server(source: Source) -> Iterator[Finding]:
    """Judge version, edition, database, Agent, log and replicas."""
    row = _edition(source)
    edition = 0 if row is None else int(row[2])
    if row is not None:
        yield judge_version(str(row[0]), str(row[1]), edition)
    yield from _database(source)
    if edition not in _MANAGED:
        yield from _agent(source)
    yield from _log(source)
    yield from _replicas(source)


def _edition(source: Source) -> Any | None:
    """Version, edition and engine edition."""
    return source.row(
        "version",
        "SELECT CAST(SERVERPROPERTY('ProductVersion') AS nvarchar(128)),"
        " CAST(SERVERPROPERTY('Edition') AS nvarchar(128)),"
        " CAST(SERVERPROPERTY('EngineEdition') AS int)",
    )


def judge_version(version: str, name: str, edition: int) -> Finding:
    """The judgement on version and edition (SERVERPROPERTY)."""
    numbers = tuple(int(part) for part in version.split(".")[:3] if part.isdigit())
    text = f"{name}, {version}"
    if edition == _EXPRESS:
        return _JUDGE.problem(
            "edition",
            text,
            "Express edition has neither change data capture nor SQL Server Agent",
            Fix("move the database to Standard, Enterprise or Developer edition"),
        )
    if edition == _STANDARD and numbers < _SP1_OF_2016:
        return _JUDGE.problem(
            "edition",
            text,
            "Standard edition has change data capture from SQL Server 2016 SP1 on",
            Fix("update to SQL Server 2016 SP1 or later, or use Enterprise edition"),
        )
    if edition not in _MANAGED and numbers and numbers[0] < _FIRST_MAJOR:
        return _JUDGE.warning(
            "version",
            text,
            "versions before SQL Server 2016 are not tested, and get no security updates",
            Fix("update the server"),
        )
    return _JUDGE.ok("version", text)


def _database(source: Source) -> Iterator[Finding]:
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
            Fix("EXEC sys.sp_cdc_enable_db"),
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


def _agent(source: Source) -> Iterator[Finding]:
    rows = source.rows(
        "sys.dm_server_services", "SELECT servicename, status_desc FROM sys.dm_server_services"
    )
    agents = [row for row in rows or () if str(row[0]).startswith("SQL Server Agent")]
    if not agents:
        yield _JUDGE.warning(
            "SQL Server Agent",
            "its service cannot be seen",
            "it runs the capture job: when it stops, no change arrives",
            Fix(f"GRANT VIEW SERVER STATE TO {quote_name(source.user)}"),
        )
        return
    status = str(agents[0][1])
    if status == "Running":
        yield _JUDGE.ok("SQL Server Agent", "running")
        return
    yield _JUDGE.problem(
        "SQL Server Agent",
        status.lower(),
        "it runs the capture job: committed changes do not reach the change tables, and the log"
        " grows",
        Fix("start the service SQL Server Agent, and let it start with the machine"),
    )


def _log(source: Source) -> Iterator[Finding]:
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


def _log_used(source: Source) -> float | None:
    row = source.row(
        "sys.dm_db_log_space_usage",
        "SELECT used_log_space_in_percent FROM sys.dm_db_log_space_usage",
    )
    return None if row is None or row[0] is None else float(row[0])


def _replicas(source: Source) -> Iterator[Finding]:
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
