"""Dynamic views of open transactions.

https://learn.microsoft.com/sql/relational-databases/system-dynamic-management-views/transaction-related-dynamic-management-views-and-functions-transact-sql
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from tailrace_emulator.catalog.lock_views import table_ids
from tailrace_emulator.catalog.object_views import datetime_of
from tailrace_emulator.catalog.registry import Columns, Row, view
from tailrace_emulator.catalog.session_registry import visible_sessions

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.storage.engine import Database

_SESSION_TRANSACTIONS: Final = Columns(
    """session_id int!, transaction_id bigint!, transaction_descriptor binary(8)!,
 enlist_count int! = 1, is_user_transaction bit! = 1, is_local bit! = 1, is_enlisted bit! = 0,
 is_bound bit! = 0, open_transaction_count int!"""
)
_ACTIVE_TRANSACTIONS: Final = Columns(
    """transaction_id bigint!, name nvarchar(32)!, transaction_begin_time datetime!,
 transaction_type int! = 1, transaction_uow uniqueidentifier, transaction_state int! = 2,
 transaction_status int! = 0, transaction_status2 int! = 0, dtc_state int! = 0,
 dtc_status int! = 0, dtc_isolation_level int! = -1, filestream_transaction_id varbinary(128)"""
)
_DATABASE_TRANSACTIONS: Final = Columns(
    """transaction_id bigint!, database_id int!, database_transaction_begin_time datetime,
 database_transaction_type int! = 1, database_transaction_state int!,
 database_transaction_status int! = 0, database_transaction_status2 int! = 0,
 database_transaction_log_record_count bigint!,
 database_transaction_replicate_record_count int! = 0,
 database_transaction_log_bytes_used bigint!, database_transaction_log_bytes_reserved bigint! = 0,
 database_transaction_log_bytes_used_system int! = 0,
 database_transaction_log_bytes_reserved_system int! = 0,
 database_transaction_begin_lsn numeric(25), database_transaction_last_lsn numeric(25),
 database_transaction_most_recent_savepoint_lsn numeric(25),
 database_transaction_commit_lsn numeric(25),
 database_transaction_last_rollback_lsn numeric(25),
 database_transaction_next_undo_lsn numeric(25)"""
)
_HAS_LOGGED: Final = 4
_HAS_NOT_LOGGED: Final = 3


def _open(context: SessionContext) -> Iterator[tuple[SessionContext, int]]:
    """Sessions with an open transaction, and its id."""
    for session in visible_sessions(context):
        descriptor = session.store.descriptor
        if session.store.trancount and descriptor:
            yield session, descriptor


def _written(session: SessionContext) -> Counter[int]:
    """How many rows a session's transaction has changed, by database."""
    changed: Counter[int] = Counter()
    for sqlite_name, pending in list(session.store.work.owner.pending.items()):
        database_id, _ = table_ids(sqlite_name)
        changed[database_id] += max(len(pending.rows), 1)
    return changed


@view("sys.dm_tran_session_transactions", _SESSION_TRANSACTIONS)
def _session_transactions(context: SessionContext, _database: Database) -> Iterator[Row]:
    for session, number in _open(context):
        yield _SESSION_TRANSACTIONS.row(
            session_id=session.session_id,
            transaction_id=number,
            transaction_descriptor=number.to_bytes(8, "little"),
            open_transaction_count=session.store.trancount,
        )


@view("sys.dm_tran_active_transactions", _ACTIVE_TRANSACTIONS)
def _active_transactions(context: SessionContext, _database: Database) -> Iterator[Row]:
    for session, number in _open(context):
        yield _ACTIVE_TRANSACTIONS.row(
            transaction_id=number,
            name=session.transaction_name or "user_transaction",
            transaction_begin_time=datetime_of(session.store.work.begin_ticks),
        )


@view("sys.dm_tran_database_transactions", _DATABASE_TRANSACTIONS)
def _database_transactions(context: SessionContext, _database: Database) -> Iterator[Row]:
    for session, number in _open(context):
        written = _written(session)
        begun = datetime_of(session.store.work.begin_ticks)
        current = session.database.database_id
        for database_id in sorted({current, *written}):
            count = written[database_id]
            yield _DATABASE_TRANSACTIONS.row(
                transaction_id=number,
                database_id=database_id,
                database_transaction_begin_time=begun if count else None,
                database_transaction_state=_HAS_LOGGED if count else _HAS_NOT_LOGGED,
                database_transaction_log_record_count=count,
                database_transaction_log_bytes_used=0,
            )
