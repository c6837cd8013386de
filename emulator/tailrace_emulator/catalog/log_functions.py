"""sys.dm_db_log_stats: where a database's transaction log ends.

Inferred: its LSNs have the form of the other dynamic management views, ``vlf:block:slot`` in
hexadecimal digits. Inferred, too: it has no row for a database that does not exist. The log of the
embedded server is not a file, so what is about files, backups and checkpoints is NULL.

https://learn.microsoft.com/sql/relational-databases/system-dynamic-management-views/sys-dm-db-log-stats-transact-sql
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tailrace_emulator.catalog.extensions import extension
from tailrace_emulator.catalog.registry import Columns
from tailrace_emulator.catalog.server_views import recovery_model
from tailrace_emulator.catalog.table_functions import TableFunction, TableSource
from tailrace_emulator.log.lsn import VLF_BYTES
from tailrace_emulator.messages import database_denied
from tailrace_emulator.security.access import Securable
from tailrace_emulator.security.view_permissions import DATABASE_PERFORMANCE
from tailrace_emulator.values.types import INT, StorageValue

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext

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
    security = context.security
    if not security.is_sysadmin and not security.has(Securable(database), DATABASE_PERFORMANCE):
        raise database_denied(DATABASE_PERFORMANCE, database.name)
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
