"""The write path: one writer at a time, one SQLite transaction per pass, DDL that can be undone."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import apsw

from tailrace_emulator.messages.errors import INTERNAL, Aborts, SqlError
from tailrace_emulator.storage.locks import LockManager, LockOwner
from tailrace_emulator.storage.model import Table
from tailrace_emulator.storage.write_scope import CatalogSnapshot, Effect, WriteScope
from tailrace_emulator.values.clock import Clock

if TYPE_CHECKING:
    from tailrace_emulator.storage.database import Database


class WritePath:
    """The one path by which anything is written."""

    def __init__(
        self,
        writer: apsw.Connection,
        clock: Clock,
        locks: LockManager,
        databases: Callable[[], Iterable[Database]],
    ) -> None:
        """Begin.

        Args:
            writer: the connection for writes that belong to no session.
            clock: where transaction times come from.
            locks: the write lock among them.
            databases: all that there are now.
        """
        self._clock = clock
        self._locks = locks
        self._databases = databases
        self.commit_sequence = 0
        """Counts commits; a statement remembers it to see whether what it read is stale."""
        self.table_sequences: dict[str, int] = {}
        """By SQLite table name, the commit that changed a table last."""
        self._writer = writer
        self._scope: WriteScope | None = None

    @contextlib.contextmanager
    def write(self, *tables: Table) -> Iterator[apsw.Connection]:
        """The serialised write path: everything inside is one SQLite transaction.

        Within a write of the same thread (also a session's open transaction with DDL) it joins
        that one: the outer end commits.

        Args:
            tables: first wait until no session has uncommitted changes of these, and keep them
                locked; DDL on a table with such changes is refused otherwise.

        Yields:
            The connection to write with, inside BEGIN IMMEDIATE.
        """
        scope = self._scope
        if scope is not None and scope.thread == threading.get_ident():
            effect_count = len(scope.effects)
            try:
                with _savepoint(scope.connection, "joined"):
                    yield scope.connection
            except BaseException:
                del scope.effects[effect_count:]
                raise
            return
        owner = LockOwner()
        try:
            for table in tables:
                self._locks.lock_table(owner, table.sqlite_name)
            scope = self.begin_write(self._writer, owner)
        except BaseException:
            self._locks.release(owner)
            raise
        try:
            yield scope.connection
            self.log_ddl(scope)
            self._writer.execute("COMMIT")
        except BaseException:
            self.abandon_write(scope)
            raise
        self.end_write(scope)
        for effect in scope.effects:
            effect()

    def begin_write(self, connection: apsw.Connection, owner: LockOwner) -> WriteScope:
        """Take the write lock and BEGIN IMMEDIATE on ``connection`` (for transaction.py)."""
        if self.joins_write():
            raise SqlError(
                INTERNAL,
                "A transaction was about to wait for a write of its own thread. Commit it outside"
                " of Engine.write().",
            )
        self._locks.acquire_write(owner)
        try:
            connection.execute("BEGIN IMMEDIATE")
        except apsw.BusyError as error:
            self._locks.release_write(owner)
            raise SqlError(
                INTERNAL,
                "A transaction was about to commit while a result set of its session is still being"
                " read, whose data is not current any more. Read it to its end, or close it.",
                aborts=Aborts.TRANSACTION,
            ) from error
        except apsw.Error:
            self._locks.release_write(owner)
            raise
        self._scope = WriteScope(connection, owner, threading.get_ident())
        return self._scope

    def end_write(self, scope: WriteScope) -> None:
        """Leave the write path after COMMIT."""
        self._scope = None
        self._locks.release_write(scope.owner)
        if scope.connection is self._writer:
            self._locks.release(scope.owner)

    def abandon_write(self, scope: WriteScope) -> None:
        """ROLLBACK, put the schema objects back and leave the write path."""
        try:
            if scope.connection.in_transaction:
                scope.connection.execute("ROLLBACK")
            if scope.catalog is not None:
                self.restore_catalog(scope.catalog)
            for database in self._databases():
                database.log.allocator.forget_reservation()
        finally:
            self.end_write(scope)

    @property
    def scope(self) -> WriteScope | None:
        """The write in progress, of any thread."""
        return self._scope

    def joins_write(self) -> bool:
        """Whether this thread is inside a write already, or in a transaction with DDL."""
        scope = self._scope
        return scope is not None and scope.thread == threading.get_ident()

    def after_commit(self, effect: Effect) -> None:
        """Lets something happen when this thread's write commits, and never if that is undone.

        Args:
            effect: must not fail; called at once where the thread is in no write.
        """
        scope = self._scope
        if scope is not None and scope.thread == threading.get_ident():
            scope.effects.append(effect)
        else:
            effect()

    def pending_effects(self) -> Sequence[Effect]:
        """What waits for the commit of this thread's write, in order."""
        scope = self._scope
        if scope is None or scope.thread != threading.get_ident():
            return ()
        return scope.effects

    # -- what a write leaves ----------------------------------------------------------------------

    def note_commit(self, tables: Iterable[str]) -> None:
        """A transaction committed changes of these tables (SQLite names); write lock held."""
        sequence = self.commit_sequence + 1
        for name in tables:
            self.table_sequences[name] = sequence
        self.commit_sequence = sequence

    def will_change_catalog(self) -> None:
        """Remember the schema objects as they are, once per write scope, for a rollback."""
        scope = self._scope
        if scope is not None and scope.catalog is None:
            scope.catalog = self.catalog_snapshot()

    def catalog_snapshot(self) -> CatalogSnapshot:
        """A copy of every database's schema objects."""
        states = {d.database_id: d.state.copy() for d in self._databases()}
        return CatalogSnapshot(states, 0 if self._scope is None else len(self._scope.effects))

    def restore_catalog(self, snapshot: CatalogSnapshot) -> None:
        """Put schema objects back; plans compiled meanwhile become stale."""
        if self._scope is not None:
            del self._scope.effects[snapshot.effect_count :]
        for database in self._databases():
            state = snapshot.states.get(database.database_id)
            if state is not None:
                database.state = state.copy()
                database.version += 1

    def log_ddl(self, scope: WriteScope) -> None:
        """Write the log records of DDL that ran on the bare connection."""
        for database in self._databases():
            records = scope.ddl_records.get(database.database_id)
            if records:
                database.log.commit_records(scope.connection, records, self._clock.now_ticks())
        scope.ddl_records.clear()


@contextlib.contextmanager
def _savepoint(connection: apsw.Connection, name: str) -> Iterator[None]:
    connection.execute(f"SAVEPOINT {name}")
    try:
        yield
    except BaseException:
        connection.execute(f"ROLLBACK TO {name}; RELEASE {name}")
        raise
    connection.execute(f"RELEASE {name}")
