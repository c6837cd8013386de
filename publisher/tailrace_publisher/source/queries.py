"""Every statement about positions and change rows; one small function each, typed results.

Statements are stable text with bound values, so that the server's plan cache stays clean. What
depends on columns is in ``catalog`` and ``pages``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from tailrace_publisher.change.instance import CaptureInstance
from tailrace_publisher.errors import CaptureInstanceGone, SourceError
from tailrace_publisher.ports import Connection
from tailrace_publisher.source.connection import quote_name, quote_text
from tailrace_schemas.lsn import LSN_BYTES, Lsn

INVALID_COLUMN: Final = 207
INVALID_OBJECT: Final = 208
"""Invalid object name: of a change table, its capture instance was disabled."""
OUT_OF_INTERVAL: Final = 313
"""What a query function says of a range that is not inside the validity interval."""

_NO_ZONE: Final = frozenset({195, 9820})
"""Not a recognised built-in function: an older server; a zone that AT TIME ZONE does not know."""

SERVER_NAME: Final = "SELECT @@SERVERNAME"

PROBE_INSTANCES: Final = 100
"""Instances of one probe: few enough that a server compiles it quickly; when an instance is new,
only the text of the last group is."""


@dataclass(frozen=True, slots=True)
class CommitTime:
    """One row of ``cdc.lsn_time_mapping``.

    Attributes:
        commit_lsn: ``start_lsn``.
        local_time: ``tran_end_time``, in the server's local time; None where it is unknown.
        tran_id: ``tran_id``; 0x00 in an entry that only marks time.
        offset_minutes: how far local time was ahead of UTC then; None where it is not told.
    """

    commit_lsn: Lsn
    local_time: datetime | None
    tran_id: bytes | None = None
    offset_minutes: int | None = field(default=None, compare=False)

    @property
    def end_time_text(self) -> str | None:
        """``tran_end_time`` to the millisecond, as the checkpoint has it."""
        return None if self.local_time is None else self.local_time.isoformat("T", "milliseconds")

    @property
    def tran_id_text(self) -> str | None:
        """``tran_id`` in hexadecimal, as the checkpoint has it."""
        return None if self.tran_id is None else self.tran_id.hex()

    def is_same(self, other: CommitTime) -> bool:
        """Whether it is the same commit, as far as a checkpoint keeps its time."""
        ours = self.commit_lsn, self.end_time_text, self.tran_id
        return ours == (other.commit_lsn, other.end_time_text, other.tran_id)


@dataclass(frozen=True, slots=True)
class InstancesMark:
    """What tells one set of capture instances from another, whatever their number.

    One that is gone is missing in the number; one in its place has another object id, and another
    date, be it an earlier one, as clocks are put back; one that the capture process has come to has
    a low watermark, and never loses it.

    Attributes:
        count: number of capture instances.
        recognised: number of those that have a low watermark.
        object_ids: the sum of the object ids of their change tables.
        newest: when the newest was made; None where there is none.
    """

    count: int
    recognised: int
    object_ids: int
    newest: datetime | None


@dataclass(frozen=True, slots=True)
class CatalogState:
    """What tells whether capture instances or their columns have changed.

    Attributes:
        instances: the capture instances.
        newest_ddl_lsn: newest ``ddl_lsn``, or None.
        ddl_count: number of DDL entries.
        raised: low watermarks behind the LSN that was asked for, per capture instance (name,
            object id); those of the others are not.
    """

    instances: InstancesMark
    newest_ddl_lsn: Lsn | None
    ddl_count: int
    raised: Mapping[tuple[str, int], Lsn] = field(default_factory=dict, compare=False)


def lsn_or_none(raw: bytes | None) -> Lsn | None:
    """An LSN column; NULL and ten zero bytes both mean that there is none."""
    if raw is None or raw == bytes(LSN_BYTES):
        return None
    return Lsn.from_bytes(raw)


def server_version(connection: Connection) -> str:
    """First line of ``@@VERSION``."""
    return str(connection.query("SELECT @@VERSION")[0][0]).splitlines()[0].strip()


def server_name(connection: Connection) -> str:
    """``@@SERVERNAME``: of the replica that a connection is at."""
    return str(connection.query(SERVER_NAME)[0][0])


def may_wait_for_replicas(connection: Connection) -> bool:
    """Whether availability groups are enabled on the server (SERVERPROPERTY('IsHadrEnabled')).

    The log reader, that of change data capture included, reads then only what all replicas have
    hardened.
    """
    return bool(connection.query("SELECT CAST(SERVERPROPERTY('IsHadrEnabled') AS int)")[0][0])


def database_name(connection: Connection) -> str:
    """The database's name as the server spells it."""
    return str(connection.query("SELECT DB_NAME()")[0][0])


