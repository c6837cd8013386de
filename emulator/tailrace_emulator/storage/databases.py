"""The server's databases in its file: loading them at start, adding and removing one."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any, Final

import apsw

from tailrace_emulator.log.transaction_log import TransactionLog
from tailrace_emulator.storage.catalog_loading import load_entry
from tailrace_emulator.storage.catalog_store import (
    delete_entry,
    entries,
    put_entry,
)
from tailrace_emulator.storage.database import FIXED_PRINCIPALS, FIXED_SCHEMAS, Database
from tailrace_emulator.values.fetching import fetch
from tailrace_emulator.values.types import DEFAULT_COLLATION

if TYPE_CHECKING:
    from tailrace_emulator.storage.database import StorageEngine

SYSTEM_DATABASES: Final = {"master": 1, "tempdb": 2, "model": 3, "msdb": 4}
FIRST_USER_DATABASE_ID: Final = 5

_CATALOG_TABLES: Final = (
    "databases",
    "catalog",
    "object_ids",
    "identity_values",
    "row_versions",
    "log_state",
    "log_transactions",
    "log_chunks",
    "written_ahead",
)


def load_databases(engine: StorageEngine, connection: apsw.Connection) -> list[Database]:
    """Every database of the file; the first start creates the system ones.

    Args:
        engine: the engine being opened.
        connection: its writer, inside a write transaction.
    """
    rows = fetch(
        connection,
        "SELECT database_id, name, create_ticks, collation, guid, recovery_fork_guid"
        " FROM databases",
    )
    known = {row[0] for row in rows}
    databases = [
        insert_database(engine, connection, name, DEFAULT_COLLATION, database_id)
        for name, database_id in SYSTEM_DATABASES.items()
        if database_id not in known
    ]
    databases += [_open_database(engine, connection, row) for row in rows]
    for database in databases:
        if database.database_id == SYSTEM_DATABASES["tempdb"]:
            _empty(connection, database)
    return databases


def insert_database(
    engine: StorageEngine,
    connection: apsw.Connection,
    name: str,
    collation: str,
    database_id: int | None = None,
) -> Database:
    """Add a database (by default with the next free id) inside a write transaction."""
    if database_id is None:
        ((highest,),) = fetch(connection, "SELECT max(database_id) FROM databases")
        database_id = max(FIRST_USER_DATABASE_ID, highest + 1)
    row = (
        database_id,
        name,
        engine.clock.now_ticks(),
        collation,
        str(uuid.uuid4()),
        str(uuid.uuid4()),
    )
    connection.execute("INSERT INTO databases VALUES (?, ?, ?, ?, ?, ?)", row)
    for schema, schema_id in FIXED_SCHEMAS.items():
        put_entry(connection, database_id, "schema", schema, json.dumps(schema_id))
    for principal, (principal_id, kind) in FIXED_PRINCIPALS.items():
        value = json.dumps([principal_id, principal, kind, []])
        put_entry(connection, database_id, "principal", principal, value)
    return _open_database(engine, connection, row)


def remove_database(connection: apsw.Connection, database: Database) -> None:
    """Drop a database's tables and everything that is known of it, inside a write transaction."""
    for table in database.tables():
        connection.execute(f'DROP TABLE IF EXISTS main."{table.sqlite_name}"')
    for name in _CATALOG_TABLES:
        connection.execute(f"DELETE FROM {name} WHERE database_id = ?", (database.database_id,))


def _empty(connection: apsw.Connection, tempdb: Database) -> None:
    """Drop what is in tempdb: it begins empty at every start."""
    for table in tempdb.tables():
        connection.execute(f'DROP TABLE IF EXISTS main."{table.sqlite_name}"')
        delete_entry(connection, tempdb.database_id, "table", str(table.object_id))
    tempdb.state.tables.clear()
    tempdb.state.names.clear()


def _open_database(
    engine: StorageEngine, connection: apsw.Connection, row: tuple[Any, ...]
) -> Database:
    database_id, name, create_ticks, collation, guid, recovery_fork_guid = row
    database = Database(
        engine,
        database_id,
        name,
        create_ticks,
        collation,
        uuid.UUID(guid),
        uuid.UUID(recovery_fork_guid),
        TransactionLog(database_id, engine.connect, engine.write),
    )
    for kind, key, text in entries(connection, database_id):
        load_entry(database.state, kind, key, text)
    return database
