"""The engine: the SQLite file, its databases, and the one path by which anything is written.

One file holds every database of the server, so a transaction over two databases is one SQLite
transaction. Readers use their own connections and never block (WAL). Writers pass one at a time
through a first-come lock. What they do there is short, because a session's uncommitted changes wait
in TEMP tables (see transaction.py).
"""

from __future__ import annotations

import fcntl
import itertools
import threading
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Final

import apsw

from tailrace_emulator import messages
from tailrace_emulator.log.transaction_log import LOG_SCHEMA, complete_schema
from tailrace_emulator.storage.catalog_store import SERVER_SCHEMA
from tailrace_emulator.storage.collation import ORDER_VERSION, register_collations
from tailrace_emulator.storage.database import Database
from tailrace_emulator.storage.databases import (
    SYSTEM_DATABASES,
    insert_database,
    load_databases,
    remove_database,
)
from tailrace_emulator.storage.encoded_rows import RowEncoding
from tailrace_emulator.storage.extensions import Extension, Part
from tailrace_emulator.storage.identity import IdentityValues, RowVersions
from tailrace_emulator.storage.locks import LockManager
from tailrace_emulator.storage.model import Table
from tailrace_emulator.storage.older_orders import rename_orders
from tailrace_emulator.storage.sequence_values import SequenceValues
from tailrace_emulator.storage.write_path import WritePath
from tailrace_emulator.storage.write_scope import WriteScope
from tailrace_emulator.storage.written_ahead import WRITTEN_AHEAD_SCHEMA
from tailrace_emulator.values.clock import Clock, ManualClock, SystemClock
from tailrace_emulator.values.fetching import fetch
from tailrace_emulator.values.types import DEFAULT_COLLATION

__all__ = ["Clock", "Database", "Engine", "ManualClock", "SystemClock", "WriteScope"]

BUSY_TIMEOUT_MS: Final = 10_000
"""SQLite's own wait; only a checkpoint can make a connection meet it, as writers queue before."""

WAL_KEPT_BYTES: Final = 64 * 1024 * 1024
"""A write-ahead log that one huge commit made longer is cut back to this by the next checkpoint."""

_GONE_KEPT: Final = 256
"""How many tables are dropped before what is kept of one by name goes."""

CACHE_KIB: Final = 16_384
"""Page cache per connection and per TEMP database."""


class DataDirectoryInUse(RuntimeError):
    """Another server process has this data directory open."""


