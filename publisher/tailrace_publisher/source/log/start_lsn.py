"""From which LSN commits are at or after a time, according to ``cdc.lsn_time_mapping``."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from tailrace_publisher.ports import Connection
from tailrace_publisher.source.log.commit_times import time_zone, utc_offset_minutes
from tailrace_publisher.source.log.queries import lsn_or_none
from tailrace_schemas.position.lsn import Lsn


@dataclass(frozen=True, slots=True)
class TimeMapped:
    """The entries of ``cdc.lsn_time_mapping`` around a moment.

    Attributes:
        first: LSN of the first commit at or after it. None until one is captured.
        before: LSN of the last commit before it. None if no entry is that old.
        begins: end time of the oldest entry, in the server's local time. None if there is none.
        now: the server's local time.
    """

    first: Lsn | None
    before: Lsn | None
    begins: datetime | None
    now: datetime


def map_time(connection: Connection, time: datetime) -> TimeMapped:
    """Find the entries around a moment of the server's local time.

    https://learn.microsoft.com/sql/relational-databases/system-functions/sys-fn-cdc-map-time-to-lsn-transact-sql

    Raises:
        SourceError: the server did not answer.
    """
    # See: sys.fn_cdc_map_time_to_lsn. Inferred: is an LSN NULL where no entry fits?
    text = time.strftime("%Y-%m-%dT%H:%M:%S.") + f"{time.microsecond // 1000:03d}"
    row = connection.query(
        "SELECT sys.fn_cdc_map_time_to_lsn(N'smallest greater than or equal', CAST(? AS datetime)),"
        " sys.fn_cdc_map_time_to_lsn(N'largest less than', CAST(? AS datetime)),"
        " (SELECT MIN(tran_end_time) FROM cdc.lsn_time_mapping), GETDATE()",
        text,
        text,
    )[0]
    return TimeMapped(lsn_or_none(row[0]), lsn_or_none(row[1]), row[2], row[3])


def in_zone(connection: Connection, moment: datetime, zone: str) -> datetime:
    """Convert a moment to the server's local time, without its zone.

    Args:
        moment: with its offset from UTC.
        zone: the server's time zone, as AT TIME ZONE accepts it.

    Raises:
        SourceError: the server did not answer.
    """
    # See: AT TIME ZONE
    rows = connection.query(
        "SELECT CAST(CAST(? AS datetimeoffset(3)) AT TIME ZONE ? AS datetime2(3))",
        moment.isoformat("T", "milliseconds"),
        zone,
    )
    local: datetime = rows[0][0]
    return local


def at_server(connection: Connection, moment: datetime, configured: str | None = None) -> datetime:
    """Convert a moment to the server's local time, without its zone, also if the zone is unknown.

    Args:
        moment: with its offset from UTC.
        configured: the option source.time_zone, if set.

    Raises:
        ConfigError: the option does not name the server's zone.
        SourceError: the server did not answer.
    """
    zone = time_zone(connection, configured)
    if zone is not None:
        return in_zone(connection, moment, zone)
    utc = moment.astimezone(UTC).replace(tzinfo=None)
    return utc + timedelta(minutes=utc_offset_minutes(connection))
