"""The statements about the space of log and disk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.simulation.sqlserver.select import SqlError
from tests.simulation.sqlserver.statements import Answer, statement
from tests.simulation.sqlserver.view import View


@statement(
    "SELECT u.used_log_space_in_bytes, d.log_reuse_wait_desc FROM sys.dm_db_log_space_usage AS u"
    " CROSS JOIN sys.databases AS d WHERE d.name = DB_NAME()"
)
def _log_space(view: View, _: Sequence[Any]) -> Answer:
    """https://learn.microsoft.com/sql/relational-databases/system-dynamic-management-objects/sys-dm-db-log-space-usage-transact-sql"""
    if not view.features.sees_server_state:
        raise SqlError(300, "VIEW SERVER PERFORMANCE STATE permission was denied.")
    return [(len(view.group.log.records) * 1024, "REPLICATION")]


@statement("SELECT size, growth, max_size FROM sys.database_files WHERE type = 1")
def _log_files(_view: View, _: Sequence[Any]) -> Answer:
    return [(1024, 8192, -1)]


@statement(
    "SELECT f.type, v.volume_id, MIN(v.available_bytes) FROM sys.database_files AS f"
    " CROSS APPLY sys.dm_os_volume_stats(DB_ID(), f.file_id) AS v WHERE f.type IN (0, 1)"
    " GROUP BY f.type, v.volume_id"
)
def _volumes(_view: View, _: Sequence[Any]) -> Answer:
    """It is a server without this view, as Azure SQL Database is."""
    raise SqlError(208, "Invalid object name 'sys.dm_os_volume_stats'.")
