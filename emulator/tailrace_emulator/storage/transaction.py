"""A session's transactions and statements over the store.

Uncommitted changes are next to the data in the session's own TEMP tables (overlay.py). So several
write transactions are open at once, nobody sees uncommitted rows, and log order is commit order.
What reading waits for and locks: read_locks.py.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import apsw

from tailrace_emulator.storage.lock_state import LockOwner
from tailrace_emulator.storage.lookups import DefinitionsChanged
from tailrace_emulator.storage.model import Table
from tailrace_emulator.storage.read_locks import ReadLocks
from tailrace_emulator.storage.row_writer import (
    delete_rows,
    insert_rows,
    truncate_table,
    update_rows,
)
from tailrace_emulator.storage.session_view import StatementRestart
from tailrace_emulator.storage.snapshot_isolation import SNAPSHOT
from tailrace_emulator.storage.table_plan import Row
from tailrace_emulator.storage.transaction_control import TransactionControl
from tailrace_emulator.storage.values import GENERATED, GivenValue

if TYPE_CHECKING:
    from tailrace_emulator.storage.database import Database
    from tailrace_emulator.storage.engine import Engine

__all__ = ["GENERATED", "StatementRestart", "StoreSession"]


class StoreSession(TransactionControl):
    """One login's view of the store and its changes. One thread uses it at a time.

    Attributes:
        reads: how it reads tables.
    """

    def __init__(self, engine: Engine, session_id: int = 0) -> None:
        """Open a session.

        Args:
            session_id: shown in deadlock messages (@@SPID).
        """
        super().__init__(engine, session_id)
        self.reads = ReadLocks(self)

    @property
    def lock_timeout_ms(self) -> int:
        """SET LOCK_TIMEOUT: -1 waits without end, 0 not at all."""
        return self.owner.timeout_ms

    @lock_timeout_ms.setter
    def lock_timeout_ms(self, value: int) -> None:
        self.owner.timeout_ms = value

    @property
    def deadlock_priority(self) -> int:
        """SET DEADLOCK_PRIORITY: -10 to 10; the lowest is the victim."""
        return self.owner.priority

    @deadlock_priority.setter
    def deadlock_priority(self, value: int) -> None:
        self.owner.priority = value

    @property
    def cancelled(self) -> threading.Event | None:
        """When set, a wait for a lock ends with error 3617."""
        return self.owner.cancelled

    @cancelled.setter
    def cancelled(self, value: threading.Event | None) -> None:
        self.owner.cancelled = value

    def close(self) -> None:
        """End the session; an open transaction is rolled back."""
        if self.work.active:
            self.work.rollback()
        self.application_locks.close()
        self.work.view.close()
        self.connection.close()

    # -- rows -------------------------------------------------------------------------------------

    def insert(self, table: Table, rows: Iterable[tuple[GivenValue, ...]]) -> list[int]:
        """Insert rows.

        Args:
            rows: full rows in the order of ``table.columns``; NULL for computed columns that are
                not persisted; GENERATED requests an identity value. rowversion columns are always
                filled here.

        Returns:
            The new rows' ids, in order.

        Raises:
            SqlError: 515, 2627, 2601, 547, 1222, 1205; 3951, 3952, 3961 under SNAPSHOT.
            StatementRestart: it has to run again, see :meth:`statement`.
        """
        with self._within_statement():
            if self.isolation == SNAPSHOT:
                self.snapshots.access(table)
            rids, last_identity = insert_rows(self.work, table, rows)
            if last_identity is not None:
                self.last_identity = last_identity
            return rids

    def update(
        self,
        table: Table,
        changes: Iterable[tuple[int, tuple[GivenValue, ...]]],
        assigned: Collection[int] = (),
    ) -> int:
        """Update rows.

        Args:
            changes: (row id, full new row). Of several for one row the first counts, as UPDATE ..
                FROM takes one of the matches.
            assigned: positions of the columns that the statement sets. With a key among them each
                row is a DELETE and an INSERT in the log, also if its value stays.

        Returns:
            How many rows.

        Raises:
            SqlError: 515, 2627, 2601, 547, 1222, 1205, 3960. StatementRestart.
        """
        with self._within_statement():
            return update_rows(self.work, table, changes, assigned)

    def delete(self, table: Table, rids: Iterable[int]) -> int:
        """Delete rows by id, each once; returns how many.

        Raises:
            SqlError: 547, 1222, 1205, 3960. StatementRestart.
        """
        with self._within_statement():
            return delete_rows(self.work, table, rids)

    def truncate(self, table: Table) -> None:
        """TRUNCATE TABLE: no row is logged, the identity starts again.

        Raises:
            SqlError: 4711 when the table is tracked, 4712 when a foreign key
                references it.
        """
        with self._within_statement():
            truncate_table(self.work, table)

    @property
    def lock_owner(self) -> LockOwner:
        """Who holds the session's locks."""
        return self.owner

    def own_images(self, table: Table) -> dict[int, Row]:
        """The rows that the open transaction has inserted or updated, by row id."""
        overlay = self.work.view.changed(table)
        return {} if overlay is None else overlay.images()

    def take_away_images(self, table: Table, rids: Sequence[int]) -> None:
        """Forget the open transaction's changes of rows that are not there any more."""
        overlay = self.work.view.changed(table)
        if overlay is not None:
            images = overlay.images()
            overlay.take_away([rid for rid in rids if rid in images])

    def reset_identity(self, table: Table) -> None:
        """Let the identity of a locked table begin again, unless that is rolled back."""
        self.work.reset_identity(table)

    def lock_table(self, table: Table) -> None:
        """Lock a table until the end of the transaction.

        Raises:
            SqlError: 1222 lock timeout, 1205 deadlock victim, 3617 cancelled.
        """
        self.engine.locks.lock_table(self.owner, table.sqlite_name)

    def lock_rows(self, table: Table, rids: Sequence[int]) -> None:
        """Lock rows until the end of the transaction (UPDLOCK, XLOCK), within a statement.

        Raises:
            StatementRestart: one of them is not any more what this statement read.
            SqlError: 1222, 1205, 3617, 3960.
        """
        self.work.view.lock_rows(table, rids)
        self.work.view.refuse_stale(table, self.work.view.overlay(table), rids)

    # -- DDL (for ddl.py) -------------------------------------------------------------------------

    @contextlib.contextmanager
    def ddl(self, tables: Iterable[Table]) -> Iterator[apsw.Connection]:
        """Run DDL: committed at once outside a transaction, else part of the transaction.

        Yields:
            :attr:`connection`, inside a write transaction.

        Raises:
            DefinitionsChanged: the statement is to begin again; nothing is changed.
            SqlError: 1222 lock timeout, 1205 deadlock victim, 3617 cancelled.
        """
        work = self.work
        tables = tuple(tables)
        if self.depth == 0:
            with self.statement(), self.ddl(tables) as connection:
                yield connection
            return
        begins = work.view.scope is None
        for table in tables:
            self.engine.locks.lock_table(self.owner, table.sqlite_name)
        work.become_exclusive([f"statement_{n}" for n in range(1, self.depth + 1)])
        if begins and self.lookups.have_changed():
            raise DefinitionsChanged(self.owner.session_id)
        self.lookups.forget()  # what changes from here on is the statement's own doing
        for table in tables:
            work.flush_overlay(table)
        catalog = self.engine.write_path.catalog_snapshot()
        for depth in range(1, self.depth + 1):
            self._catalogs.setdefault(depth, catalog)
        yield self.connection

    def log_ddl(self, database: Database, tail: tuple[object, ...]) -> None:
        """Add a DDL record to the open transaction's log records (for ddl.py)."""
        work = self.work
        work.command_count += 1
        work.journal(database.database_id)  # its begin record comes first
        position = work.positions(database.database_id, 1)
        work.log(database.database_id, [(position, work.command_count, *tail)], 256)

    # -- inside -----------------------------------------------------------------------------------

    def _within_statement(self) -> contextlib.AbstractContextManager[object]:
        return contextlib.nullcontext() if self.depth else self.statement()
