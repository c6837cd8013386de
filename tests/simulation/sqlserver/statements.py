"""Which of the publisher's statements is it, and what does a server answer.

Every statement is recognised by its whole text, names apart. One that is not known ends the
simulation with its text: an empty result would be an answer. A new statement of the publisher needs
an entry here, ``@statement`` with its text, or with a pattern.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from tailrace_publisher.source.log.queries import COMPLETE
from tests.simulation.sqlserver.database import TIME_MARK
from tests.simulation.sqlserver.log import lsn_text
from tests.simulation.sqlserver.rows import MappingEntry
from tests.simulation.sqlserver.select import SqlError
from tests.simulation.sqlserver.view import View
from tests.simulation.world import SimulationError

"""Name of the database."""

Answer = list[Any]
Handler = Callable[[View, Sequence[Any]], Answer]

_NARROWED: Final = re.compile(r" (?:WHERE|AND) (?:\w+\.)?object_id IN \(\?(?:, \?)*\)")
"""A condition that leaves rows of other objects out; the object id is the first column then."""

_EXACT: dict[str, Handler] = {}
_PATTERNS: list[tuple[re.Pattern[str], Callable[[View, Sequence[Any], re.Match[str]], Answer]]] = []


def statement(text: str) -> Callable[[Handler], Handler]:
    """Register the answer to a statement."""

    def register(handler: Handler) -> Handler:
        _EXACT[_normal(text)] = handler
        return handler

    return register


def pattern(
    expression: str,
) -> Callable[
    [Callable[[View, Sequence[Any], re.Match[str]], Answer]],
    Callable[[View, Sequence[Any], re.Match[str]], Answer],
]:
    """Register the answer to statements that match as a whole."""

    def register(
        handler: Callable[[View, Sequence[Any], re.Match[str]], Answer],
    ) -> Callable[[View, Sequence[Any], re.Match[str]], Answer]:
        _PATTERNS.append((re.compile(expression, re.DOTALL), handler))
        return handler

    return register


def answer(view: View, text: str, parameters: Sequence[Any]) -> Answer:
    """The rows of a statement.

    Raises:
        SqlError: the server refuses.
        SimulationError: the model does not know the statement.
    """
    text = _normal(text)
    narrowed = _NARROWED.search(text)
    if narrowed is not None:
        whole = text[: narrowed.start()] + text[narrowed.end() :]
        count = whole.count("?")
        wanted = set(parameters[count:])
        return [row for row in answer(view, whole, parameters[:count]) if row[0] in wanted]
    handler = _EXACT.get(text)
    if handler is not None:
        return handler(view, parameters)
    for expression, by_pattern in _PATTERNS:
        match = expression.fullmatch(text)
        if match is not None:
            return by_pattern(view, parameters, match)
    raise SimulationError(f"the model does not know the statement: {text}")


def _normal(text: str) -> str:
    return " ".join(text.split())


# -- the server ------------------------------------------------------------------------------------


@statement("SELECT @@VERSION")
def _version(view: View, _: Sequence[Any]) -> Answer:
    return [("Microsoft SQL Server (simulated)",)]


@statement("SELECT @@SERVERNAME")
def _server_name(view: View, _: Sequence[Any]) -> Answer:
    return [(view.replica.name,)]


@statement("SELECT CAST(SERVERPROPERTY('IsHadrEnabled') AS int)")
def _is_hadr_enabled(view: View, _: Sequence[Any]) -> Answer:
    return [(int(len(view.group.replicas) > 1),)]


@statement(
    "SELECT CAST(SERVERPROPERTY('EngineEdition') AS int),"
    " CAST(SERVERPROPERTY('ProductMajorVersion') AS int), DB_ID(N'rdsadmin')"
)
def _server_kind(view: View, _: Sequence[Any]) -> Answer:
    return [(3, 16, None)]


@statement("SELECT DB_NAME()")
def _database_name(view: View, _: Sequence[Any]) -> Answer:
    return [(view.group.database_name,)]


@statement("SELECT CASE WHEN DB_ID(?) = DB_ID() THEN 1 ELSE 0 END")
def _is_this_database(view: View, parameters: Sequence[Any]) -> Answer:
    return [(int(str(parameters[0]).casefold() == view.group.database_name.casefold()),)]


@statement("SELECT is_cdc_enabled FROM sys.databases WHERE name = DB_NAME()")
def _is_cdc_enabled(view: View, _: Sequence[Any]) -> Answer:
    return [(1,)]


@statement("SELECT CAST(DATABASEPROPERTYEX(DB_NAME(), 'Updateability') AS nvarchar(128))")
def _updateability(view: View, _: Sequence[Any]) -> Answer:
    return [("READ_WRITE" if view.is_primary else "READ_ONLY",)]


@pattern(
    r"SET LOCK_TIMEOUT \d+|SET DEADLOCK_PRIORITY LOW"
    r"|SET TRANSACTION ISOLATION LEVEL (SNAPSHOT|READ COMMITTED)"
)
def _set(view: View, _: Sequence[Any], match: re.Match[str]) -> Answer:
    return []


@statement("SELECT snapshot_isolation_state FROM sys.databases WHERE name = DB_NAME()")
def _snapshot_isolation(view: View, _: Sequence[Any]) -> Answer:
    """On a readable secondary every reader has SNAPSHOT isolation; the state says what is set.

    https://learn.microsoft.com/sql/database-engine/availability-groups/windows/active-secondaries-readable-secondary-replicas-always-on-availability-groups
    """
    return [(int(view.features.allows_snapshot),)]


@statement("SELECT GETDATE()")
def _getdate(view: View, _: Sequence[Any]) -> Answer:
    return [(view.replica.clock.local(),)]


@statement("SELECT DATEPART(tz, SYSDATETIMEOFFSET())")
def _offset(view: View, _: Sequence[Any]) -> Answer:
    return [(view.replica.clock.offset_minutes(),)]


@statement("SELECT CURRENT_TIMEZONE_ID()")
def _time_zone(view: View, _: Sequence[Any]) -> Answer:
    if not view.features.has_time_zone:
        raise SqlError(195, "'CURRENT_TIMEZONE_ID' is not a recognized built-in function name.")
    return [(view.replica.clock.zone.name,)]


@statement("SELECT DATEPART(tz, GETDATE() AT TIME ZONE ?)")
def _offset_in_zone(view: View, parameters: Sequence[Any]) -> Answer:
    clock = view.replica.clock
    return [(clock.zone.offset_of_local(clock.local()),)]


@statement("SELECT collation_name FROM sys.databases WHERE name = DB_NAME()")
def _collation(view: View, _: Sequence[Any]) -> Answer:
    return [("Latin1_General_BIN2",)]


@statement(
    "SELECT database_guid, recovery_fork_guid, family_guid, fork_point_lsn"
    " FROM sys.database_recovery_status WHERE database_id = DB_ID()"
)
def _recovery_status(view: View, _: Sequence[Any]) -> Answer:
    """https://learn.microsoft.com/sql/relational-databases/system-catalog-views/sys-database-recovery-status-transact-sql"""
    if view.features.identity == "missing":
        raise SqlError(208, "Invalid object name 'sys.database_recovery_status'.")
    if view.features.identity == "hidden":
        return []
    line = view.replica.suspension or view.group
    point = None if line.fork_point is None else _numeric(line.fork_point)
    guids = view.replica.database_guid, line.fork_guid, view.group.family_guid
    return [(*guids, point)]