def is_this_database(connection: Connection, name: str) -> bool:
    """Whether a name means the database, by the server's rules for case."""
    rows = connection.query("SELECT CASE WHEN DB_ID(?) = DB_ID() THEN 1 ELSE 0 END", name)
    return bool(rows[0][0])


def is_cdc_enabled(connection: Connection) -> bool:
    """Whether the database is enabled for CDC (sys.databases.is_cdc_enabled)."""
    rows = connection.query("SELECT is_cdc_enabled FROM sys.databases WHERE name = DB_NAME()")
    return bool(rows and rows[0][0])


def has_command_id(connection: Connection, instance: str) -> bool:
    """Whether a change table has ``__$command_id``, where this connection reads it."""
    return bool(
        connection.query(
            "SELECT 1 FROM sys.columns WHERE object_id = OBJECT_ID(?) AND name = N'__$command_id'",
            change_table(instance),
        )
    )


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
    return int(connection.query("SELECT DATEPART(tz, SYSDATETIMEOFFSET())")[0][0])


def time_zone(connection: Connection) -> str | None:
    """The server's time zone, as AT TIME ZONE takes it.

    https://learn.microsoft.com/sql/t-sql/functions/current-timezone-id-transact-sql

    Returns:
        None before SQL Server 2022, where AT TIME ZONE does not take it, and where it is UTC, which
        has one offset for ever.

    Raises:
        SourceError: the server did not answer.
    """
    try:
        name = connection.query("SELECT CURRENT_TIMEZONE_ID()")[0][0]
        if name is None or name == "UTC":
            return None
        connection.query("SELECT DATEPART(tz, GETDATE() AT TIME ZONE ?)", str(name))
    except SourceError as error:
        if error.number not in _NO_ZONE:
            raise
        return None
    return str(name)


def max_lsn(connection: Connection) -> Lsn | None:
    """High endpoint of the database's validity interval; None before anything was captured.

    https://learn.microsoft.com/sql/relational-databases/system-functions/sys-fn-cdc-get-max-lsn-transact-sql
    """
    return lsn_or_none(connection.query("SELECT sys.fn_cdc_get_max_lsn()")[0][0])


def newest_loss_by_ddl(connection: Connection, up_to: Lsn) -> Lsn | None:
    """The newest DDL, up to an LSN, that took values away; None where there is none.

    It dropped a column, or gave one another type (``required_column_update``).

    https://learn.microsoft.com/sql/relational-databases/system-tables/cdc-ddl-history-transact-sql
    """
    rows = connection.query(
        "SELECT MAX(ddl_lsn) FROM cdc.ddl_history WHERE ddl_lsn <= ?"
        " AND (required_column_update = 1 OR UPPER(ddl_command) LIKE N'%DROP%')",
        up_to.to_bytes(),
    )
    return lsn_or_none(rows[0][0])


def allows_snapshot_isolation(connection: Connection) -> bool:
    """Whether SNAPSHOT isolation may be used now; not while that is being switched on or off.

    https://learn.microsoft.com/sql/relational-databases/system-catalog-views/sys-databases-transact-sql
    """
    rows = connection.query(
        "SELECT snapshot_isolation_state FROM sys.databases WHERE name = DB_NAME()"
    )
    return bool(rows) and rows[0][0] == 1


