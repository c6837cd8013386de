"""When transactions were committed, and the server's local time in UTC."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import repeat
from typing import Any, Final, overload

from tailrace_publisher.errors import ConfigError, SourceError
from tailrace_publisher.ports import Connection
from tailrace_schemas.position.lsn import Lsn

EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - local times have no zone
_DAY_S: Final = 86_400
_NO_ZONE: Final = frozenset({195, 9820})
"""195: not a recognised built-in function, so an older server. 9820: AT TIME ZONE does not know the
zone."""
_NO_AT_TIME_ZONE: Final = frozenset({102, 156, 319})
"""Syntax errors: SQL Server 2014 and earlier."""
_UTC: Final = "UTC"
TIME_MARK: Final = b"\x00"
"""``tran_id`` of an entry that only marks time."""


@dataclass(frozen=True, slots=True)
class CommitTime:
    """One row of ``cdc.lsn_time_mapping``.

    Attributes:
        local_time: ``tran_end_time``, in the server's local time. None if unknown.
        tran_id: TIME_MARK in an entry that only marks time.
        offset_minutes: how far local time was ahead of UTC then. None if unknown.
    """

    commit_lsn: Lsn
    local_time: datetime | None
    tran_id: bytes | None = None
    offset_minutes: int | None = field(default=None, compare=False)

    @property
    def end_time_text(self) -> str | None:
        """``tran_end_time`` to the millisecond, as in the checkpoint."""
        return None if self.local_time is None else self.local_time.isoformat("T", "milliseconds")

    @property
    def tran_id_text(self) -> str | None:
        """``tran_id`` in hexadecimal, as in the checkpoint."""
        return None if self.tran_id is None else self.tran_id.hex()

    def is_same(self, other: CommitTime) -> bool:
        """Return whether it is the same commit, to the precision of a checkpoint's time."""
        ours = self.commit_lsn, self.end_time_text, self.tran_id
        return ours == (other.commit_lsn, other.end_time_text, other.tran_id)


@dataclass(frozen=True, slots=True)
class Commits(Sequence[CommitTime]):
    """Consecutive entries of ``cdc.lsn_time_mapping``, column by column, in ascending order.

    A window has thousands of them, but only those at the end of a Kafka transaction are used
    singly. So an entry object is created on access.

    Attributes:
        local_times: ``tran_end_time``, in the server's local time.
        offsets: minutes that local time was ahead of UTC. Empty if unknown.
    """

    lsns: Sequence[bytes] = ()
    local_times: Sequence[datetime | None] = ()
    tran_ids: Sequence[bytes | None] = ()
    offsets: Sequence[int | None] = ()

    @classmethod
    def of_rows(cls, rows: Iterable[Any]) -> Commits:
        """Create from rows of these columns, all with the offset or all without it."""
        return cls(*zip(*rows, strict=True))

    def __len__(self) -> int:
        return len(self.lsns)

    @overload
    def __getitem__(self, index: int) -> CommitTime: ...

    @overload
    def __getitem__(self, index: slice) -> Commits: ...

    def __getitem__(self, index: int | slice) -> CommitTime | Commits:
        """Return an entry, or some."""
        if isinstance(index, slice):
            return type(self)(
                self.lsns[index],
                self.local_times[index],
                self.tran_ids[index],
                self.offsets[index],
            )
        return CommitTime(
            Lsn.from_bytes(self.lsns[index]),
            self.local_times[index],
            self.tran_ids[index],
            self.offsets[index] if self.offsets else None,
        )

    def milliseconds(self, utc_offset_minutes: int) -> Mapping[bytes, int]:
        """Return times in milliseconds UTC, by the ten bytes of the commit LSN.

        An entry whose time is unknown gets the time of the previous one.

        Args:
            utc_offset_minutes: how far local time is ahead of UTC now, for entries without an
                offset.
        """
        times: dict[bytes, int] = {}
        known = 0
        of: tuple[datetime, int | None] | None = None
        offsets: Iterable[int | None] = self.offsets or repeat(None)
        for lsn, local, offset in zip(self.lsns, self.local_times, offsets, strict=False):
            if local is not None and (local, offset) != of:
                of = local, offset
                known = milliseconds(local, utc_offset_minutes if offset is None else offset)
            times[lsn] = known
        return times

    def marks_after(self, lsn: Lsn) -> Sequence[int]:
        """Return the indexes of the entries after an LSN that only mark time."""
        if TIME_MARK not in self.tran_ids:
            return []
        begin = bisect_right(self.lsns, lsn.to_bytes())
        return [i for i in range(begin, len(self)) if self.tran_ids[i] == TIME_MARK]

    @property
    def last_commit(self) -> Lsn:
        """The last entry that does not only mark time; zero without one."""
        places = (i for i in reversed(range(len(self))) if self.tran_ids[i] != TIME_MARK)
        place = next(places, None)
        return Lsn.ZERO if place is None else Lsn.from_bytes(self.lsns[place])

    def up_to(self, lsn: Lsn) -> Commits:
        """Return the entries at or before an LSN."""
        cut = bisect_right(self.lsns, lsn.to_bytes())
        return self if cut == len(self) else self[:cut]

    def at(self, lsn: Lsn) -> CommitTime | None:
        """Return the entry of an LSN; None if there is none."""
        raw = lsn.to_bytes()
        index = bisect_left(self.lsns, raw)
        return self[index] if index < len(self) and self.lsns[index] == raw else None


