"""SNAPSHOT isolation of a session: when its view of the data begins, and what it may not access.

A SNAPSHOT transaction sees the data as of its first access, whatever it reads first: tables of
users, change tables, cdc.lsn_time_mapping. Its view is a read transaction of SQLite. Outside of a
transaction each statement has a view of its own. Definitions have no versions: a table whose
columns somebody changed since the view began cannot be accessed in it.

https://learn.microsoft.com/sql/t-sql/statements/set-transaction-isolation-level-transact-sql
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import apsw

from tailrace_emulator import messages
from tailrace_emulator.storage.catalog_store import table_entry
from tailrace_emulator.storage.databases import SYSTEM_DATABASES
from tailrace_emulator.values.fetching import fetch

if TYPE_CHECKING:
    from tailrace_emulator.storage.database import Database
    from tailrace_emulator.storage.engine import Engine
    from tailrace_emulator.storage.model import Table
    from tailrace_emulator.storage.work import Work

SNAPSHOT: Final = "snapshot"


class Transactions(Protocol):
    """The session's transactions, as far as SNAPSHOT isolation concerns them."""

    engine: Engine
    connection: apsw.Connection
    work: Work
    isolation: str
    trancount: int
    depth: int


class SnapshotIsolation:
    """What SNAPSHOT isolation requires of one session's statements."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions
        self._began_under: str | None = None
        """The isolation level at the open transaction's first access; None before it."""
        self._known: dict[tuple[int, int], Table] = {}
        """Tables that are as they were when the view began, by ids of database and object."""

    def begin_transaction(self) -> None:
        """A transaction begins; it has accessed nothing yet."""
        self._began_under = None

    def begin_access(self) -> None:
        """A statement of the session is about to access data, whosever."""
        transactions = self._transactions
        if not transactions.trancount:
            return
        self._began_under = self._began_under or transactions.isolation
        if transactions.isolation == self._began_under == SNAPSHOT:
            self._hold()

    def access(self, table: Table) -> None:
        """A statement under SNAPSHOT is about to read or change a table.

        Raises:
            SqlError: 3951, 3952 as :meth:`access_database`; 3961 the table's columns have changed.
        """
        database = self._transactions.engine.database_by_id(table.database_id)
        if database is None:
            return
        self.access_database(database)
        view = self._transactions.work.view
        key = table.database_id, table.object_id
        if not view.snapshot or _is_system(database) or self._known.get(key) is table:
            return
        then = table_entry(self._transactions.connection, table)
        if then is None or then.columns != table.columns:
            raise messages.error(3961, database.name)
        self._known[key] = table

    def access_database(self, database: Database) -> None:
        """A statement is about to access data of a database.

        Raises:
            SqlError: under SNAPSHOT: 3952 the database does not allow it, 3951 the transaction
                began under another level.
        """
        transactions = self._transactions
        if transactions.isolation == SNAPSHOT and not _is_system(database):
            if not database.options.get("snapshot_isolation_state"):
                raise messages.error(3952, database.name)
            if transactions.trancount and self._began_under not in {None, SNAPSHOT}:
                raise messages.error(3951, database.name)
        self.begin_access()

    def _hold(self) -> None:
        """Begin the view, if there is none and nothing is in its way."""
        transactions = self._transactions
        work, connection = transactions.work, transactions.connection
        if work.view.snapshot or work.view.scope is not None or transactions.depth:
            return
        if connection.txn_state("main") == apsw.SQLITE_TXN_NONE:
            work.view.read_sequence = transactions.engine.write_path.commit_sequence
        work.outer_mark = work.mark()
        connection.execute("BEGIN")
        fetch(connection, "SELECT 1 FROM main.databases LIMIT 1")
        work.view.snapshot = True
        self._known.clear()


def _is_system(database: Database) -> bool:
    """Whether it is a database of the server's own: they allow SNAPSHOT isolation."""
    return database.database_id in SYSTEM_DATABASES.values()