def commits_from(
    connection: Connection, first: Lsn, limit: int, zone: str | None = None
) -> list[CommitTime]:
    """The next entries of ``cdc.lsn_time_mapping``, with the dummies that mark quiet times.

    Args:
        connection: where to ask.
        first: lowest LSN of interest.
        limit: how many at most.
        zone: the server's time zone, so that each commit has the offset of its own time; in the
            hour that the clock repeats it is AT TIME ZONE that chooses.

    https://learn.microsoft.com/sql/relational-databases/system-tables/cdc-lsn-time-mapping-transact-sql
    """
    offset = "" if zone is None else ", DATEPART(tz, tran_end_time AT TIME ZONE ?)"
    rows = connection.query(
        f"SELECT TOP (?) start_lsn, tran_end_time, tran_id{offset} FROM cdc.lsn_time_mapping"
        " WHERE start_lsn >= ? ORDER BY start_lsn",
        limit,
        *([] if zone is None else [zone]),
        first.to_bytes(),
    )
    return [CommitTime(Lsn.from_bytes(row[0]), *row[1:]) for row in rows]


def commit_behind_time(connection: Connection, time: datetime, behind: Lsn) -> Lsn | None:
    """The first commit behind an LSN that ended later than a moment of the server's local time.

    Only what is behind the LSN is looked at, which bounds both the cost and the mistakes of a clock
    that was set back.
    """
    rows = connection.query(
        "SELECT TOP (1) start_lsn FROM cdc.lsn_time_mapping"
        " WHERE start_lsn > ? AND tran_end_time > CAST(? AS datetime) ORDER BY start_lsn",
        behind.to_bytes(),
        time.strftime("%Y-%m-%dT%H:%M:%S.") + f"{time.microsecond // 1000:03d}",
    )
    return Lsn.from_bytes(rows[0][0]) if rows else None


@dataclass(frozen=True, slots=True)
class Probe:
    """Asks which of some capture instances have rows in a range.

    One round trip, however many are quiet: each branch is one seek of a clustered index. Its
    statements have a hundred branches each; their texts depend on the instances alone and declare
    their two parameters, so long ones are kept at the server: see Connection.

    Attributes:
        statements: each asks about some of them.
    """

    statements: tuple[str, ...]

    @classmethod
    def of(cls, instances: Iterable[CaptureInstance]) -> Probe:
        """The probe of some capture instances."""
        # In the order in which they were made, so that the statements stay as they are.
        ordered = sorted(instances, key=lambda instance: instance.object_id)
        groups = [
            ordered[start : start + PROBE_INSTANCES]
            for start in range(0, len(ordered), PROBE_INSTANCES)
        ]
        return cls(
            tuple(
                function_probe_of(group)
                if group[0].by_function
                else probe_of([instance.name for instance in group])
                for group in groups
            )
        )

    def ask(self, connection: Connection, first: Lsn, up_to: Lsn) -> list[str]:
        """Names of the capture instances that have rows with first <= LSN <= up_to.

        Raises:
            CaptureInstanceGone: one of the change tables is not there any more.
            SourceError: the server did not answer.
        """
        if not self.statements:
            return []
        try:
            sets = connection.query_together(self.statements, first.to_bytes(), up_to.to_bytes())
        except SourceError as error:
            if error.number == INVALID_OBJECT:
                raise CaptureInstanceGone("of one table", str(error)) from error
            raise
        return [str(row[0]) for rows in sets for row in rows]


