"""Knowing that everything committed before a moment is in the change tables.

``sys.fn_cdc_get_max_lsn`` lags the log, so it is not "now". A fence is where the log ended when it
was marked. It is reached when the capture process has shown that it read that far: an entry of
``cdc.lsn_time_mapping`` is at or after it, or a log scan session that is over ended there. Time
has no part in it: no clock that is set back, no bound of the capture job that cannot be seen, no
replica for which the log reader waits puts the fence below the truth.

Where the end of the log cannot be asked for (before SQL Server 2016 SP2, or without VIEW DATABASE
STATE) the moment is the fence: an entry behind our position is later, or a session began later and
drained the log.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import structlog

from tailrace_publisher.errors import PermissionMissing
from tailrace_publisher.ports import Connection
from tailrace_publisher.source.log.commit_times import commit_after_time, local_time
from tailrace_publisher.source.log.log_end import LogEndSource
from tailrace_publisher.source.log.queries import max_lsn, newest_loss_by_ddl
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
"""datetime is kept in steps of 1/300 s and rounded; commits this close to the moment count as
later than it."""


@dataclass(frozen=True, slots=True)
class Fence:
    """A mark behind everything that was committed when it was made.

    Attributes:
        log_end: where the log ended; None where that cannot be asked for.
        moment: the server's clock then.
        position: our own closed LSN then: no entry up to it is later than the mark.
        sessions: the scan sessions of then; None where they cannot be seen.
    """

    log_end: Lsn | None
    moment: datetime
    position: Lsn
    sessions: Sessions | None


class FenceSource:
    """Makes fences; remembers what the login may see.

    Args:
        connection: where to ask.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._log_ends = LogEndSource(
            connection, "a snapshot's fences go by the server's clock, which may be set back"
        )
        self._sees_sessions = True
        self._maxtrans = MaxTransactions(connection)

    def mark(self, position: Lsn, read_to: Lsn | None = None) -> Fence:
        """A fence behind everything that is committed now.

        Args:
            position: the closed LSN up to which everything is out.
            read_to: where the log ended at the server that was read, behind the reading: it may be
                another replica, which is ahead of the one that is asked here.

        Raises:
            SourceError: the server did not answer.
        """
        sessions = self._sessions()
        moment = local_time(self._connection) if sessions is None else sessions.moment
        end = self._log_ends.read()
        log_end = None if end is None else max(end.lsn, read_to or end.lsn)
        return Fence(log_end, moment, position, sessions)

    def reached(self, fence: Fence) -> Lsn | None:
        """The LSN up to which everything before the fence is captured; None when not yet.

        ``Lsn.ZERO`` when nothing was ever captured and nothing is to come.

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
        """The newest LSN, asked anew: what a session captured is in it; None while DDL is behind.

        DDL has an LSN of its own and no entry in ``cdc.lsn_time_mapping``. What was read behind a
        column's drop, or its change to another type, is not the table at an LSN before it; the next
        entry is behind both, at the latest the one with which the capture job marks the time, every
        five minutes.
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
    """Whether a session proves that the log was drained after the moment of a fence."""
    return any(
        is_drained(session, maxtrans)
        and (
            session.start_time > fence.moment + _ROUNDING
            or (fence.sessions is not None and has_run_since(session, fence.sessions))
        )
        for session in sessions.newest_first
    )
