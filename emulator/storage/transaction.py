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
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Final, TypeVar

import apsw

from emulator.errors import SqlError
from emulator.log.query import fetch
from emulator.storage.locks import LockOwner
from emulator.storage.model import Table
from emulator.storage.row_writer import delete_rows, insert_rows, truncate_table, update_rows
from emulator.storage.values import GENERATED, GivenValue
from emulator.storage.view import StatementRestart
from emulator.storage.work import Work, WorkMark

if TYPE_CHECKING:
    from emulator.storage.database import CatalogState, Database
    from emulator.storage.engine import Engine

__all__ = ["GENERATED", "StatementRestart", "StoreSession"]

Result = TypeVar("Result")

RESTARTS_MAX: Final = 50
"""A statement repeated this often meets a table under constant change; then the client decides."""

_LOCKING_READS: Final = frozenset({"repeatable read", "serializable"})


class StoreSession:
    """One login's transactions. Not thread-safe: one thread uses it at a time."""

    def __init__(self, engine: Engine, session_id: int = 0) -> None:
        """Open a session.

        Args:
            engine: the server's storage.
            session_id: shown in deadlock messages (@@SPID).
        """
        self.engine = engine
        self.connection = engine.connect()
        """Compiled SELECTs run here; the session's own TEMP tables live here."""
        self.trancount = 0
        self.descriptor = 0
        """The open transaction's descriptor, 0 outside."""
        self.last_identity: int | None = None
        """The identity value generated last (@@IDENTITY)."""
        self.isolation = "read committed"
        """SET TRANSACTION ISOLATION LEVEL, lower case."""
        self._owner = LockOwner(session_id)
        self._work = Work(engine, self.connection, self._owner)
        self._depth = 0
        self._keep_locks = False
        self._outer_trancount = 0
        """How many transactions were open when the outermost statement began."""
        self._catalogs: dict[int, dict[int, CatalogState]] = {}
        """Schema objects as they were before DDL, by the depth of the statement it is in."""

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

    # -- transactions -----------------------------------------------------------------------------

    def begin(self) -> None:
        """BEGIN TRANSACTION; nested ones only count."""
        if self.trancount == 0:
            if not self._work.active:
                self._work.begin(self.engine.clock.now_ticks())
            self.descriptor = self.engine.next_descriptor()
        self.trancount += 1

    def commit(self) -> bytes | None:
        """COMMIT TRANSACTION: the outermost one commits.

        Returns:
            The commit LSN when the transaction logged anything, else None.

        Raises:
            SqlError: 3902 outside a transaction; 3916 inside a statement that did not begin one.
                Any other error has rolled back the transaction.
        """
        if self.trancount == 0:
            raise SqlError(
                3902, "The COMMIT TRANSACTION request has no corresponding BEGIN TRANSACTION."
            )
        if self.trancount <= self._outer_trancount:
            raise SqlError(
                3916,
                "Cannot use the COMMIT statement within an INSERT-EXEC statement unless BEGIN"
                " TRANSACTION is used first.",
                state=0,
            )
        if self.trancount > 1 or self._depth:
            self.trancount -= 1
            return None
        try:
            return self._work.commit()
        except BaseException:
            self._work.rollback()
            raise
        finally:
            self.trancount = 0
            self.descriptor = 0

    def rollback(self) -> None:
        """ROLLBACK TRANSACTION: everything, whatever the nesting.

        Raises:
            SqlError: 3903 outside a transaction, 3915 inside a statement (INSERT .. EXEC).
        """
        if self.trancount == 0:
            raise SqlError(
                3903, "The ROLLBACK TRANSACTION request has no corresponding BEGIN TRANSACTION."
            )
        if self._depth:
            raise SqlError(
                3915, "Cannot use the ROLLBACK statement within an INSERT-EXEC statement.", state=0
            )
        self.trancount = 0
        self.descriptor = 0
        self._work.rollback()

    def savepoint(self, name: str) -> None:
        """SAVE TRANSACTION name.

        Raises:
            SqlError: 628 outside a transaction.
        """
        if self.trancount == 0:
            raise SqlError(
                628, "Cannot issue SAVE TRANSACTION when there is no active transaction.", state=0
            )
        self._work.savepoint(name)

    def rollback_to(self, name: str) -> None:
        """ROLLBACK TRANSACTION to the newest savepoint of that name; locks stay.

        Raises:
            SqlError: 3903 outside a transaction, 6401 unknown savepoint.
        """
        if self.trancount == 0:
            raise SqlError(
                3903, "The ROLLBACK TRANSACTION request has no corresponding BEGIN TRANSACTION."
            )
        if not self._work.rollback_to(name):
            raise SqlError(
                6401,
                f"Cannot roll back {name}. No transaction or savepoint of that name was found.",
            )

    # -- statements -------------------------------------------------------------------------------

    def statement(self, kind: str = "") -> Statement:
        """Atomicity of one statement: ``with store.statement(): ...``.

        An exception undoes the statement's changes; outside a transaction its end commits. Reads
        on :attr:`connection` share one snapshot. A :class:`StatementRestart` that passes asks for
        the statement to be run again, reading included: :meth:`run` does that.

        Args:
            kind: INSERT, UPDATE, DELETE or MERGE for messages; empty: the operation's own name.
        """
        return Statement(self, kind)

    def run(self, body: Callable[[], Result], kind: str = "") -> Result:
        """Run ``body`` as one statement, again when what it read went stale under it.

        Args:
            body: reads on :attr:`connection` and calls insert, update, delete; may run repeatedly.
            kind: see :meth:`statement`.
        """
        # Locks of an attempt stay for the next one: what it met locked it finds unchanged.
        self._keep_locks = True
        try:
            for _ in range(RESTARTS_MAX):
                with contextlib.suppress(StatementRestart), self.statement(kind):
                    return body()
            with self.statement(kind):
                return body()
        finally:
            self._keep_locks = False
            if not self._work.active:
                self.engine.locks.release(self._owner)

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
        return f'main."{table.sqlite_name}"' if overlay is None else overlay.source

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
            self._hold_snapshot()

    def _hold_snapshot(self) -> None:
        """The first access of a SNAPSHOT transaction begins its read transaction."""
        work = self._work
        if work.snapshot or work.scope is not None or self.trancount == 0 or self._depth:
            return
        work.read_sequence = self.engine.commit_sequence
        work.outer_mark = work.mark()
        self.connection.execute("BEGIN")
        fetch(self.connection, "SELECT 1 FROM main.databases LIMIT 1")
        work.snapshot = True

    def enter_statement(self, kind: str) -> tuple[bool, WorkMark]:
        """For :class:`Statement`: returns whether it autocommits, and where the work stands."""
        work = self._work
        implicit = not work.active
        if implicit:
            work.begin(self.engine.clock.now_ticks())
        if self.isolation == "snapshot":
            self._hold_snapshot()
        if not work.snapshot and self._depth == 0:
            work.read_sequence = self.engine.commit_sequence
        mark = work.mark()
        if not self.connection.in_transaction:
            work.outer_mark = mark
        if self._depth == 0:
            self._outer_trancount = self.trancount
        self._depth += 1
        self.connection.execute(f"SAVEPOINT statement_{self._depth}")
        work.statement_kind = kind
        return implicit, mark

    def leave_statement(self, mark: WorkMark, *, implicit: bool, failed: bool) -> None:
        """For :class:`Statement`: keep or undo what the statement did."""
        work = self._work
        name = f"statement_{self._depth}"
        catalog = self._catalogs.pop(self._depth, None)
        self._depth -= 1
        if self._depth == 0:
            self._outer_trancount = 0
        if not failed:
            self.connection.execute(f"RELEASE {name}")
            # A BEGIN TRANSACTION inside (INSERT .. EXEC) leaves the statement's work in its hands.
            if implicit and self.trancount == 0:
                try:
                    work.commit()
                except BaseException:
                    work.rollback()
                    raise
        elif implicit:
            self.trancount = 0
            self.descriptor = 0
            work.rollback(keep_locks=self._keep_locks)
        else:
            self.connection.execute(f"ROLLBACK TO {name}")
            self.connection.execute(f"RELEASE {name}")
            work.restore(mark)
            if catalog is not None:
                self.engine.restore_catalog(catalog)


class Statement:
    """The context manager of :meth:`StoreSession.statement`."""

    __slots__ = ("_implicit", "_kind", "_mark", "_session")

    def __init__(self, session: StoreSession, kind: str) -> None:
        self._session = session
        self._kind = kind

    def __enter__(self) -> None:
        """The statement begins."""
        self._implicit, self._mark = self._session.enter_statement(self._kind)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """The statement ends: kept, or undone when an exception passes."""
        self._session.leave_statement(self._mark, implicit=self._implicit, failed=error is not None)