def probe_of(names: Sequence[str]) -> str:
    """The statement that asks which capture instances have rows in a range.

    Args:
        names: of the instances, at least one.

    Returns:
        The text; its parameters are the lowest and the highest LSN of the range.
    """
    branches = " UNION ALL ".join(
        f"SELECT {quote_text(name)} AS capture_instance WHERE EXISTS"
        f" (SELECT * FROM {change_table(name)}"
        " WHERE [__$start_lsn] >= @first AND [__$start_lsn] <= @up_to)"
        for name in names
    )
    return f"DECLARE @first binary(10) = ?, @up_to binary(10) = ?; {branches}"


def function_probe_of(instances: Sequence[CaptureInstance]) -> str:
    """The same through the query functions, which refuse a range that begins before they do.

    An instance without news gives no result set.

    Args:
        instances: at least one.
    """
    # Statements that are not kept go side by side in one batch, so the variable is each one's own.
    start = f"@from_{instances[0].object_id}"
    branches = "".join(
        f" SET {start} = sys.fn_cdc_get_min_lsn({quote_text(instance.name)});"
        f" IF {start} < @first SET {start} = @first;"
        f" IF {start} <= @up_to SELECT TOP (1) {quote_text(instance.name)} AS capture_instance"
        f" FROM {all_changes(instance.name)}({start}, @up_to, N'all');"
        for instance in instances
    )
    return (
        "DECLARE @first binary(10) = ?, @up_to binary(10) = ?;"
        f" DECLARE {start} binary(10);{branches}"
    )


def all_changes(instance: str) -> str:
    """Quoted name of the function that gives all changes of a capture instance.

    https://learn.microsoft.com/sql/relational-databases/system-functions/cdc-fn-cdc-get-all-changes-capture-instance-transact-sql
    """
    return f"cdc.{quote_name(f'fn_cdc_get_all_changes_{instance}')}"


def change_table(instance: str) -> str:
    """Quoted name of the change table of a capture instance."""
    return f"cdc.{quote_name(instance + '_CT')}"


def catalog_state(connection: Connection, needed: Lsn = Lsn.MAX) -> CatalogState:
    """What tells whether the catalog has changed, and raised low watermarks, in one round trip.

    ``cdc.change_tables.start_lsn`` is what ``sys.fn_cdc_get_min_lsn`` returns: cleanup raises it
    before it deletes. The low watermarks are asked for first: an instance that vanishes behind them
    is missing in what follows.

    https://learn.microsoft.com/sql/relational-databases/system-tables/cdc-change-tables-transact-sql

    Args:
        connection: where to ask.
        needed: low watermarks up to this LSN are not of interest.
    """
    raised, ((count, recognised, object_ids, newest),), ddl = connection.query_sets(
        "SELECT capture_instance, object_id, start_lsn FROM cdc.change_tables WHERE start_lsn > ?;"
        " SELECT COUNT(*), SUM(CASE WHEN start_lsn > 0x00000000000000000000"
        " THEN 1 ELSE 0 END),"
        " SUM(CAST(object_id AS bigint)), MAX(create_date) FROM cdc.change_tables;"
        " SELECT MAX(ddl_lsn), COUNT(*) FROM cdc.ddl_history",
        needed.to_bytes(),
    )
    return CatalogState(
        InstancesMark(int(count), int(recognised or 0), int(object_ids or 0), newest),
        lsn_or_none(ddl[0][0]),
        int(ddl[0][1]),
        {(str(row[0]), int(row[1])): Lsn.from_bytes(row[2]) for row in raised},
    )


def estimated_rows(connection: Connection) -> dict[int, int]:
    """Rows of each table that is visible, by object id, as the server keeps them.

    ``sys.partitions.rows`` is approximate and asks for no permission of its own.

    Raises:
        SourceError: the server did not answer.
    """
    rows = connection.query(
        "SELECT p.object_id, SUM(p.rows) FROM sys.partitions p"
        " JOIN sys.tables t ON t.object_id = p.object_id"
        " WHERE p.index_id IN (0, 1) AND t.is_ms_shipped = 0 GROUP BY p.object_id"
    )
    return {int(row[0]): int(row[1] or 0) for row in rows}
