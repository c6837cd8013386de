"""Every statement about positions and change rows; one small function each, typed results.

Statements are stable text with bound values, so that the server's plan cache stays clean. What
depends on columns is in ``catalog`` and ``pages``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from tailrace_publisher.change.instance import CaptureInstance
from tailrace_publisher.errors import CaptureInstanceGone, SourceError
from tailrace_publisher.source.connection import Connection, quote_name, quote_text
from tailrace_schemas.lsn import LSN_BYTES, Lsn

INVALID_OBJECT: Final = 208
"""Invalid object name: of a change table, its capture instance was disabled."""

_PROBE_INSTANCES_MAX: Final = 1000
"""Two parameters an instance; a statement takes 2,100."""


@dataclass(frozen=True, slots=True)
class CommitTime:
    """One row of ``cdc.lsn_time_mapping``.

    Attributes:
        commit_lsn: ``start_lsn``.
        local_time: ``tran_end_time``, in the server's local time; None where it is unknown.
        tran_id: ``tran_id``; 0x00 in an entry that only marks time.
    """

    commit_lsn: Lsn
    local_time: datetime | None
    tran_id: bytes | None = None

    @property
    def end_time_text(self) -> str | None:
        """``tran_end_time`` to the millisecond, as the checkpoint has it."""
        return None if self.local_time is None else self.local_time.isoformat("T", "milliseconds")

    @property
    def tran_id_text(self) -> str | None:
        """``tran_id`` in hexadecimal, as the checkpoint has it."""
        return None if self.tran_id is None else self.tran_id.hex()


@dataclass(frozen=True, slots=True)
class CatalogState:
    """What tells whether capture instances or their columns have changed.

    Attributes:
        start_lsns: per capture instance (name, object id) the lowest LSN that it holds, or None.
        newest_ddl_lsn: newest ``ddl_lsn``, or None.
        ddl_count: number of DDL entries.
    """

    start_lsns: dict[tuple[str, int], Lsn | None]
    newest_ddl_lsn: Lsn | None
    ddl_count: int

    def same_as(self, other: CatalogState) -> bool:
        """Whether nothing but low watermarks has moved: no instance, no version is new."""
        return (
            self.start_lsns.keys() == other.start_lsns.keys()
            and {k for k, lsn in self.start_lsns.items() if lsn is None}
            == {k for k, lsn in other.start_lsns.items() if lsn is None}
            and self.newest_ddl_lsn == other.newest_ddl_lsn
            and self.ddl_count == other.ddl_count
        )


@dataclass(frozen=True, slots=True)
class ScanSession:
    """The newest log scan session that is not the aggregate.

    Attributes:
        session_id: its number.
        start_time: when it began, server's local time.
        end_time: when it ended; None while it runs.
        tran_count: transactions that it found.
        empty_scan_count: consecutive sessions that found nothing, reported as one.
        error_count: errors that it met.
    """

    session_id: int
    start_time: datetime
    end_time: datetime | None
    tran_count: int
    empty_scan_count: int
    error_count: int


def lsn_or_none(raw: bytes | None) -> Lsn | None:
    """An LSN column; NULL and ten zero bytes both mean that there is none."""
    if raw is None or raw == bytes(LSN_BYTES):
        return None
    return Lsn.from_bytes(raw)


def server_version(connection: Connection) -> str:
    """First line of ``@@VERSION``."""
    return str(connection.query("SELECT @@VERSION")[0][0]).splitlines()[0].strip()


def is_cdc_enabled(connection: Connection) -> bool:
    """Whether the database is enabled for CDC (sys.databases.is_cdc_enabled)."""
    rows = connection.query("SELECT is_cdc_enabled FROM sys.databases WHERE name = DB_NAME()")
    return bool(rows and rows[0][0])


def is_read_only(connection: Connection) -> bool:
    """Whether this copy of the database takes no changes, as a readable secondary does not.

    https://learn.microsoft.com/sql/t-sql/functions/databasepropertyex-transact-sql
    """
    rows = connection.query(
        "SELECT CAST(DATABASEPROPERTYEX(DB_NAME(), 'Updateability') AS nvarchar(128))"
    )
    return bool(rows[0][0] == "READ_ONLY")


def local_time(connection: Connection) -> datetime:
    """The server's clock as cdc.lsn_time_mapping and the scan sessions use it."""
    value: datetime = connection.query("SELECT GETDATE()")[0][0]
    return value


def utc_offset_minutes(connection: Connection) -> int:
    """How far the server's local time is ahead of UTC now, in minutes."""
    rows = connection.query("SELECT DATEDIFF(minute, GETUTCDATE(), GETDATE())")
    return int(rows[0][0])


def max_lsn(connection: Connection) -> Lsn | None:
    """High endpoint of the database's validity interval; None before anything was captured.

    https://learn.microsoft.com/sql/relational-databases/system-functions/sys-fn-cdc-get-max-lsn-transact-sql
    """
    return lsn_or_none(connection.query("SELECT sys.fn_cdc_get_max_lsn()")[0][0])


