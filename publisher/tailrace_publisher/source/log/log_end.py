"""Where the transaction log ends: at or above everything that is committed.

``sys.dm_db_log_stats`` exists since SQL Server 2016 SP2 and requires a right on the server
(:attr:`ServerKind.log_right`). At a secondary replica it returns its row with NULL in most columns.

See: sys.dm_db_log_stats (Transact-SQL), permissions and remarks. Inferred: it returns the LSN as
text, ``vlf:block:slot`` in hexadecimal digits like that of ``sys.dm_cdc_log_scan_sessions``.

https://learn.microsoft.com/sql/relational-databases/system-dynamic-management-objects/sys-dm-db-log-stats-transact-sql
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import structlog

from tailrace_publisher.errors import PermissionMissing, SourceError
from tailrace_publisher.ports import Connection
from tailrace_publisher.source.log.queries import INVALID_OBJECT
from tailrace_publisher.source.log.server_kind import server_kind
from tailrace_schemas.position.lsn import Lsn

_log = structlog.get_logger(__name__)

# See: sys.dm_db_log_stats. Inferred: is log_end_lsn comparable with the LSNs of commits?
LOG_END: Final = "SELECT log_end_lsn, current_vlf_size_mb FROM sys.dm_db_log_stats(DB_ID())"

_SECTOR_BYTES: Final = 512
"""Block numbers count the sectors of a virtual log file."""
_MEGABYTE: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class LogEnd:
    """The end of the log.

    Attributes:
        lsn: of its last record.
        vlf_bytes: size of its virtual log file; None if not reported.
    """

    lsn: Lsn
    vlf_bytes: int | None

    def bytes_behind(self, lsn: Lsn) -> int | None:
        """Return by how many bytes of log an LSN lags.

        The number is exact within a virtual log file. Over several, all files between count as
        large as the last.

        Returns:
            None if a size is unknown.
        """
        blocks = (self.lsn.block - lsn.block) * _SECTOR_BYTES
        files = self.lsn.vlf - lsn.vlf
        if files > 0 and self.vlf_bytes is None:
            return None
        return max(0, files * (self.vlf_bytes or 0) + blocks)


class LogEndSource:
    """Queries the end of the log, and remembers if the login may not see it.

    Args:
        effect: what its absence causes, for the warning. None if another part warns.
    """

    def __init__(self, connection: Connection, effect: str | None) -> None:
        self._connection = connection
        self._effect = effect
        self._is_visible = True

    def read(self) -> LogEnd | None:
        """Return the end of the log now; None if the server or the login does not show it.

        Raises:
            SourceError: the server did not answer.
        """
        if not self._is_visible:
            return None
        try:
            rows = self._connection.query(LOG_END)
        except PermissionMissing as error:
            self._give_up(grant_log_right(self._connection), str(error))
            return None
        except SourceError as error:
            if error.number != INVALID_OBJECT:
                raise
            self._give_up("SQL Server 2016 SP2 or later", str(error))
            return None
        if not rows or rows[0][0] is None:
            return None
        text, size_mb = rows[0]
        try:
            lsn = Lsn.parse(text)
        except ValueError as error:
            self._give_up("report the form of log_end_lsn on this server", str(error))
            return None
        return LogEnd(lsn, None if size_mb is None else round(size_mb * _MEGABYTE))

    def _give_up(self, fix: str, reason: str) -> None:
        self._is_visible = False
        if self._effect is not None:
            _log.warning("log_end_not_visible", effect=self._effect, fix=fix, reason=reason)


def grant_log_right(connection: Connection) -> str:
    """Return the fix for a login that may not see the log's end and use.

    Raises:
        SourceError: the server did not answer.
    """
    return f"{server_kind(connection).grant_log_right('<the login>')} (tailrace grants)"
