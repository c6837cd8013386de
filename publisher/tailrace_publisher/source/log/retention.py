"""How long the cleanup job keeps change rows.

https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sys-sp-cdc-help-jobs-transact-sql
https://learn.microsoft.com/sql/relational-databases/system-tables/dbo-cdc-jobs-transact-sql
"""

from __future__ import annotations

from typing import Any

from tailrace_publisher.errors import SourceError
from tailrace_publisher.ports import Connection


def retention_s(connection: Connection) -> float | None:
    """Return the cleanup job's retention in seconds; None if the login may not see it.

    The procedure needs db_owner, the table a user in msdb with SELECT on it (tailrace grants).

    Raises:
        SourceError: the server did not answer.
    """
    rows = _answer(connection, "EXEC sys.sp_cdc_help_jobs")
    kept = [row.retention for row in rows if str(row.job_type).strip() == "cleanup"]
    if not kept:
        rows = _answer(
            connection,
            "SELECT retention FROM msdb.dbo.cdc_jobs"
            " WHERE database_id = DB_ID() AND job_type = N'cleanup'",
        )
        kept = [row[0] for row in rows]
    return None if not kept or kept[0] is None else float(kept[0]) * 60


def _answer(connection: Connection, sql: str) -> list[Any]:
    """Return the rows of a statement; none if the server refuses it."""
    try:
        return connection.query(sql)
    except SourceError as error:
        if error.retryable:
            raise
        return []
