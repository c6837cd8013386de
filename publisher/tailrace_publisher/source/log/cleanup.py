"""Removing change rows of one capture instance, a bite at a time.

See: sys.sp_cdc_cleanup_change_table (Transact-SQL).
"""

from __future__ import annotations

from typing import Final

from tailrace_publisher.change.instance import CaptureInstance
from tailrace_publisher.ports import Connection
from tailrace_publisher.source.connection.quoting import quote_text
from tailrace_publisher.source.log.proven_source import ProvenSource
from tailrace_publisher.source.log.queries import change_table, lsn_or_none
from tailrace_schemas.position.lsn import Lsn

COMMITS_MAX: Final = 1_000
"""Commits of one bite: its locks are short, and a primary replica ships its log in between."""
ROWS_MAX: Final = 50_000
"""Change rows of one bite, unless one transaction has more: each call ends well within
``source.query_timeout_s``."""

# See: cdc.lsn_time_mapping; sys.sp_cdc_cleanup_change_table, remarks: of entries with one
# tran_end_time the lowest becomes the mark.
_NEXT: Final = (
    "SELECT MAX(start_lsn), COUNT(*) FROM (SELECT TOP (?) start_lsn FROM cdc.lsn_time_mapping AS m"
    " WHERE start_lsn > ? AND start_lsn <= ? AND NOT EXISTS (SELECT 1 FROM cdc.lsn_time_mapping"
    " AS low WHERE low.start_lsn <= ? AND low.tran_end_time = m.tran_end_time)"
    " ORDER BY start_lsn) AS bite"
)
"""Of entries with one commit time, the server takes the smallest LSN as the low watermark. If that
is not above the present one, nothing changes. Times come again when clocks are set back."""


def next_low_watermark(
    connection: Connection, instance: str, low: Lsn, up_to: Lsn
) -> tuple[Lsn, bool] | None:
    """Return the low watermark after the next bite, and whether more may be left.

    Args:
        instance: name of the capture instance.
        low: its present low watermark.
        up_to: the highest one that is allowed.

    Returns:
        None if there is nothing to remove.
    """
    last = _last_of_rows(connection, instance, up_to)
    if last is None:
        return _bite(connection, low, up_to, low, COMMITS_MAX)
    bite = _bite(connection, low, last, low, COMMITS_MAX)
    # One transaction has as many rows as a bite, so all of its rows go at once.
    bite = bite or _bite(connection, max(low, last), up_to, low, 1)
    return None if bite is None else (bite[0], True)


def _bite(
    connection: Connection, after: Lsn, up_to: Lsn, low: Lsn, limit: int
) -> tuple[Lsn, bool] | None:
    """Return the last of some entries that the server takes as a low watermark."""
    ((newest, count),) = connection.query(
        _NEXT, limit, after.to_bytes(), up_to.to_bytes(), low.to_bytes()
    )
    mark = lsn_or_none(newest)
    return None if mark is None else (mark, count == limit)


def _last_of_rows(connection: Connection, instance: str, up_to: Lsn) -> Lsn | None:
    """Return the commit of the last row of a bite of rows; None if fewer rows are to be removed."""
    # See: cdc.<capture_instance>_CT, __$start_lsn
    ((last, count),) = connection.query(
        "SELECT MAX(lsn), COUNT(*) FROM (SELECT TOP (?) [__$start_lsn] AS lsn"
        f" FROM {change_table(instance)} WHERE [__$start_lsn] < ? ORDER BY [__$start_lsn]) AS bite",
        ROWS_MAX,
        up_to.to_bytes(),
    )
    return lsn_or_none(last) if count == ROWS_MAX else None


def remove_below(source: ProvenSource, instance: CaptureInstance, mark: Lsn) -> Lsn | None:
    """Raise the low watermark of a capture instance, and delete the change rows below it.

    Args:
        mark: start_lsn of an entry of ``cdc.lsn_time_mapping``.

    Returns:
        The instance's low watermark afterwards, which may be below the mark. None if the instance
        is gone.

    Raises:
        HistoryUnproven: the database does not hold the published history; nothing was removed.
        SourceError: the server refused, or a lock was not granted in time.
    """
    # See: the page of sys.sp_cdc_cleanup_change_table; cdc.change_tables, start_lsn
    rows = source.change(
        "DECLARE @mark binary(10) = ?;"
        f" EXEC sys.sp_cdc_cleanup_change_table @capture_instance = {quote_text(instance.name)},"
        " @low_water_mark = @mark;"
        " SELECT start_lsn FROM cdc.change_tables WHERE object_id = ?",
        mark.to_bytes(),
        instance.object_id,
        of=[instance],
    )
    return lsn_or_none(rows[0][0]) if rows else None
