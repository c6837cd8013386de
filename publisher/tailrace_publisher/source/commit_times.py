"""When transactions were committed, and what the server's local time is in UTC."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from tailrace_publisher.errors import SourceError
from tailrace_publisher.ports import Connection
from tailrace_schemas.lsn import Lsn

_NO_ZONE: Final = frozenset({195, 9820})
"""Not a recognised built-in function: an older server; a zone that AT TIME ZONE does not know."""


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