def _numeric(lsn: bytes) -> int:
    vlf, block, slot = (int.from_bytes(part, "big") for part in (lsn[:4], lsn[4:8], lsn[8:]))
    return (vlf * 10**10 + block) * 10**5 + slot


# -- the log and the capture process ---------------------------------------------------------------


@statement("SELECT log_end_lsn, current_vlf_size_mb FROM sys.dm_db_log_stats(DB_ID())")
def _log_stats(view: View, _: Sequence[Any]) -> Answer:
    """At a secondary it is the end of what is hardened there (inferred).

    https://learn.microsoft.com/sql/relational-databases/system-dynamic-management-objects/sys-dm-db-log-stats-transact-sql
    (permissions)
    """
    if not view.features.has_log_stats:
        raise SqlError(208, "Invalid object name 'sys.dm_db_log_stats'.")
    if not view.features.sees_server_state:
        raise SqlError(300, "VIEW SERVER PERFORMANCE STATE permission was denied.")
    replica = view.replica
    is_suspended = replica.suspension is not None
    end = (
        replica.suspension.end if is_suspended else view.group.log.records[replica.hardened - 1].lsn
    )
    return [(lsn_text(end), 64.0)]


_SESSIONS: Final = (
    "SELECT session_id, start_time, end_time, tran_count, empty_scan_count, error_count, latency,"
    " end_lsn, last_commit_lsn, last_commit_cdc_lsn, last_commit_time"
    " FROM sys.dm_cdc_log_scan_sessions WHERE session_id > 0 ORDER BY session_id DESC"
)


