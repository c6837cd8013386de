"""How much of the transaction log is in use, and how far log and data files can grow.

The log's use and the volumes require :attr:`ServerKind.log_right`. Azure SQL Database has no view
of volumes; its tiers Basic, S0 and S1 and its elastic pools show the log's use to administrators
alone.

See: sys.dm_db_log_space_usage (Transact-SQL), permissions; sys.database_files (Transact-SQL);
sys.dm_os_volume_stats (Transact-SQL), permissions and volume_id, which is NULL on Linux; DB_ID
(Transact-SQL): it may differ from sys.databases.database_id, so the name finds that row.

https://learn.microsoft.com/sql/relational-databases/system-dynamic-management-objects/sys-dm-db-log-space-usage-transact-sql
https://learn.microsoft.com/sql/relational-databases/system-catalog-views/sys-database-files-transact-sql
https://learn.microsoft.com/sql/relational-databases/system-dynamic-management-objects/sys-dm-os-volume-stats-transact-sql
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tailrace_publisher.errors import SourceError
from tailrace_publisher.ports import Connection

# See: the page of sys.dm_db_log_space_usage; sys.databases, log_reuse_wait_desc
_LOG: Final = (
    "SELECT u.used_log_space_in_bytes, d.log_reuse_wait_desc FROM sys.dm_db_log_space_usage AS u"
    " CROSS JOIN sys.databases AS d WHERE d.name = DB_NAME()"
)
# See: sys.database_files, size, growth and max_size
_FILES: Final = "SELECT size, growth, max_size FROM sys.database_files WHERE type = 1"
# See: the page of sys.dm_os_volume_stats
_VOLUMES: Final = (
    "SELECT f.type, v.volume_id, MIN(v.available_bytes) FROM sys.database_files AS f"
    " CROSS APPLY sys.dm_os_volume_stats(DB_ID(), f.file_id) AS v WHERE f.type IN (0, 1)"
    " GROUP BY f.type, v.volume_id"
)
_PAGE: Final = 8192
_UNLIMITED: Final = 268_435_456
"""Pages of 2 TiB, to which a log file grows if nothing else is set."""
_DATA: Final = 0
_OF_LOG: Final = 1


@dataclass(frozen=True, slots=True)
class Space:
    """The space of a database at a moment.

    Attributes:
        log_used: bytes of the log in use.
        log_limit: bytes to which the log can grow; None if a disk decides that is not visible.
        log_waits_for: why used log cannot be reused (log_reuse_wait_desc).
        disk_free: free bytes of the data files' fullest volume; None if it is not visible.
    """

    log_used: int
    log_limit: int | None
    log_waits_for: str
    disk_free: int | None


def _ignore(_view: str, _refusal: SourceError) -> None:
    """Do nothing."""


def read_space(
    connection: Connection, refused: Callable[[str, SourceError], None] = _ignore
) -> Space | None:
    """Return the space; None if the server does not show the log's use or its files.

    Without the volumes, a log without a limit of its own has none.

    Args:
        refused: called with the view that the server refuses, and its refusal.

    Raises:
        SourceError: the server did not answer.
    """

    def answer(view: str, sql: str) -> list[Any]:
        try:
            return connection.query(sql)
        except SourceError as error:
            if error.retryable:
                raise
            refused(view, error)
            return []

    found = answer("sys.dm_db_log_space_usage", _LOG)
    files = answer("sys.database_files", _FILES) if found else []
    if not files:
        return None
    ((used, waits_for),) = found
    of_volumes = answer("sys.dm_os_volume_stats", _VOLUMES)
    volumes = {(int(row[0]), row[1]): int(row[2]) for row in of_volumes}
    free = [bytes_ for (type_, _), bytes_ in volumes.items() if type_ == _DATA]
    return Space(int(used), _limit(files, volumes), str(waits_for), min(free, default=None))


def _limit(files: Sequence[Any], volumes: Mapping[tuple[int, Any], int]) -> int | None:
    """Return the bytes to which the log files can grow."""
    pages, is_limited = 0, True
    for size, growth, most in ((int(f[0]), int(f[1]), int(f[2])) for f in files):
        if not growth or most == 0:
            pages += size
        elif most in (-1, _UNLIMITED):
            pages += _UNLIMITED
            is_limited = False
        else:
            pages += max(size, most)
    free = [bytes_ for (type_, _), bytes_ in volumes.items() if type_ == _OF_LOG]
    if not free:
        return pages * _PAGE if is_limited else None
    return min(pages * _PAGE, sum(int(f[0]) for f in files) * _PAGE + sum(free))
