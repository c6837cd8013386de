"""The settings of the capture and cleanup jobs.

The procedure needs db_owner. The table of msdb needs a user there with SELECT on it (tailrace
grants). Azure SQL Database has the table in schema cdc, no msdb (40515, 40508), and perhaps no such
procedure (2812).

See: sys.sp_cdc_help_jobs (Transact-SQL), permissions; dbo.cdc_jobs (Transact-SQL); Change data
capture (CDC) with Azure SQL Database, customization. Inferred: cdc.cdc_jobs has the columns of the
table of msdb. The texts of SQL Server's procedures allow NULL in maxtrans and maxscans.

https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sys-sp-cdc-help-jobs-transact-sql
https://learn.microsoft.com/sql/relational-databases/system-tables/dbo-cdc-jobs-transact-sql
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tailrace_publisher.errors import SourceError
from tailrace_publisher.ports import Connection

_STATEMENTS: Final = (
    "EXEC sys.sp_cdc_help_jobs",
    "SELECT job_type, maxtrans, retention FROM msdb.dbo.cdc_jobs WHERE database_id = DB_ID()",
    "SELECT job_type, maxtrans, retention FROM cdc.cdc_jobs",
)
"""See: sys.sp_cdc_help_jobs (Transact-SQL); dbo.cdc_jobs (Transact-SQL), for Azure SQL Database."""


@dataclass(frozen=True, slots=True)
class CdcJob:
    """The settings of a job.

    Attributes:
        maxtrans: transactions per scan cycle of the capture job; None if not set.
        retention_min: minutes for which the cleanup job keeps change rows; None if not set.
    """

    maxtrans: int | None = None
    retention_min: int | None = None


def cdc_jobs(connection: Connection) -> Mapping[str, CdcJob]:
    """Return the jobs of the database by their type; none if this login or server shows none.

    Raises:
        SourceError: the server did not answer.
    """
    for sql in _STATEMENTS:
        try:
            rows = connection.query(sql)
        except SourceError as error:
            if error.retryable:
                raise
            continue
        if rows:
            return {
                str(row.job_type).strip(): CdcJob(_number(row.maxtrans), _number(row.retention))
                for row in rows
            }
    return {}


def retention_s(connection: Connection) -> float | None:
    """Return the cleanup job's retention in seconds; None if it is not shown.

    Raises:
        SourceError: the server did not answer.
    """
    minutes = cdc_jobs(connection).get("cleanup", CdcJob()).retention_min
    return None if minutes is None else float(minutes) * 60


def _number(value: object) -> int | None:
    return int(value) if isinstance(value, int) else None
