"""Rows that are in a system table already but not yet there for anybody to see.

System tables may be filled in small pieces, each a short write transaction of its own, so that
commits of others pass in between. Still all of a cycle must appear at once. Therefore the first row
id that is not to be seen is noted per table before the first piece. Every reader leaves out the
rows from there on, and the transaction that publishes the cycle removes the notes. Notes are part
of the data. Whatever ends a cycle early, a kill -9 too, leaves rows that nobody sees. The next
cycle removes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import apsw

from tailrace_emulator.storage.model import Table
from tailrace_emulator.values.fetching import fetch

if TYPE_CHECKING:
    from tailrace_emulator.storage.database import Database, StorageEngine

WRITTEN_AHEAD_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS written_ahead(
  table_name TEXT PRIMARY KEY, database_id INTEGER NOT NULL, first_rid INTEGER NOT NULL)
  WITHOUT ROWID;
"""

DISCARD_ROWS: Final = 2048
"""Rows removed by one write transaction: a few milliseconds."""

_LARGEST_RID: Final = 2**63 - 1


def visible_source(table: Table) -> str:
    """SQLite text for FROM with the rows that may be seen.

    The plus sign keeps the row id from being used as an index. Any other way through the table that
    the query offers is better.
    """
    return (
        f'(SELECT * FROM main."{table.sqlite_name}" WHERE +rid < coalesce((SELECT first_rid FROM'
        f" main.written_ahead WHERE table_name = '{table.sqlite_name}'), {_LARGEST_RID}))"
    )


def begin(connection: apsw.Connection, table: Table) -> None:
    """What is added to the table from now on is not to be seen; within a write transaction."""
    connection.execute(
        "INSERT INTO written_ahead(table_name, database_id, first_rid)"
        f' SELECT ?, ?, coalesce(max(rid), 0) + 1 FROM main."{table.sqlite_name}"',
        (table.sqlite_name, table.database_id),
    )


def publish(connection: apsw.Connection, database: Database) -> None:
    """Everything in the database's tables is to be seen; within a write transaction."""
    connection.execute("DELETE FROM written_ahead WHERE database_id = ?", (database.database_id,))


def discard(engine: StorageEngine, database: Database) -> None:
    """Remove what was never published, a short write transaction at a time."""
    known = {table.sqlite_name for table in database.tables()}
    while True:
        with engine.write() as connection:
            left = fetch(
                connection,
                "SELECT table_name, first_rid FROM written_ahead WHERE database_id = ? LIMIT 1",
                (database.database_id,),
            )
            if not left:
                return
            ((name, first_rid),) = left
            removed = 0
            if name in known:
                connection.execute(
                    f'DELETE FROM main."{name}" WHERE rid IN (SELECT rid FROM main."{name}"'
                    " WHERE rid >= ? LIMIT ?)",
                    (first_rid, DISCARD_ROWS),
                )
                removed = connection.changes()
            if removed < DISCARD_ROWS:
                connection.execute("DELETE FROM written_ahead WHERE table_name = ?", (name,))


def waits(connection: apsw.Connection, database: Database) -> bool:
    """Whether the database has rows that were not published."""
    return bool(
        fetch(
            connection,
            "SELECT 1 FROM written_ahead WHERE database_id = ? LIMIT 1",
            (database.database_id,),
        )
    )
