"""A session's transactions and statements over the store.

Uncommitted changes are kept beside the data in the session's own TEMP tables (overlay.py), so that
several write transactions are open at once, nobody sees uncommitted rows, and log order is commit
order. READ COMMITTED reads a snapshot per statement, as SQL Server does with
READ_COMMITTED_SNAPSHOT on: readers never wait. SNAPSHOT holds one read transaction. REPEATABLE READ
and SERIALIZABLE lock each table that is read, shared, until the end of the transaction: coarser
than SQL Server's key ranges, never weaker.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import apsw

from emulator.errors import SqlError
from emulator.storage.model import Table
from emulator.storage.row_writer import delete_rows, insert_rows, truncate_table, update_rows
from emulator.storage.transaction_control import TransactionControl
from emulator.storage.values import GENERATED, GivenValue
from emulator.storage.view import StatementRestart
from emulator.storage.written_ahead import visible_source

if TYPE_CHECKING:
    from emulator.storage.database import Database

__all__ = ["GENERATED", "StatementRestart", "StoreSession"]

_LOCKING_READS: Final = frozenset({"repeatable read", "serializable"})


class StoreSession(TransactionControl):
    """One login's view of the store and its changes. One thread uses it at a time."""

    @property
    def lock_timeout_ms(self) -> int:
        """SET LOCK_TIMEOUT: -1 waits without end, 0 not at all."""
        return self._owner.timeout_ms

    @lock_timeout_ms.setter
    def lock_timeout_ms(self, value: int) -> None:
        self._owner.timeout_ms = value

    @property
    def cancelled(self) -> threading.Event | None:
        """When set, a wait for a lock ends with error 3617."""
        return self._owner.cancelled

    @cancelled.setter
    def cancelled(self, value: threading.Event | None) -> None:
        self._owner.cancelled = value

    def close(self) -> None:
        """End the session; an open transaction is rolled back."""
        if self._work.active:
            self._work.rollback()
        self._work.close()
        self.connection.close()

    # -- reading ----------------------------------------------------------------------------------

    def source(self, table: Table) -> str:
        """SQLite text for FROM that shows the table as this session sees it: rid, c1, c2, ...

        Waits while another transaction holds uncommitted DDL on the table.

        Raises:
            StatementRestart: the table changed while it waited.
            SqlError: 1222, 1205, 3617; 3952 SNAPSHOT where the database does not allow it.
        """
        work = self._work
        if self.isolation != "read committed":
            self._prepare_isolated_read(table)
        scope = self.engine.scope
        if scope is not None and scope is not work.scope and scope.catalog is not None:
            self.engine.locks.wait_for_table(self._owner, table.sqlite_name)
            database = self.engine.database_by_id(table.database_id)
            if database is None or database.table_by_id(table.object_id) is not table:
                raise StatementRestart(self._owner.session_id)
        overlay = work.changed(table)
        if overlay is not None:
            return overlay.source
        return visible_source(table) if table.is_ms_shipped else f'main."{table.sqlite_name}"'

    # -- rows -------------------------------------------------------------------------------------

    def insert(self, table: Table, rows: Iterable[tuple[GivenValue, ...]]) -> list[int]:
        """Insert rows.

        Args:
            table: where.
            rows: full rows in the order of ``table.columns``; NULL for computed columns that are
                not persisted; GENERATED asks for an identity value. rowversion columns are always
                filled here.

        Returns:
            The new rows' ids, in order.

        Raises:
            SqlError: 515, 2627, 2601, 547, 1222, 1205. StatementRestart: see :meth:`statement`.
        """
        with self._within_statement():
            rids, last_identity = insert_rows(self._work, table, rows)
            if last_identity is not None:
                self.last_identity = last_identity
            return rids

    def update(self, table: Table, changes: Iterable[tuple[int, tuple[GivenValue, ...]]]) -> int:
        """Update rows.

        Args:
            table: where.
            changes: (row id, full new row). Of several for one row the first counts, as UPDATE ..
                FROM takes one of the matches.

        Returns:
            How many rows.

        Raises:
            SqlError: 515, 2627, 2601, 547, 1222, 1205, 3960. StatementRestart.
        """
        with self._within_statement():
            return update_rows(self._work, table, changes)

    def delete(self, table: Table, rids: Iterable[int]) -> int:
        """Delete rows by id, each once; returns how many.

        Raises:
            SqlError: 547, 1222, 1205, 3960. StatementRestart.
        """
        with self._within_statement():
            return delete_rows(self._work, table, rids)

    def truncate(self, table: Table) -> None:
        """TRUNCATE TABLE: no row is logged, the identity starts again.

        Raises:
            SqlError: 4711 when change data capture tracks the table, 4712 when a foreign key
                references it.
        """
        with self._within_statement():
            truncate_table(self._work, table)

    def lock_table(self, table: Table, *, shared: bool = False) -> None:
        """Lock a table until the end of the transaction (TABLOCKX; shared: TABLOCK, HOLDLOCK).

        Raises:
            SqlError: 1222, 1205, 3617.
        """
        self.engine.locks.lock_table(self._owner, table.sqlite_name, shared=shared)

    def lock_rows(self, table: Table, rids: Sequence[int]) -> None:
        """Lock rows until the end of the transaction (UPDLOCK, XLOCK), within a statement.

        Raises:
            StatementRestart: one of them is not any more what this statement read.
            SqlError: 1222, 1205, 3617, 3960.
        """
        self._work.lock_rows(table, rids)
        self._work.refuse_stale(table, self._work.overlay(table), rids)

    # -- DDL (for ddl.py) -------------------------------------------------------------------------

    @contextlib.contextmanager
    def ddl(self, tables: Iterable[Table]) -> Iterator[apsw.Connection]:
        """Run DDL: committed at once outside a transaction, else part of the transaction.

        Yields:
            :attr:`connection`, inside a write transaction.
        """
        work = self._work
        tables = tuple(tables)
        if self._depth == 0:
            with self.statement(), self.ddl(tables) as connection:
                yield connection
            return
        for table in tables:
            self.engine.locks.lock_table(self._owner, table.sqlite_name)
        work.become_exclusive([f"statement_{n}" for n in range(1, self._depth + 1)])
        for table in tables:
            work.flush_overlay(table)
        catalog = self.engine.catalog_snapshot()
        for depth in range(1, self._depth + 1):
            self._catalogs.setdefault(depth, catalog)
        yield self.connection

    def log_ddl(self, database: Database, tail: tuple[object, ...]) -> None:
        """Add a DDL record to the open transaction's log records (for ddl.py)."""
        work = self._work
        work.command_count += 1
        work.journal(database.database_id)  # its begin record comes first
        position = work.positions(database.database_id, 1)
        work.log(database.database_id, [(position, work.command_count, *tail)], 256)

    # -- inside -----------------------------------------------------------------------------------

    def _within_statement(self) -> contextlib.AbstractContextManager[object]:
        return contextlib.nullcontext() if self._depth else self.statement()

    def _prepare_isolated_read(self, table: Table) -> None:
        if not self._work.active:
            return
        if self.isolation in _LOCKING_READS:
            self.engine.locks.lock_table(self._owner, table.sqlite_name, shared=True)
        elif self.isolation == "snapshot":
            database = self.engine.database_by_id(table.database_id)
            if database is not None and not database.options.get("snapshot_isolation_state"):
                raise SqlError(
                    3952,
                    f"Snapshot isolation transaction failed accessing database '{database.name}'"
                    " because snapshot isolation is not allowed in this database. Use ALTER"
                    " DATABASE to allow snapshot isolation.",
                    aborts="transaction",
                )
            self.hold_snapshot()
