"""Knowing that everything committed before a moment is in the change tables.

``sys.fn_cdc_get_max_lsn`` lags the log, so it is not "now". A fence is reached when the capture
process has shown that it read past the moment: an entry of ``cdc.lsn_time_mapping`` is later, or a
log scan session began later and drained the log (it found fewer transactions than it may take).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import structlog

from tailrace_publisher.errors import PermissionMissing
from tailrace_publisher.source.connection import Connection
from tailrace_publisher.source.queries import commit_behind_time, local_time, max_lsn
from tailrace_publisher.source.scan_sessions import (
    MaxTransactions,
    Sessions,
    has_run_since,
    is_drained,
    scan_sessions,
)
from tailrace_schemas.lsn import Lsn

_log = structlog.get_logger(__name__)

_ROUNDING: Final = timedelta(milliseconds=20)
"""datetime is kept in steps of 1/300 s and rounded; commits this close to the moment count as
later than it."""


@dataclass(frozen=True, slots=True)
class Fence:
    """A moment of the server's clock and the scan sessions of then."""

    moment: datetime
    sessions: Sessions | None


class FenceSource:
    """Makes fences; remembers what the login may see.

    Args:
        connection: where to ask.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._sees_sessions = True
        self._maxtrans = MaxTransactions(connection)

    def mark(self) -> Fence:
        """A fence behind everything that is committed now."""
        moment = local_time(self._connection) + _ROUNDING
        return Fence(moment, self._sessions())

    def reached(self, fence: Fence) -> Lsn | None:
        """The LSN up to which everything before the fence is captured; None when not yet.

        ``Lsn.ZERO`` when nothing was ever captured and nothing is to come.
        """
        later = commit_behind_time(self._connection, fence.moment)
        if later is not None:
            return later
        sessions = self._sessions()
        if sessions is None or not is_behind(sessions, fence, self._maxtrans.read()):
            return None
        return max_lsn(self._connection) or Lsn.ZERO

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


def is_behind(sessions: Sessions, fence: Fence, maxtrans: int | None) -> bool:
    """Whether a session proves that the log was drained behind the moment of a fence."""
    return any(
        is_drained(session, maxtrans)
        and (
            session.start_time > fence.moment
            or (fence.sessions is not None and has_run_since(session, fence.sessions))
        )
        for session in sessions.newest_first
    )
