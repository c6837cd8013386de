"""IDENTITY values and rowversions.

Both are handed out from memory and never taken back: a rollback leaves a gap, as in SQL Server. A
commit that used some persists the newest value, so no committed value comes twice after a crash.
(SQL Server may jump by 1,000 after a crash; this does not.)
"""

from __future__ import annotations

import threading
from typing import Final

import apsw

from tailrace_emulator.storage.model import Identity, Table

FIRST_ROW_VERSION: Final = 2000
"""@@DBTS of a new database (0x7D0)."""


class IdentityValues:
    """The current identity value of every table; thread-safe."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._lock = threading.Lock()
        self._last: dict[tuple[int, int], int] = {
            (database_id, object_id): value
            for database_id, object_id, value in connection.execute(
                "SELECT database_id, object_id, last_value FROM identity_values"
            )
        }

    def take(self, table: Table, identity: Identity, count: int) -> int:
        """Reserve ``count`` values and return the first; the next are ``increment`` apart."""
        key = (table.database_id, table.object_id)
        with self._lock:
            last = self._last.get(key)
            first = identity.seed if last is None else last + identity.increment
            self._last[key] = first + (count - 1) * identity.increment
            return first

    def saw(self, table: Table, identity: Identity, value: int) -> None:
        """Continue after an explicit value that was inserted (IDENTITY_INSERT)."""
        key = (table.database_id, table.object_id)
        with self._lock:
            last = self._last.get(key)
            ahead = last is None or (value > last if identity.increment > 0 else value < last)
            if ahead:
                self._last[key] = value

    def current(self, table: Table) -> int | None:
        """IDENT_CURRENT before its first use is the seed; here None."""
        return self._last.get((table.database_id, table.object_id))

    def reseed(self, table: Table, value: int | None) -> None:
        """DBCC CHECKIDENT(.., RESEED, value); None: as if never used (TRUNCATE TABLE)."""
        key = (table.database_id, table.object_id)
        with self._lock:
            if value is None:
                self._last.pop(key, None)
            else:
                self._last[key] = value

    def begin(self, connection: apsw.Connection, table: Table) -> None:
        """A table has a new identity column, whose first value is its seed.

        What a table that was rolled back has left under the same id goes.

        Args:
            connection: inside a write transaction.
        """
        self.reseed(table, None)
        self.persist(connection, table)

    def forget_database(self, database_id: int) -> None:
        """A database is gone: the next one may get its id, and its tables the same ids."""
        with self._lock:
            self._last = {key: v for key, v in self._last.items() if key[0] != database_id}

    def persist(self, connection: apsw.Connection, table: Table) -> None:
        """Write the table's value, inside a write transaction."""
        key = (table.database_id, table.object_id)
        value = self._last.get(key)
        if value is None:
            connection.execute(
                "DELETE FROM identity_values WHERE database_id = ? AND object_id = ?", key
            )
        else:
            connection.execute(
                "INSERT INTO identity_values VALUES (?, ?, ?)"
                " ON CONFLICT DO UPDATE SET last_value = excluded.last_value",
                (*key, value),
            )


class RowVersions:
    """The rowversion counter (@@DBTS) of every database; thread-safe."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._lock = threading.Lock()
        self._last: dict[int, int] = dict(
            connection.execute("SELECT database_id, last_value FROM row_versions")
        )

    def take(self, database_id: int, count: int) -> int:
        """Reserve ``count`` consecutive values and return the first."""
        with self._lock:
            last = self._last.get(database_id, FIRST_ROW_VERSION)
            self._last[database_id] = last + count
            return last + 1

    def current(self, database_id: int) -> int:
        """@@DBTS as a number; its value is these 8 bytes, big-endian."""
        return self._last.get(database_id, FIRST_ROW_VERSION)

    def forget_database(self, database_id: int) -> None:
        """A database is gone: the next one may get its id."""
        with self._lock:
            self._last.pop(database_id, None)

    def persist(self, connection: apsw.Connection, database_id: int) -> None:
        """Write the counter, inside a write transaction."""
        connection.execute(
            "INSERT INTO row_versions VALUES (?, ?)"
            " ON CONFLICT DO UPDATE SET last_value = excluded.last_value",
            (database_id, self.current(database_id)),
        )
