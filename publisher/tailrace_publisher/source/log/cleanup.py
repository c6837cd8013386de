"""Removing change rows of one capture instance, a bite of commits at a time.

https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sys-sp-cdc-cleanup-change-table-transact-sql
"""

from __future__ import annotations

from typing import Final

from tailrace_publisher.ports import Connection
from tailrace_publisher.source.connection.quoting import quote_text
from tailrace_publisher.source.log.queries import lsn_or_none
from tailrace_schemas.position.lsn import Lsn

COMMITS_MAX: Final = 1_000
"""Commits of one bite: its locks are short, and a primary replica ships its log in between."""

_NEXT: Final = (
    "SELECT MAX(start_lsn), COUNT(*) FROM (SELECT TOP (?) start_lsn FROM cdc.lsn_time_mapping AS m"
    " WHERE start_lsn > ? AND start_lsn <= ? AND NOT EXISTS (SELECT 1 FROM cdc.lsn_time_mapping"
    " AS low WHERE low.start_lsn = ? AND low.tran_end_time = m.tran_end_time)"
    " ORDER BY start_lsn) AS bite"
)
"""Commits of the low watermark's time are none: of one time, the server takes the smallest LSN."""


def next_low_watermark(connection: Connection, low: Lsn, up_to: Lsn) -> tuple[Lsn, bool] | None:
    """Return the low watermark after the next bite, and whether more is to be removed.

    Args:
        low: the present low watermark.
        up_to: the highest one that is allowed.

    Returns:
        None if there is nothing to remove.
    """
    raw = low.to_bytes()
    ((newest, count),) = connection.query(_NEXT, COMMITS_MAX, raw, up_to.to_bytes(), raw)
    mark = lsn_or_none(newest)
    return None if mark is None else (mark, count == COMMITS_MAX)


def remove_below(connection: Connection, instance: str, mark: Lsn) -> None:
    """Raise the low watermark of a capture instance, and delete the change rows below it.

    Args:
        mark: start_lsn of an entry of ``cdc.lsn_time_mapping``.

    Raises:
        SourceError: the server refused, or a lock was not granted in time.
    """
    connection.query_sets(
        "SET TRANSACTION ISOLATION LEVEL READ COMMITTED;"
        f" EXEC sys.sp_cdc_cleanup_change_table @capture_instance = {quote_text(instance)},"
        f" @low_water_mark = 0x{mark.to_bytes().hex().upper()}"
    )
