"""Proving that everything committed before a moment is in the change tables.

``sys.fn_cdc_get_max_lsn`` lags the log, so it does not mean "now". A fence is the end of the log at
the moment of its mark. The fence is reached once the capture process has shown that it read that
far. An entry of ``cdc.lsn_time_mapping`` is at or after it, or a finished log scan session ended
there. A session that started after the mark and found nothing also shows it. Clocks prove nothing
here. So no clock that is set back, and no unknown limit of the capture job, can place a fence too
early.

Some servers do not report the end of their log: before SQL Server 2016 SP2, or without the right
for it (:attr:`ServerKind.log_right`). Then the moment is the fence. It is reached once an entry
after our position is later than the moment, or a session that started later has drained the log.

If availability groups are enabled, a session that found nothing may have waited for a replica. Then
only an entry, or where a session ended, reaches a fence.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import structlog

from tailrace_publisher.errors import PermissionMissing
from tailrace_publisher.ports import Connection
from tailrace_publisher.source.catalog.ddl_history import newest_loss_by_ddl
from tailrace_publisher.source.log.commit_times import commit_after_time, local_time
from tailrace_publisher.source.log.log_end import LogEndSource
from tailrace_publisher.source.log.queries import max_lsn, may_wait_for_replicas
from tailrace_publisher.source.log.scan_sessions import (
    ROUNDING,
    MaxTransactions,
    Sessions,
    captured_lsn,
    scan_sessions,
    was_drained_since,
)
from tailrace_schemas.position.lsn import Lsn

_log = structlog.get_logger(__name__)


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
        self._waits_for_replicas: bool | None = None
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
        if sessions is None:
            return None
        is_captured = (captured_lsn(sessions) or Lsn.ZERO) >= fence.log_end
        # Where an empty session ends is inferred, so two more of them are proof, too.
        if is_captured or self._is_drained(sessions, fence, None):
            return self._without_later_ddl(fence.log_end)
        return None

    def _reached_in_time(self, fence: Fence) -> Lsn | None:
        later = commit_after_time(self._connection, fence.moment + ROUNDING, fence.position)
        if later is not None:
            return later
        sessions = self._sessions()
        if sessions is None or not self._is_drained(sessions, fence, self._maxtrans.read()):
            return None
        return self._without_later_ddl(Lsn.MAX)

    def _is_drained(self, sessions: Sessions, fence: Fence, maxtrans: int | None) -> bool:
        """Return whether a session drained the log after the mark and waited for no replica."""
        if fence.sessions is None or not was_drained_since(sessions, fence.sessions, maxtrans):
            return False
        if self._waits_for_replicas is None:
            self._waits_for_replicas = may_wait_for_replicas(self._connection)
        return not self._waits_for_replicas

    def _without_later_ddl(self, mark: Lsn) -> Lsn | None:
        """Query the newest LSN again; None while DDL is later than it.

        The second query includes what a session captured since the first. DDL has an LSN of its own
        and no entry in ``cdc.lsn_time_mapping``. Rows that were read after a column was dropped or
        changed its type do not show the table at an LSN before that DDL. The next entry is after
        both. It comes at the latest with the capture job's time mark, after five quiet minutes by
        the server's clock. If that was set back by an hour, it takes up to 65 minutes.

        See: the text of cdc.sp_ins_dummy_lsn_time_mapping.
        """
        newest = max_lsn(self._connection) or Lsn.ZERO
        ddl = newest_loss_by_ddl(self._connection, mark)
        return None if ddl is not None and ddl > newest else newest

    def _sessions(self) -> Sessions | None:
        # See: sys.dm_cdc_log_scan_sessions, permissions
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