@statement(_SESSIONS)
def _scan_sessions(view: View, _: Sequence[Any]) -> Answer:
    """Empty on a secondary, where the capture process does not run; at most 32 rows.

    A right on the server covers that on the database (Permissions hierarchy).

    https://learn.microsoft.com/sql/relational-databases/system-dynamic-management-objects/change-data-capture-sys-dm-cdc-log-scan-sessions
    """
    if not (view.features.sees_state or view.features.sees_server_state):
        raise SqlError(300, "VIEW DATABASE STATE permission was denied.")
    if not view.is_primary:
        return []
    return [
        (
            session.session_id,
            session.start_time,
            session.end_time,
            session.tran_count,
            session.empty_scan_count,
            session.error_count,
            session.latency,
            session.end_lsn,
            session.last_commit_lsn,
            session.last_commit_lsn,
            session.last_commit_time,
        )
        for session in reversed(view.group.sessions[-32:])
    ]


class _Job(NamedTuple):
    job_type: str
    maxtrans: int
    retention: int = 4320


@statement("EXEC sys.sp_cdc_help_jobs")
def _jobs(view: View, _: Sequence[Any]) -> Answer:
    """https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sys-sp-cdc-help-jobs-transact-sql"""
    if not view.features.has_help_jobs:
        raise SqlError(2812, "Could not find stored procedure 'sys.sp_cdc_help_jobs'.")
    if not view.features.sees_jobs:
        raise SqlError(22904, "Caller is not authorized to initiate the requested action.")
    return [_Job("capture", view.group.maxtrans), _Job("cleanup", 0)]


@statement(
    "SELECT job_type, maxtrans, retention FROM msdb.dbo.cdc_jobs WHERE database_id = DB_ID()"
)
def _jobs_in_msdb(view: View, _: Sequence[Any]) -> Answer:
    """The login has no user in msdb."""
    raise SqlError(229, "The SELECT permission was denied on the object 'cdc_jobs'.")


@statement("SELECT job_type, maxtrans, retention FROM cdc.cdc_jobs")
def _jobs_in_cdc(view: View, _: Sequence[Any]) -> Answer:
    """Azure SQL Database has the table there."""
    raise SqlError(208, "Invalid object name 'cdc.cdc_jobs'.")


@statement("SELECT sys.fn_cdc_get_max_lsn()")
def _max_lsn(view: View, _: Sequence[Any]) -> Answer:
    return [(view.max_lsn(),)]


@statement(
    "SELECT TOP (1) start_lsn FROM cdc.lsn_time_mapping WHERE tran_id <> 0x00"
    " ORDER BY start_lsn DESC"
)
def _newest_commit(view: View, _: Sequence[Any]) -> Answer:
    entries = view.database.mapping
    return [(e.start_lsn,) for e in reversed(entries) if e.tran_id != TIME_MARK][:1]


@statement(COMPLETE)
def _complete(view: View, _: Sequence[Any]) -> Answer:
    entries = view.database.mapping
    return [
        (e.start_lsn,) for e in reversed(entries) if e.tran_id != TIME_MARK or e is not entries[-1]
    ][:1]


