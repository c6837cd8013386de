"""sys.dm_db_log_stats and sys.dm_db_log_space_usage: where a log ends, and how much is in use.

Both need VIEW SERVER PERFORMANCE STATE, as from SQL Server 2022 on. Inferred: LSNs have the form of
the other dynamic management views, ``vlf:block:slot`` in hexadecimal digits; there is no row for a
database that does not exist. The log of the embedded server is not a file, so what is about files,
backups and checkpoints is NULL. Inferred, too: the use of the log begins with the first record that
waits for its reader. The log is as large as sys.database_files says.

https://learn.microsoft.com/sql/relational-databases/system-dynamic-management-objects/sys-dm-db-log-stats-transact-sql
https://learn.microsoft.com/sql/relational-databases/system-dynamic-management-objects/sys-dm-db-log-space-usage-transact-sql
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from tailrace_emulator.catalog.extensions import extension
from tailrace_emulator.catalog.registry import Columns, Row, view
from tailrace_emulator.catalog.server_views import recovery_model
from tailrace_emulator.catalog.table_functions import TableFunction, TableSource
from tailrace_emulator.log.lsn import VLF_BYTES
from tailrace_emulator.messages import server_denied
from tailrace_emulator.security.view_permissions import SERVER_PERFORMANCE
from tailrace_emulator.values.types import INT, StorageValue

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.storage.engine import Database

_COLUMNS: Final = Columns(
    """database_id int, recovery_model nvarchar(60), log_min_lsn nvarchar(24),
 log_end_lsn nvarchar(24), current_vlf_sequence_number bigint, current_vlf_size_mb float,
 total_vlf_count bigint, total_log_size_mb float, active_vlf_count bigint,
 active_log_size_mb float, log_truncation_holdup_reason nvarchar(60), log_backup_time datetime,
 log_backup_lsn nvarchar(24), log_since_last_log_backup_mb float, log_checkpoint_lsn nvarchar(24),
 log_since_last_checkpoint_mb float, log_recovery_lsn nvarchar(24), log_recovery_size_mb float,
 recovery_vlf_count bigint"""
)
_MEGABYTE: Final = 1 << 20


def _log_stats(context: SessionContext, arguments: tuple[StorageValue, ...]) -> TableSource:
    (database_id,) = arguments
    database = context.database
    if isinstance(database_id, int):
        found = context.engine.database_by_id(database_id)
        if found is None:
            return TableSource(None)
        database = found
    if not context.security.is_sysadmin and not context.security.has_on_server(SERVER_PERFORMANCE):
        raise server_denied(SERVER_PERFORMANCE)
    end = database.log.end().hex()
    waits = extension(context.engine).facts(database).log_waits
    row = _COLUMNS.row(
        database_id=database.database_id,
        recovery_model=recovery_model(database),
        log_end_lsn=f"{end[:8]}:{end[8:16]}:{end[16:]}",
        current_vlf_sequence_number=int(end[:8], 16),
        current_vlf_size_mb=VLF_BYTES / _MEGABYTE,
        log_truncation_holdup_reason="REPLICATION" if waits else "NOTHING",
    )
    return TableSource(None, (), (row,))


DM_DB_LOG_STATS: Final = TableFunction("dm_db_log_stats", (INT,), _COLUMNS.meta, _log_stats)
"""sys.dm_db_log_stats(database_id); NULL is the current database."""


_SPACE: Final = Columns(
    """database_id smallint, total_log_size_in_bytes bigint, used_log_space_in_bytes bigint,
 used_log_space_in_percent real, log_space_in_bytes_since_last_backup bigint"""
)
_FILE_BYTES: Final = 1024 * 8192
"""The size of the log's only file in sys.database_files."""


@view("sys.dm_db_log_space_usage", _SPACE)
def _log_space_usage(_context: SessionContext, database: Database) -> Iterator[Row]:
    used = database.log.waiting_bytes()
    total = max(used, _FILE_BYTES)
    yield _SPACE.row(
        database_id=database.database_id,
        total_log_size_in_bytes=total,
        used_log_space_in_bytes=used,
        used_log_space_in_percent=100 * used / total,
        log_space_in_bytes_since_last_backup=used,
    )
