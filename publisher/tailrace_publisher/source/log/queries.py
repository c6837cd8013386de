"""Statements about server, database and change tables: one small function each, typed results.

Statements are stable text with bound values, so that the server's plan cache stays clean. Related
statements are elsewhere:

- commit times in ``commit_times``
- which instances have news in ``probe``
- whether instances changed in ``catalog_state``
- statements that depend on columns in ``catalog`` and ``pages``
"""

from __future__ import annotations

from typing import Final

from tailrace_publisher.ports import Connection
from tailrace_publisher.source.connection.quoting import quote_name
from tailrace_schemas.position.lsn import LSN_BYTES, Lsn

INVALID_COLUMN: Final = 207
INVALID_OBJECT: Final = 208
"""Invalid object name; for a change table, its capture instance was disabled."""
OUT_OF_INTERVAL: Final = 313
"""A query function's error for a range outside the validity interval."""

# See: @@SERVERNAME
SERVER_NAME: Final = "SELECT @@SERVERNAME"
# See: the page of sys.fn_cdc_get_min_lsn
LOW_WATERMARK: Final = "SELECT sys.fn_cdc_get_min_lsn(?)"


def lsn_or_none(raw: bytes | None) -> Lsn | None:
    """Return an LSN column's value; NULL and ten zero bytes both mean that there is none."""
    if raw is None or raw == bytes(LSN_BYTES):
        return None
    return Lsn.from_bytes(raw)


def server_version(connection: Connection) -> str:
    """Return the first line of ``@@VERSION``."""
    # See: @@VERSION
    return str(connection.query("SELECT @@VERSION")[0][0]).splitlines()[0].strip()


def server_name(connection: Connection) -> str:
    """Return ``@@SERVERNAME``, which names the replica of a connection."""
    return str(connection.query(SERVER_NAME)[0][0])


def may_wait_for_replicas(connection: Connection) -> bool:
    """Return whether availability groups are enabled on the server.

    Source: SERVERPROPERTY('IsHadrEnabled'). If they are, the log reader reads only what all
    replicas have hardened. This includes the log reader of change data capture.
    """
    # See: SERVERPROPERTY. Inferred: is IsHadrEnabled 0, 1 or NULL in Azure SQL Database?
    return bool(connection.query("SELECT CAST(SERVERPROPERTY('IsHadrEnabled') AS int)")[0][0])


def database_name(connection: Connection) -> str:
    """Return the database's name as the server spells it."""
    # See: the page of DB_NAME
    return str(connection.query("SELECT DB_NAME()")[0][0])


def is_this_database(connection: Connection, name: str) -> bool:
    """Return whether a name means the database, by the server's rules for case."""
    # See: DB_ID. Inferred: does DB_ID compare names by the collation of the server?
    rows = connection.query("SELECT CASE WHEN DB_ID(?) = DB_ID() THEN 1 ELSE 0 END", name)
    return bool(rows[0][0])


def is_cdc_enabled(connection: Connection) -> bool:
    """Return whether the database is enabled for CDC (sys.databases.is_cdc_enabled)."""
    # See: sys.databases, is_cdc_enabled
    rows = connection.query("SELECT is_cdc_enabled FROM sys.databases WHERE name = DB_NAME()")
    return bool(rows and rows[0][0])


def has_command_id(connection: Connection, instance: str) -> bool:
    """Return whether a change table has ``__$command_id`` at the connection's server."""
    # See: cdc.<capture_instance>_CT, __$command_id; OBJECT_ID
    return bool(
        connection.query(
            "SELECT 1 FROM sys.columns WHERE object_id = OBJECT_ID(?) AND name = N'__$command_id'",
            change_table(instance),
        )
    )


def is_read_only(connection: Connection) -> bool:
    """Return whether this copy of the database is read-only, like a readable secondary.

    https://learn.microsoft.com/sql/t-sql/functions/databasepropertyex-transact-sql
    """
    # See: DATABASEPROPERTYEX, Updateability
    rows = connection.query(
        "SELECT CAST(DATABASEPROPERTYEX(DB_NAME(), 'Updateability') AS nvarchar(128))"
    )
    return bool(rows[0][0] == "READ_ONLY")