def milliseconds(local_time: datetime, utc_offset_minutes: int) -> int:
    """Return the milliseconds UTC of a moment in the server's local time."""
    since = local_time - EPOCH
    seconds = since.days * _DAY_S + since.seconds - utc_offset_minutes * 60
    return seconds * 1000 + since.microseconds // 1000


def local_time(connection: Connection) -> datetime:
    """Return the server's clock as cdc.lsn_time_mapping and the scan sessions use it."""
    # See: GETDATE; cdc.lsn_time_mapping. Inferred: are the times of cdc.lsn_time_mapping GETDATE()
    # in every version?
    value: datetime = connection.query("SELECT GETDATE()")[0][0]
    return value


def utc_offset_minutes(connection: Connection) -> int:
    """Return how far the server's local time is ahead of UTC now, in minutes."""
    # See: DATEPART, TZoffset; SYSDATETIMEOFFSET
    return int(connection.query("SELECT DATEPART(tz, SYSDATETIMEOFFSET())")[0][0])


def time_zone(connection: Connection, configured: str | None = None) -> str | None:
    """Return the server's time zone, as AT TIME ZONE accepts it.

    https://learn.microsoft.com/sql/t-sql/functions/current-timezone-id-transact-sql

    Args:
        configured: the option source.time_zone, for servers that do not report their zone.

    Returns:
        None if the zone is unknown, or is UTC, which always has one offset. Servers report it from
        SQL Server 2022 on.

    Raises:
        ConfigError: the option does not name the server's zone.
        SourceError: the server did not answer.
    """
    # See: CURRENT_TIMEZONE_ID; AT TIME ZONE
    try:
        name = connection.query("SELECT CURRENT_TIMEZONE_ID()")[0][0]
        if name is None or name == _UTC:
            return None
        connection.query("SELECT DATEPART(tz, GETDATE() AT TIME ZONE ?)", str(name))
    except SourceError as error:
        if error.number not in _NO_ZONE:
            raise
        return None if configured is None else _checked_zone(connection, configured)
    return str(name)


def has_time_zone(connection: Connection) -> bool:
    """Return whether the server reports its time zone.

    Raises:
        SourceError: the server did not answer.
    """
    # See: the page of CURRENT_TIMEZONE_ID
    try:
        connection.query("SELECT CURRENT_TIMEZONE_ID()")
    except SourceError as error:
        if error.number not in _NO_ZONE:
            raise
        return False
    return True


def _checked_zone(connection: Connection, name: str) -> str | None:
    """Check a configured zone: the server must know it, and have the same offset from UTC now."""
    # See: AT TIME ZONE; sys.time_zone_info
    try:
        ((own, found),) = connection.query(
            "SELECT DATEPART(tz, SYSDATETIMEOFFSET()),"
            " DATEPART(tz, SYSDATETIMEOFFSET() AT TIME ZONE ?)",
            name,
        )
    except SourceError as error:
        if error.number not in _NO_ZONE | _NO_AT_TIME_ZONE:
            raise
        raise ConfigError(
            [
                f"source.time_zone = {name!r}: the server refuses it ({error}). Fix: name a"
                " zone of sys.time_zone_info, which SQL Server 2016 and later have; leave the"
                " option out for earlier ones"
            ]
        ) from error
    if own != found:
        raise ConfigError(
            [
                f"source.time_zone = {name!r} is {found} minutes ahead of UTC now, and the server's"
                f" clock {own} minutes. Fix: name the zone that the server's clock has"
            ]
        )
    return None if name == _UTC else name


def commits_from(
    connection: Connection, first: Lsn, limit: int, zone: str | None = None
) -> Commits:
    """Return the next entries of ``cdc.lsn_time_mapping``, with the dummies that mark quiet times.

    https://learn.microsoft.com/sql/relational-databases/system-tables/cdc-lsn-time-mapping-transact-sql

    Args:
        first: lowest LSN of interest.
        limit: the highest number of entries.
        zone: the server's time zone. Each commit then has the offset of its own time. In the hour
            that the clock repeats, AT TIME ZONE chooses.
    """
    rows = connection.query(
        commits_statement(with_offset=zone is not None),
        limit,
        *([] if zone is None else [zone]),
        first.to_bytes(),
    )
    return Commits.of_rows(rows)


def commits_statement(*, with_offset: bool) -> str:
    """Return the statement that reads entries; parameters: limit, zone if wanted, lowest LSN."""
    # See: cdc.lsn_time_mapping; AT TIME ZONE
    offset = ", DATEPART(tz, tran_end_time AT TIME ZONE ?)" if with_offset else ""
    return (
        f"SELECT TOP (?) start_lsn, tran_end_time, tran_id{offset} FROM cdc.lsn_time_mapping"
        " WHERE start_lsn >= ? ORDER BY start_lsn"
    )


def commit_after_time(connection: Connection, time: datetime, lsn: Lsn) -> Lsn | None:
    """Find the first commit after an LSN that ended after a moment of the server's local time.

    The LSN bounds the cost, and the errors of a clock that was set back.
    """
    # See: cdc.lsn_time_mapping; CAST and CONVERT, ISO 8601
    rows = connection.query(
        "SELECT TOP (1) start_lsn FROM cdc.lsn_time_mapping"
        " WHERE start_lsn > ? AND tran_end_time > CAST(? AS datetime) ORDER BY start_lsn",
        lsn.to_bytes(),
        time.strftime("%Y-%m-%dT%H:%M:%S.") + f"{time.microsecond // 1000:03d}",
    )
    return Lsn.from_bytes(rows[0][0]) if rows else None
