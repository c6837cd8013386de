"""In whose transaction DDL runs, and what each DDL statement leaves in catalog and log."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace

import apsw

from tailrace_emulator.log.journal import ACTION_DDL
from tailrace_emulator.log.transaction_log import type_fields
from tailrace_emulator.messages.errors import INTERNAL, SqlError
from tailrace_emulator.storage.catalog_store import table_to_text
from tailrace_emulator.storage.database import Database
from tailrace_emulator.storage.model import Table
from tailrace_emulator.storage.transaction import StoreSession
from tailrace_emulator.values.types import SqlType

DdlTarget = StoreSession | apsw.Connection
"""Where DDL runs: a session, or the connection of an Engine.write() in progress."""


@contextlib.contextmanager
def ddl_scope(target: DdlTarget, database: Database, *tables: Table) -> Iterator[apsw.Connection]:
    """Run DDL on ``tables`` in the target's transaction.

    Yields:
        The connection to write with.

    Raises:
        SqlError: 1222 or 1205 when somebody else holds locks on one of the tables. Inside an
            Engine.write() there is no waiting (they need the write path to end): 1222 at once,
            unless it named the table when it began.
    """
    if isinstance(target, StoreSession):
        with target.ddl(tables) as connection:
            yield connection
        return
    for table in tables:
        lock_for_ddl(target, database, table)
    yield target


def lock_for_ddl(target: DdlTarget, database: Database, table: Table) -> None:
    """Lock a table until the DDL on it is committed: others see it in the catalog already.

    Raises:
        SqlError: the same as :func:`ddl_scope`.
    """
    if isinstance(target, StoreSession):
        target.lock_table(table)
        return
    scope = database.engine.write_path.scope
    if scope is None or scope.connection is not target:
        raise SqlError(INTERNAL, "DDL on a bare connection needs an Engine.write() in progress.")
    timeout_ms, scope.owner.timeout_ms = scope.owner.timeout_ms, 0
    try:
        database.engine.locks.lock_table(scope.owner, table.sqlite_name)
    finally:
        scope.owner.timeout_ms = timeout_ms


def replace_table(
    target: DdlTarget,
    connection: apsw.Connection,
    database: Database,
    table: Table,
    kind: str,
    command: str,
    column_id: int | None = None,
    old_type: SqlType | None = None,
    new_type: SqlType | None = None,
) -> Table:
    """Persist a changed table and log its DDL record; returns the table as stored."""
    table = replace(table, modify_ticks=database.engine.clock.now_ticks())
    log_ddl(target, database, table, kind, command, column_id, old_type, new_type)
    database.put_table(connection, table, table_to_text(table))
    return table


def log_ddl(
    target: DdlTarget,
    database: Database,
    table: Table,
    kind: str,
    command: str,
    column_id: int | None = None,
    old_type: SqlType | None = None,
    new_type: SqlType | None = None,
) -> None:
    """Write a DdlChange when the table is tracked."""
    if not table.is_tracked:
        return
    detail = (column_id, type_fields(old_type), type_fields(new_type))
    tail = (table.object_id, ACTION_DDL, kind, command, detail)
    if isinstance(target, StoreSession):
        target.log_ddl(database, tail)
        return
    scope = database.engine.write_path.scope
    if scope is None:
        raise SqlError(INTERNAL, "DDL on a bare connection needs an Engine.write() in progress.")
    records = scope.ddl_records.setdefault(database.database_id, [])
    records.append((database.log.allocator.take(), len(records) + 1, *tail))
