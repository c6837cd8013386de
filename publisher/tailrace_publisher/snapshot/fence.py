"""Proving that everything committed before a moment is in the change tables.

``sys.fn_cdc_get_max_lsn`` lags the log, so it does not mean "now". A fence is the end of the log at
the moment of its mark. The fence is reached once the capture process has shown that it read that
far. Either an entry of ``cdc.lsn_time_mapping`` is at or after it, or a finished log scan session
ended there. Time plays no part in this. So no clock that is set back, and no unknown limit of the
capture job, can place a fence too early. Neither can a replica that the log reader waits for.

Some servers do not report the end of their log: before SQL Server 2016 SP2, or without VIEW
DATABASE STATE. Then the moment is the fence. It is reached once an entry after our position is
later than the moment, or a session that started later has drained the log.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import structlog

from tailrace_publisher.errors import PermissionMissing
from tailrace_publisher.ports import Connection
from tailrace_publisher.source.catalog.ddl_history import newest_loss_by_ddl
from tailrace_publisher.source.log.commit_times import commit_after_time, local_time
from tailrace_publisher.source.log.log_end import LogEndSource
from tailrace_publisher.source.log.queries import max_lsn
from tailrace_publisher.source.log.scan_sessions import (
    MaxTransactions,
    Sessions,
    captured_lsn,
    has_run_since,
    is_drained,
    scan_sessions,
)
from tailrace_schemas.position.lsn import Lsn

_log = structlog.get_logger(__name__)

_ROUNDING: Final = timedelta(milliseconds=20)
"""datetime is stored rounded to steps of 1/300 s, so commits this close to the moment count as
later."""


@dataclass(frozen=True, slots=True)
class Fence:
    """A mark at or after everything that was committed at its moment.

    Attributes:
        log_end: the end of the log; None if the server does not report it.
        moment: the server's local clock.
        position: the publisher's closed LSN. No entry up to it is later than the mark.
        sessions: the log scan sessions; None if the login may not see them.
    """

    log_end: Lsn | None
    moment: datetime
    position: Lsn
    sessions: Sessions | None


class FenceSource:
    """Places fences, and remembers what the login may see."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._log_ends = LogEndSource(
            connection, "snapshot fences rely on the server's clock, which may be set back"
        )
        self._sees_sessions = True
        self._maxtrans = MaxTransactions(connection)

    def mark(self, position: Lsn, read_to: Lsn | None = None) -> Fence:
        """Place a fence at or after everything that is committed now.

        Args:
            position: the closed LSN of the publisher.
            read_to: the end of the log at the server that was read, after the read. That server may
                be another replica, ahead of the one that is queried here.

        Raises:
            SourceError: the server did not answer.
        """
        sessions = self._sessions()
        moment = local_time(self._connection) if sessions is None else sessions.moment
        end = self._log_ends.read()
        log_end = None if end is None else max(end.lsn, read_to or end.lsn)
        return Fence(log_end, moment, position, sessions)

    def reached(self, fence: Fence) -> Lsn | None:
        """Return the LSN up to which everything before the fence is captured, or None.

        ``Lsn.ZERO`` means that nothing was ever captured and nothing is still to come.

        Raises:
            SourceError: the server did not answer.
        """
        if fence.log_end is None:
            return self._reached_in_time(fence)
        newest = max_lsn(self._connection)
        if newest is not None and newest >= fence.log_end:
            return newest
        sessions = self._sessions()
        if sessions is None or (captured_lsn(sessions) or Lsn.ZERO) < fence.log_end:
            return None
        return self._without_later_ddl(fence.log_end)

    def _reached_in_time(self, fence: Fence) -> Lsn | None:
        later = commit_after_time(self._connection, fence.moment + _ROUNDING, fence.position)
        if later is not None:
            return later
        sessions = self._sessions()
        if sessions is None or not was_drained_after(sessions, fence, self._maxtrans.read()):
            return None
        return self._without_later_ddl(Lsn.MAX)

    def _without_later_ddl(self, mark: Lsn) -> Lsn | None:
        """Query the newest LSN again; None while DDL is later than it.

        The second query includes what a session captured since the first. DDL has an LSN of its own
        and no entry in ``cdc.lsn_time_mapping``. Rows that were read after a column was dropped or
        changed its type do not show the table at an LSN before that DDL. The next entry is after
        both. It comes at the latest with the time mark that the capture job writes every five
        minutes.
        """
        newest = max_lsn(self._connection) or Lsn.ZERO
        ddl = newest_loss_by_ddl(self._connection, mark)
        return None if ddl is not None and ddl > newest else newest

    def _sessions(self) -> Sessions | None:
        if not self._sees_sessions:
            return None
        try:
            return scan_sessions(self._connection)
        except PermissionMissing as error:
            self._sees_sessions = False
            _log.warning(
                "scan_sessions_not_visible",
                effect="a snapshot waits for later changes or the capture job's time marks",
                fix="GRANT VIEW DATABASE STATE to the login",
                reason=str(error),
            )
            return None


def was_drained_after(sessions: Sessions, fence: Fence, maxtrans: int | None) -> bool:
    """Return whether a session proves that the log was drained after the moment of a fence."""
    return any(
        is_drained(session, maxtrans)
        and (
            session.start_time > fence.moment + _ROUNDING
            or (fence.sessions is not None and has_run_since(session, fence.sessions))
        )
        for session in sessions.newest_first
    )