@statement(f"SELECT ({COMPLETE})")
def _complete_or_null(view: View, parameters: Sequence[Any]) -> Answer:
    return _complete(view, parameters) or [(None,)]


@statement("SELECT sys.fn_cdc_get_min_lsn(?)")
def _min_lsn(view: View, parameters: Sequence[Any]) -> Answer:
    return [(view.min_lsn(parameters[0]),)]


_MAPPING: Final = " FROM cdc.lsn_time_mapping WHERE start_lsn >= ? ORDER BY start_lsn"


@statement("SELECT TOP (?) start_lsn, tran_end_time, tran_id" + _MAPPING)
def _commits(view: View, parameters: Sequence[Any]) -> Answer:
    limit, first = parameters
    return [(e.start_lsn, e.tran_end_time, e.tran_id) for e in _entries(view, first)[:limit]]


@statement(
    "SELECT TOP (?) start_lsn, tran_end_time, tran_id, DATEPART(tz, tran_end_time AT TIME ZONE ?)"
    + _MAPPING
)
def _commits_with_offset(view: View, parameters: Sequence[Any]) -> Answer:
    limit, _zone, first = parameters
    zone = view.replica.clock.zone
    return [
        (e.start_lsn, e.tran_end_time, e.tran_id, zone.offset_of_local(e.tran_end_time))
        for e in _entries(view, first)[:limit]
    ]


def _entries(view: View, first: bytes) -> list[MappingEntry]:
    return [entry for entry in view.database.mapping if entry.start_lsn >= first]


@statement(
    "SELECT TOP (1) start_lsn FROM cdc.lsn_time_mapping"
    " WHERE start_lsn > ? AND tran_end_time > CAST(? AS datetime) ORDER BY start_lsn"
)
def _commit_behind_time(view: View, parameters: Sequence[Any]) -> Answer:
    behind, text = parameters
    moment = datetime.fromisoformat(text)
    for entry in view.database.mapping:
        if entry.start_lsn > behind and entry.tran_end_time > moment:
            return [(entry.start_lsn,)]
    return []


@statement(
    "SELECT sys.fn_cdc_map_time_to_lsn(N'smallest greater than or equal', CAST(? AS datetime)),"
    " sys.fn_cdc_map_time_to_lsn(N'largest less than', CAST(? AS datetime)),"
    " (SELECT MIN(tran_end_time) FROM cdc.lsn_time_mapping), GETDATE()"
)
def _map_time(view: View, parameters: Sequence[Any]) -> Answer:
    """https://learn.microsoft.com/sql/relational-databases/system-functions/sys-fn-cdc-map-time-to-lsn-transact-sql"""
    moment, entries = datetime.fromisoformat(parameters[0]), view.database.mapping
    later = min((e.start_lsn for e in entries if e.tran_end_time >= moment), default=None)
    earlier = max((e.start_lsn for e in entries if e.tran_end_time < moment), default=None)
    oldest = min((e.tran_end_time for e in entries), default=None)
    return [(later, earlier, oldest, view.replica.clock.local())]


@statement("SELECT CAST(CAST(? AS datetimeoffset(3)) AT TIME ZONE ? AS datetime2(3))")
def _in_zone(view: View, parameters: Sequence[Any]) -> Answer:
    utc = datetime.fromisoformat(parameters[0]).astimezone(UTC).replace(tzinfo=None)
    zone = view.replica.clock.zone
    return [(utc + timedelta(minutes=zone.offset_at(utc)),)]


@statement("SELECT tran_end_time, tran_id FROM cdc.lsn_time_mapping WHERE start_lsn = ?")
def _commit_at(view: View, parameters: Sequence[Any]) -> Answer:
    return [
        (e.tran_end_time, e.tran_id) for e in view.database.mapping if e.start_lsn == parameters[0]
    ]


@statement("SELECT MIN(start_lsn) FROM cdc.lsn_time_mapping")
def _first_commit(view: View, _: Sequence[Any]) -> Answer:
    return [(min((e.start_lsn for e in view.database.mapping), default=None),)]