def is_owner(connection: Connection) -> bool:
    """Return whether the login is in the role db_owner.

    https://learn.microsoft.com/sql/t-sql/functions/is-member-transact-sql
    """
    # See: the page of IS_MEMBER
    return bool(connection.query("SELECT IS_MEMBER(N'db_owner')")[0][0])


def max_lsn(connection: Connection) -> Lsn | None:
    """Return the high endpoint of the validity interval; None before anything was captured.

    https://learn.microsoft.com/sql/relational-databases/system-functions/sys-fn-cdc-get-max-lsn-transact-sql
    """
    # See: the page of sys.fn_cdc_get_max_lsn
    return lsn_or_none(connection.query("SELECT sys.fn_cdc_get_max_lsn()")[0][0])


# See: cdc.lsn_time_mapping (Transact-SQL), tran_id: 0x00 in entries that only mark time
NEWEST_COMMIT: Final = (
    "SELECT TOP (1) start_lsn FROM cdc.lsn_time_mapping WHERE tran_id <> 0x00"
    " ORDER BY start_lsn DESC"
)
COMPLETE: Final = (
    "SELECT TOP (1) start_lsn FROM cdc.lsn_time_mapping"
    " WHERE tran_id <> 0x00 OR start_lsn < sys.fn_cdc_get_max_lsn() ORDER BY start_lsn DESC"
)
"""The newest entry up to which the entries that a connection sees are complete.

The log reader captures commits in order, so a commit is such an entry. One that only marks time is
not, as long as it is the newest: a commit at or below it may be captured later (``time_marks``).
See: cdc.lsn_time_mapping (Transact-SQL); sys.fn_cdc_get_max_lsn (Transact-SQL)."""


def complete_lsn(connection: Connection) -> Lsn | None:
    """Return the LSN up to which a connection sees all commits; None without one."""
    rows = connection.query(COMPLETE)
    return lsn_or_none(rows[0][0]) if rows else None


def holds_after(connection: Connection, instance: str, lsn: Lsn) -> bool:
    """Return whether a capture instance still holds all changes after an LSN.

    Query it after the changes are read, because cleanup may remove some meanwhile. The low
    watermark is zero if the instance does not exist or the login may not read it.

    See: sys.fn_cdc_get_min_lsn (Transact-SQL)
    """
    low = lsn_or_none(connection.query(LOW_WATERMARK, instance)[0][0])
    return low is not None and low <= lsn


def allows_snapshot_isolation(connection: Connection) -> bool:
    """Return whether SNAPSHOT isolation may be used now; not while it is being switched on or off.

    https://learn.microsoft.com/sql/relational-databases/system-catalog-views/sys-databases-transact-sql
    """
    # See: sys.databases, snapshot_isolation_state
    rows = connection.query(
        "SELECT snapshot_isolation_state FROM sys.databases WHERE name = DB_NAME()"
    )
    return bool(rows) and rows[0][0] == 1


def all_changes(instance: str) -> str:
    """Return the quoted name of the function that returns all changes of a capture instance.

    https://learn.microsoft.com/sql/relational-databases/system-functions/cdc-fn-cdc-get-all-changes-capture-instance-transact-sql
    """
    return f"cdc.{quote_name(f'fn_cdc_get_all_changes_{instance}')}"


def change_table(instance: str) -> str:
    """Return the quoted name of a capture instance's change table."""
    return f"cdc.{quote_name(instance + '_CT')}"


def estimated_rows(connection: Connection) -> dict[int, int]:
    """Return the server's row count of each visible table, by object id.

    ``sys.partitions.rows`` is approximate and requires no further permission.

    Raises:
        SourceError: the server did not answer.
    """
    # See: sys.partitions, rows and permissions
    rows = connection.query(
        "SELECT p.object_id, SUM(p.rows) FROM sys.partitions p"
        " JOIN sys.tables t ON t.object_id = p.object_id"
        " WHERE p.index_id IN (0, 1) AND t.is_ms_shipped = 0 GROUP BY p.object_id"
    )
    return {int(row[0]): int(row[1] or 0) for row in rows}
