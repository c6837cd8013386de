"""sys.dm_tran_locks and sys.dm_exec_requests: who holds what, and who waits for whom.

https://learn.microsoft.com/sql/relational-databases/system-dynamic-management-views/sys-dm-tran-locks-transact-sql

Inferred: the description of a KEY or RID lock. Their associated entity is the object's id, where
SQL Server has the id of a heap or B-tree. Intent locks are derived from what is locked below. Of
the sessions that run without waiting only the querying one is listed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from tailrace_emulator.catalog.object_views import datetime_of
from tailrace_emulator.catalog.registry import Columns, Row, view
from tailrace_emulator.catalog.session_registry import visible_sessions
from tailrace_emulator.storage.application_locks import PREFIX

if TYPE_CHECKING:
    from tailrace_emulator.catalog.context import SessionContext
    from tailrace_emulator.storage.engine import Database
    from tailrace_emulator.storage.locks import HeldLock


_DM_TRAN_LOCKS: Final = Columns(
    """resource_type nvarchar(60)!, resource_subtype nvarchar(60)! = '',
 resource_database_id int!, resource_description nvarchar(256)! = '',
 resource_associated_entity_id bigint, request_mode nvarchar(60)!,
 request_type nvarchar(60)! = 'LOCK', request_status nvarchar(60)! = 'GRANT',
 request_session_id int!, request_owner_type nvarchar(60)! = 'TRANSACTION'"""
)


@view("sys.dm_tran_locks", _DM_TRAN_LOCKS)
def _dm_tran_locks(context: SessionContext, _database: Database) -> Iterator[Row]:
    intents: dict[tuple[int, str], str] = {}
    for lock in context.engine.locks.held():
        if not lock.table or isinstance(lock.resource, tuple):
            continue  # the write path; unique keys beside the rows that have them
        if lock.table.startswith(PREFIX):
            yield _application_lock(lock)
            continue
        if lock.resource is not None and not lock.waits:
            place = (lock.session_id, lock.table)
            intents[place] = max(intents.get(place, ""), f"I{lock.mode}")
        yield from _row(context, lock)
    for (session_id, table), mode in intents.items():
        database_id, object_id = table_ids(table)
        yield _DM_TRAN_LOCKS.row(
            resource_type="OBJECT",
            resource_database_id=database_id,
            resource_associated_entity_id=object_id,
            request_mode=mode,
            request_session_id=session_id,
        )


def _application_lock(lock: HeldLock) -> Row:
    number, _, resource = lock.table.removeprefix(PREFIX).split(":", 2)
    digest = hashlib.sha256(resource.encode()).hexdigest()[:8]
    return _DM_TRAN_LOCKS.row(
        resource_type="APPLICATION",
        resource_database_id=int(number),
        resource_description=f"0:[{resource}]:({digest})",
        resource_associated_entity_id=0,
        request_mode=lock.mode,
        request_status="WAIT" if lock.waits else "GRANT",
        request_session_id=lock.session_id,
    )


def _row(context: SessionContext, lock: HeldLock) -> Iterator[Row]:
    database_id, object_id = table_ids(lock.table)
    database = context.engine.database_by_id(database_id)
    table = None if database is None else database.table_by_id(object_id)
    if table is None:
        return
    kind, described = "OBJECT", ""
    if lock.resource is not None:
        kind = "KEY" if any(index.clustered for index in table.indexes) else "RID"
        digest = hashlib.sha256(str(lock.resource).encode()).hexdigest()[:12]
        described = f"({digest})" if kind == "KEY" else f"1:{lock.resource}:0"
    yield _DM_TRAN_LOCKS.row(
        resource_type=kind,
        resource_database_id=database_id,
        resource_description=described,
        resource_associated_entity_id=object_id,
        request_mode=lock.mode,
        request_status="WAIT" if lock.waits else "GRANT",
        request_session_id=lock.session_id,
    )


def table_ids(sqlite_name: str) -> tuple[int, int]:
    """Database and object of a table's name in SQLite."""
    database_id, object_id = sqlite_name[1:].split("_", 1)
    return int(database_id), int(object_id)


_DM_EXEC_REQUESTS: Final = Columns(
    """session_id smallint!, request_id int! = 0, start_time datetime!,
 status nvarchar(30)! = 'running', command nvarchar(32)! = 'SELECT', database_id smallint!,
 blocking_session_id smallint, wait_type nvarchar(60)"""
)


@view("sys.dm_exec_requests", _DM_EXEC_REQUESTS)
def _dm_exec_requests(context: SessionContext, _database: Database) -> Iterator[Row]:
    now = datetime_of(context.engine.clock.now_ticks())
    blocked = context.engine.locks.blocked()
    running = {session.session_id: session for session in visible_sessions(context)}
    for session_id in sorted({*running, *blocked}):
        session, blocker = running.get(session_id, context), blocked.get(session_id, 0)
        if blocker or session is context or session.is_running:
            yield _DM_EXEC_REQUESTS.row(
                session_id=session_id,
                start_time=now,
                status="suspended" if blocker else "running",
                database_id=session.database.database_id,
                blocking_session_id=blocker,
                wait_type="LCK_M_X" if blocker else None,
            )
