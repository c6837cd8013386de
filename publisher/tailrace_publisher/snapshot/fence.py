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
from tailrace_publisher.source.queries import (
    ScanSession,
    capture_job_maxtrans,
    commit_behind_time,
    local_time,
    max_lsn,
    newest_scan_session,
)
from tailrace_schemas.lsn import Lsn

_log = structlog.get_logger(__name__)

_ROUNDING: Final = timedelta(milliseconds=20)
"""datetime is kept in steps of 1/300 s and rounded; commits this close to the moment count as
later than it."""
_MAXTRANS_DEFAULT: Final = 500
_EMPTY_SCANS_BEHIND: Final = 2


@dataclass(frozen=True, slots=True)
class Fence:
    """A moment of the server's clock and the scan session that was the newest then."""

    moment: datetime
    session: ScanSession | None


class FenceSource:
    """Makes fences; remembers what the login may see.

    Args:
        connection: where to ask.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._sees_sessions = True
        self._maxtrans: int | None = None

    def mark(self) -> Fence:
        """A fence behind everything that is committed now."""
        moment = local_time(self._connection) + _ROUNDING
        return Fence(moment, self._session())

    def reached(self, fence: Fence) -> Lsn | None:
        """The LSN up to which everything before the fence is captured; None when not yet.

        ``Lsn.ZERO`` when nothing was ever captured and nothing is to come.
        """
        later = commit_behind_time(self._connection, fence.moment)
        if later is not None:
            return later
        session = self._session()
        if session is None or not is_drained(session, fence, self._maxtrans_of_job()):
            return None
        return max_lsn(self._connection) or Lsn.ZERO

    def _session(self) -> ScanSession | None:
        if not self._sees_sessions:
            return None
        try:
            return newest_scan_session(self._connection)
        except PermissionMissing as error:
            self._sees_sessions = False
            _log.warning(
                "scan_sessions_not_visible",
                effect="a snapshot waits for later changes or the capture job's time marks",
                fix="GRANT VIEW DATABASE STATE to the login",
                reason=str(error),
            )
            return None

    def _maxtrans_of_job(self) -> int:
        if self._maxtrans is None:
            try:
                self._maxtrans = capture_job_maxtrans(self._connection)
            except PermissionMissing:
                self._maxtrans = None
            self._maxtrans = self._maxtrans or _MAXTRANS_DEFAULT
        return self._maxtrans


def is_drained(session: ScanSession, fence: Fence, maxtrans: int) -> bool:
    """Whether a scan session proves that the log was drained behind a fence.

    Consecutive empty sessions share one row, whose times may be those of the first of them; then
    two more of them prove it, because the second began after the first had ended.
    """
    if session.end_time is None or session.tran_count >= maxtrans or session.error_count:
        return False
    if session.start_time > fence.moment:
        return True
    before = fence.session
    return (
        before is not None
        and session.session_id == before.session_id
        and session.empty_scan_count >= before.empty_scan_count + _EMPTY_SCANS_BEHIND
    )
