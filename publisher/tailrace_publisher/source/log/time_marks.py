"""Which entries that only mark time have nothing below them that is still to be captured.

The capture job writes an entry with ``tran_id`` 0x00 after a scan that found nothing, if the newest
entry is five minutes old. The entry is at the last LSN that was flushed then. A commit that is
flushed between the end of that scan and this moment lies below the mark, and only the next scan
captures it. So a mark proves nothing until that scan has committed.

See: cdc.lsn_time_mapping (Transact-SQL), and the text of cdc.sp_ins_dummy_lsn_time_mapping.
Inferred: whether a commit is ever captured below a mark that is visible.
"""

from __future__ import annotations

from tailrace_publisher.errors import PermissionMissing
from tailrace_publisher.ports import Connection
from tailrace_publisher.source.log.queries import max_lsn, may_wait_for_replicas
from tailrace_publisher.source.log.scan_sessions import (
    Sessions,
    captured_lsn,
    last_commit_read,
    scan_sessions,
    was_drained_since,
)
from tailrace_schemas.position.lsn import Lsn


class TimeMarks:
    """Remembers the newest mark that is proven.

    Attributes:
        proven: entries read from now on are complete up to this mark.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._sees_sessions = True
        self._seen: tuple[Lsn, Sessions] | None = None
        self.proven = Lsn.ZERO

    def prove(self, mark: Lsn, last: Lsn) -> bool:
        """Return whether nothing will be captured below a mark that was read.

        Either a later entry is visible, or a session that started after the mark was seen has found
        nothing. Where the log reader may wait for replicas, it must also have read up to the mark.

        Args:
            last: the last entry that was read.

        Raises:
            SourceError: the server did not answer.
        """
        if last > mark or self._is_shown(mark):
            self.proven = mark
        return self.proven == mark

    def _is_shown(self, mark: Lsn) -> bool:
        """Return whether the newest LSN or the scan sessions prove the last mark."""
        sessions = self._sessions()
        newest = max_lsn(self._connection) if sessions is None else sessions.newest_lsn
        if sessions is None or (newest or Lsn.ZERO) > mark:
            return (newest or Lsn.ZERO) > mark
        if last_commit_read(sessions) >= mark:
            return True  # the mark stands where a commit does, which was captured since
        if self._seen is None or self._seen[0] != mark:
            self._seen = mark, sessions
        return was_drained_since(sessions, self._seen[1], None) and (
            (captured_lsn(sessions) or Lsn.ZERO) >= mark
            or not may_wait_for_replicas(self._connection)
        )

    def _sessions(self) -> Sessions | None:
        if not self._sees_sessions:
            return None
        try:
            return scan_sessions(self._connection)
        except PermissionMissing:  # CaptureWatch warns
            self._sees_sessions = False
            return None