def commits_from(connection: Connection, first: Lsn, limit: int) -> list[CommitTime]:
    """The next entries of ``cdc.lsn_time_mapping``, with the dummies that mark quiet times.

    Args:
        connection: where to ask.
        first: lowest LSN of interest.
        limit: how many at most.

    https://learn.microsoft.com/sql/relational-databases/system-tables/cdc-lsn-time-mapping-transact-sql
    """
    rows = connection.query(
        "SELECT TOP (?) start_lsn, tran_end_time, tran_id FROM cdc.lsn_time_mapping"
        " WHERE start_lsn >= ? ORDER BY start_lsn",
        limit,
        first.to_bytes(),
    )
    return [CommitTime(Lsn.from_bytes(row[0]), row[1], row[2]) for row in rows]


def commit_behind_time(connection: Connection, time: datetime) -> Lsn | None:
    """The first commit that ended later than a moment of the server's local time."""
    rows = connection.query(
        "SELECT TOP (1) start_lsn FROM cdc.lsn_time_mapping"
        " WHERE tran_end_time > CAST(? AS datetime) ORDER BY start_lsn",
        time.strftime("%Y-%m-%dT%H:%M:%S.") + f"{time.microsecond // 1000:03d}",
    )
    return Lsn.from_bytes(rows[0][0]) if rows else None


def instances_with_news(
    connection: Connection, instances: Sequence[CaptureInstance], first: Lsn, up_to: Lsn
) -> list[str]:
    """Names of the capture instances that have rows with first <= LSN <= up_to.

    One statement however many instances are quiet: each branch is one seek of a clustered index.

    Raises:
        CaptureInstanceGone: one of the change tables is not there any more.
        SourceError: the server did not answer.
    """
    found: list[str] = []
    bounds = (first.to_bytes(), up_to.to_bytes())
    for start in range(0, len(instances), _PROBE_INSTANCES_MAX):
        part = instances[start : start + _PROBE_INSTANCES_MAX]
        sql = " UNION ALL ".join(
            f"SELECT {quote_text(instance.name)} AS capture_instance WHERE EXISTS"
            f" (SELECT * FROM {change_table(instance.name)}"
            " WHERE [__$start_lsn] >= ? AND [__$start_lsn] <= ?)"
            for instance in part
        )
        try:
            found += [str(row[0]) for row in connection.query(sql, *bounds * len(part))]
        except SourceError as error:
            if error.number == INVALID_OBJECT:
                raise CaptureInstanceGone("of one table", str(error)) from error
            raise
    return found


def change_table(instance: str) -> str:
    """Quoted name of the change table of a capture instance."""
    return f"cdc.{quote_name(instance + '_CT')}"


def catalog_state(connection: Connection) -> CatalogState:
    """Low watermarks of all capture instances and the newest DDL entry, in one round trip.

    ``cdc.change_tables.start_lsn`` is what ``sys.fn_cdc_get_min_lsn`` returns: cleanup raises it
    before it deletes.

    https://learn.microsoft.com/sql/relational-databases/system-tables/cdc-change-tables-transact-sql
    """
    tables, ddl = connection.query_sets(
        "SELECT capture_instance, object_id, start_lsn FROM cdc.change_tables;"
        " SELECT MAX(ddl_lsn), COUNT(*) FROM cdc.ddl_history"
    )
    return CatalogState(
        {(str(row[0]), int(row[1])): lsn_or_none(row[2]) for row in tables},
        lsn_or_none(ddl[0][0]),
        int(ddl[0][1]),
    )


def newest_scan_session(connection: Connection) -> ScanSession | None:
    """The newest log scan session, or None when none ran since the server started.

    https://learn.microsoft.com/sql/relational-databases/system-dynamic-management-views/change-data-capture-sys-dm-cdc-log-scan-sessions
    """
    rows = connection.query(
        "SELECT TOP (1) session_id, start_time, end_time, tran_count, empty_scan_count,"
        " error_count FROM sys.dm_cdc_log_scan_sessions WHERE session_id > 0"
        " ORDER BY session_id DESC"
    )
    if not rows:
        return None
    session_id, start_time, end_time, tran_count, empty_scan_count, error_count = rows[0]
    return ScanSession(
        session_id, start_time, end_time, tran_count or 0, empty_scan_count or 0, error_count or 0
    )


def capture_job_maxtrans(connection: Connection) -> int | None:
    """Transactions per scan cycle of the capture job; None when there is no such job.

    https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sys-sp-cdc-help-jobs-transact-sql
    """
    rows = connection.query("EXEC sys.sp_cdc_help_jobs")
    for row in rows:
        if str(row.job_type).strip() == "capture":
            return int(row.maxtrans)
    return None