class Engine:
    """A server's storage: one per process, thread-safe."""

    def __init__(self, data_dir: Path, clock: Clock, extension: Extension | None = None) -> None:
        """Open (or create) ``data_dir``/server.db and load the catalog.

        Args:
            data_dir: directory of the server's files; created when missing.
            clock: where transaction times come from.
            extension: what stands on the engine; of this engine only.

        Raises:
            DataDirectoryInUse: another process uses it already.
        """
        data_dir.mkdir(parents=True, exist_ok=True)
        self.data_dir = data_dir
        self.extension = extension or Extension()
        self.connection_hooks: list[Callable[[apsw.Connection], None]] = []
        """Called with each new connection: for registering SQL functions."""
        self.row_encoding: RowEncoding | None = None
        """Encodes the rows that some tables keep for clients."""
        self.abandoned_tables: set[int] = set()
        """Object ids of tempdb's tables whose session has ended, which are still to be dropped."""
        self._by_id: dict[int, Database] = {}
        self._descriptors = itertools.count(0x1_0000_0001)
        self._path = data_dir / "server.db"
        self._lock_file = _lock_directory(data_dir)
        self._rids: dict[str, int] = {}
        self._rids_lock = threading.Lock()
        self._gone: deque[Table] = deque()
        """Dropped tables of which something is still kept."""
        self._writer = self.connect()
        self.clock = clock
        self.locks = LockManager()
        self.databases: dict[str, Database] = {}
        """By name, casefolded."""
        self.write_path = WritePath(
            self._writer, clock, self.locks, lambda: list(self.databases.values())
        )
        fetch(self._writer, "PRAGMA journal_mode = WAL")
        with self.write() as connection:
            connection.execute(SERVER_SCHEMA + LOG_SCHEMA + WRITTEN_AHEAD_SCHEMA)
            complete_schema(connection)
            _renew_order(connection)
        self.identities = IdentityValues(self._writer)
        self.row_versions = RowVersions(self._writer)
        self.sequences = SequenceValues(self._writer)
        with self.write() as connection:
            self._publish(load_databases(self, connection))
            for database in self.databases.values():
                self.extension.opened(connection, database)

    @property
    def extension_schemas(self) -> frozenset[str]:
        """Schemas that the extension makes in databases, casefolded."""
        return self.extension.schemas

    def part(self, kind: type[Part]) -> Part:
        """What the extension adds to something, or keeps for it."""
        return self.extension.part(kind)

    def write(self, *tables: Table) -> AbstractContextManager[apsw.Connection]:
        """Everything inside is one SQLite transaction: see :meth:`WritePath.write`."""
        return self.write_path.write(*tables)

    # -- connections ----------------------------------------------------------------------------

    def connect(self) -> apsw.Connection:
        """A new connection with the collations and every function that a hook registers."""
        connection = apsw.Connection(str(self._path), statementcachesize=1024)
        connection.set_busy_timeout(BUSY_TIMEOUT_MS)
        for setting in (
            "synchronous = NORMAL",
            f"cache_size = -{CACHE_KIB}",
            f"temp.cache_size = -{CACHE_KIB}",
            "temp_store = FILE",
            f"journal_size_limit = {WAL_KEPT_BYTES}",
        ):
            fetch(connection, f"PRAGMA {setting}")
        register_collations(connection)
        for hook in self.connection_hooks:
            hook(connection)
        return connection

    # -- databases ------------------------------------------------------------------------------

    def database(self, name: str) -> Database:
        """The database of that name, case-insensitively.

        Raises:
            SqlError: 911 when there is none.
        """
        found = self.databases.get(name.casefold())
        if found is None:
            raise messages.error(911, name)
        return found

    def database_by_id(self, database_id: int) -> Database | None:
        """The database of that id, or None."""
        return self._by_id.get(database_id)

    def create_database(self, name: str, collation: str = DEFAULT_COLLATION) -> Database:
        """Create a database.

        Raises:
            SqlError: 1801 when the name is taken; 226 in a transaction with DDL.
        """
        self._refuse_in_transaction("CREATE DATABASE")
        with self.write() as connection:
            if name.casefold() in self.databases:
                raise messages.error(1801, name)
            database = insert_database(self, connection, name, collation)
        self._publish([*self.databases.values(), database])
        return database

    def drop_database(self, name: str) -> None:
        """Drop a database with everything in it.

        Raises:
            SqlError: 3701 when it does not exist, 3708 when it is a system database.
        """
        database = self.databases.get(name.casefold())
        if database is None:
            raise messages.error(3701, "drop", "database", name, state=1)
        if name.casefold() in SYSTEM_DATABASES:
            raise messages.error(3708, "drop", "database", name, "database")
        self._refuse_in_transaction("DROP DATABASE")
        with self.write() as connection:
            self.extension.dropping_database(connection, database)
            remove_database(connection, database)
        self._publish([d for d in self.databases.values() if d is not database])
        for table in database.tables():
            self.forget_table(table)
        self.identities.forget_database(database.database_id)
        self.sequences.forget_database(database.database_id)
        self.row_versions.forget_database(database.database_id)
        database.version += 1
        database.log.close()

    def rename_database(self, name: str, new_name: str) -> None:
        """Rename a database (ALTER DATABASE .. MODIFY NAME).

        Args:
            new_name: what it is called from now on.

        Raises:
            SqlError: 911 when it does not exist, 1801 when the new name is taken, 5016 when it is a
                system database.
        """
        database = self.database(name)
        if name.casefold() in SYSTEM_DATABASES:
            raise messages.error(5016, database.name)
        self._refuse_in_transaction("ALTER DATABASE")
        with self.write() as connection:
            if new_name.casefold() in self.databases and new_name.casefold() != name.casefold():
                raise messages.error(1801, new_name, state=1)
            self.extension.renaming_database(connection, database)
            connection.execute(
                "UPDATE databases SET name = ? WHERE database_id = ?",
                (new_name, database.database_id),
            )
        database.state.name = new_name
        database.version += 1
        self._publish(list(self.databases.values()))

    def _refuse_in_transaction(self, statement: str) -> None:
        """Databases come and go at once, or not at all."""
        if self.write_path.joins_write():
            raise messages.error(226, statement, state=1)

    def _publish(self, databases: list[Database]) -> None:
        """Replace both maps at once: readers in other threads see the old ones or the new ones."""
        self._by_id = {d.database_id: d for d in databases}
        self.databases = {d.name.casefold(): d for d in databases}

    # -- what sessions share --------------------------------------------------------------------

    def next_descriptor(self) -> int:
        """A transaction descriptor, unique in this process."""
        return next(self._descriptors)

    def take_rids(self, table: Table, count: int, connection: apsw.Connection) -> int:
        """Reserve ``count`` consecutive row ids of a table and return the first.

        Row ids are never given twice, so rows that sessions insert at the same time do not meet.
        Tables that are ``is_ms_shipped`` are also written past this: those are asked each time.
        """
        name = table.sqlite_name
        with self._rids_lock:
            first = self._rids.get(name)
            if first is None or table.is_ms_shipped:
                ((highest,),) = fetch(
                    connection, f'SELECT coalesce(max(rid), 0) FROM main."{name}"'
                )
                first = max(first or 0, highest + 1)
            self._rids[name] = first + count
            return first

    def forget_table(self, table: Table) -> None:
        """A table is dropped for good: what is kept of it by name goes, a while later.

        A statement that began before may still look for it, and then finds that it is gone.
        """
        self.identities.reseed(table, None)
        gone = self._gone
        with self._rids_lock:
            gone.append(table)
            for _ in range(2):  # one more than came, for those that were held
                if len(gone) <= _GONE_KEPT:
                    break
                oldest = gone.popleft()
                database = self.database_by_id(oldest.database_id)
                if database is not None and database.table_by_id(oldest.object_id) is not None:
                    continue  # another database took the id, another table the name
                name = oldest.sqlite_name
                if self.locks.forget(name):
                    self._rids.pop(name, None)
                    self.write_path.table_sequences.pop(name, None)
                else:
                    gone.append(oldest)

    def close(self) -> None:
        """Stop: waiting sessions get an error, connections close, the files are released."""
        self.locks.close()
        for database in self.databases.values():
            database.log.close()
        self._writer.close()
        self._lock_file.close()


def _renew_order(connection: apsw.Connection) -> None:
    """Build the indexes of a file again whose texts were ordered by older rules."""
    ((version,),) = fetch(connection, "PRAGMA user_version")
    if version != ORDER_VERSION:
        rename_orders(connection)
        connection.execute(f"REINDEX; PRAGMA user_version = {ORDER_VERSION}")


def _lock_directory(data_dir: Path) -> IO[str]:
    handle = (data_dir / "server.lock").open("w")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        handle.close()
        raise DataDirectoryInUse(
            f"The data directory {data_dir} is in use by another server. Stop that server or choose"
            " another directory."
        ) from error
    return handle
