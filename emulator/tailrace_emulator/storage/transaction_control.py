"""Transaction control of a session: transactions, savepoints, statements.

A statement is a SQLite SAVEPOINT round TEMP changes; outside a transaction its end commits.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Final, TypeVar

from tailrace_emulator import messages
from tailrace_emulator.storage.application_locks import ApplicationLocks
from tailrace_emulator.storage.locks import LockOwner
from tailrace_emulator.storage.lookups import Lookups
from tailrace_emulator.storage.session_view import StatementRestart
from tailrace_emulator.storage.snapshot_isolation import SnapshotIsolation
from tailrace_emulator.storage.work import Work, WorkMark

if TYPE_CHECKING:
    from tailrace_emulator.storage.cascades import Cascade, RowRules
    from tailrace_emulator.storage.engine import Engine
    from tailrace_emulator.storage.write_scope import CatalogSnapshot

Result = TypeVar("Result")

RESTARTS_MAX: Final = 50
"""A statement repeated this often meets a table under constant change; then the client decides."""


class TransactionControl:
    """What BEGIN, COMMIT, ROLLBACK and SAVE do, and the frame of every statement."""

    def __init__(self, engine: Engine, session_id: int = 0) -> None:
        """Open a session.

        Args:
            session_id: shown in deadlock messages (@@SPID).
        """
        self.engine = engine
        self.connection = engine.connect()
        """Compiled SELECTs run here; the session's own TEMP tables live here."""
        self.trancount = 0
        self.descriptor = 0
        """The open transaction's descriptor, 0 outside."""
        self.savepoint_names: list[str] = []
        """Of the open transaction, casefolded, oldest first."""
        self.last_identity: int | None = None
        """The identity value generated last (@@IDENTITY)."""
        self.isolation = "read committed"
        """SET TRANSACTION ISOLATION LEVEL, lower case."""
        self.owner = LockOwner(session_id)
        """Who holds the session's locks."""
        self.application_locks = ApplicationLocks(engine.locks, self.owner)
        self.work = Work(engine, self.connection, self.owner)
        """What is not committed yet."""
        self.lookups = Lookups(self)
        """What the running statement has looked up by name."""
        self.snapshots = SnapshotIsolation(self)
        """What SNAPSHOT isolation requires of its statements."""
        self.depth = 0
        """How many statements are running, one within the other."""
        self._keep_locks = False
        self._outer_trancount = 0
        """How many transactions were open when the outermost statement began."""
        self._triggers = 0
        """How many triggers are running: those may end the transaction that they run in."""
        self._epoch = 0
        """Counts transactions that a trigger ended: their statements have nothing left to undo."""
        self._catalogs: dict[int, CatalogSnapshot] = {}
        """Schema objects as they were before DDL, by the depth of the statement it is in."""

    # -- transactions -----------------------------------------------------------------------------

    def begin(self) -> None:
        """BEGIN TRANSACTION; nested ones only count."""
        if self.trancount == 0:
            if not self.work.active:
                self.work.begin(self.engine.clock.now_ticks())
            self.descriptor = self.engine.next_descriptor()
            self.savepoint_names.clear()
            self.snapshots.begin_transaction()
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
            raise messages.error(3902)
        if self._triggers and self.depth and self.trancount == 1:
            return self._end_in_trigger(self.work.commit)
        if self.trancount <= self._outer_trancount and not self._triggers:
            raise messages.error(3916)
        if self.trancount > 1 or self.depth:
            self.trancount -= 1
            return None
        try:
            return self.work.commit()
        except BaseException:
            self.work.rollback()
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
            raise messages.error(3903)
        if self.depth and self._triggers:
            self._end_in_trigger(self.work.rollback)
            return
        if self.depth:
            raise messages.error(3915)
        self.trancount = 0
        self.descriptor = 0
        self.work.rollback()

    def _end_in_trigger(self, end: Callable[[], Result]) -> Result:
        """COMMIT or ROLLBACK in a trigger: the statements around it end with the transaction."""
        self._epoch += 1
        self.depth = self._outer_trancount = 0
        self._catalogs.clear()
        self.trancount = self.descriptor = 0
        try:
            return end()
        except BaseException:
            self.work.rollback()
            raise

    @contextlib.contextmanager
    def trigger(self) -> Iterator[Callable[[], bool]]:
        """Inside a statement, a trigger runs: it sees a transaction open, which it may end.

        Yields:
            Whether the transaction that the trigger began in has ended.
        """
        epoch = self._epoch
        implicit = self.trancount == 0
        self.trancount += implicit
        self._triggers += 1
        try:
            yield lambda: self._epoch != epoch
        finally:
            self._triggers -= 1
            if implicit and self._epoch == epoch:
                self.trancount -= 1

    @contextlib.contextmanager
    def insert_exec(self) -> Iterator[None]:
        """Inside a statement, INSERT .. EXEC runs text, which may not end the transaction."""
        implicit = self.trancount == 0
        self.trancount += implicit
        outer, self._outer_trancount = self._outer_trancount, self.trancount
        triggers, self._triggers = self._triggers, 0
        try:
            yield
        finally:
            self._outer_trancount, self._triggers = outer, triggers
            self.trancount -= implicit

    def savepoint(self, name: str) -> None:
        """SAVE TRANSACTION name.

        Raises:
            SqlError: 628 outside a transaction.
        """
        if self.trancount == 0:
            raise messages.error(628)
        self.work.savepoint(name)
        self.savepoint_names.append(name.casefold())

    def rollback_to(self, name: str) -> None:
        """ROLLBACK TRANSACTION to the newest savepoint of that name.

        Raises:
            SqlError: 3903 outside a transaction, 6401 unknown savepoint.
        """
        if self.trancount == 0:
            raise messages.error(3903)
        if not self.work.rollback_to(name):
            raise messages.error(6401, name)
        while self.savepoint_names[-1] != name.casefold():
            self.savepoint_names.pop()

    # -- statements -------------------------------------------------------------------------------

    def take_cascades(self) -> list[Cascade]:
        """What foreign keys did to other tables since the last call, for their triggers."""
        taken, self.work.cascades = self.work.cascades, []
        return taken

    def use_row_rules(self, rules: RowRules) -> None:
        """Have rows that foreign keys change completed by the T-SQL layer."""
        self.work.row_rules = rules

    def statement(self, kind: str = "", *, is_single: bool = False) -> Statement:
        """Atomicity of one statement: ``with store.statement(): ...``.

        An exception undoes the statement's changes; outside a transaction its end commits. Reads
        on :attr:`connection` share one snapshot. After a :class:`StatementRestart` the statement is
        to be run again, reading included: :meth:`run` does that.

        Args:
            kind: INSERT, UPDATE, DELETE or MERGE for messages; empty: the operation's own name.
            is_single: it inserts one row of given values and does nothing else. Outside a
                transaction nothing then needs the snapshot, and its undoing is a rollback, so
                SQLite is spared the savepoint.
        """
        return Statement(self, kind, is_single=is_single)

    def run(self, body: Callable[[], Result], kind: str = "", *, is_single: bool = False) -> Result:
        """Run ``body`` as one statement, again when what it read went stale under it.

        Args:
            body: reads on :attr:`connection` and calls insert, update, delete; may run repeatedly.
            is_single: see :meth:`statement`; only of the first attempt, as plans may change.
        """
        if self.depth:
            # Inside another statement, whose snapshot it reads: only that one can begin again.
            with self.statement(kind):
                return body()
        # Locks of an attempt stay for the next one: what it met locked it finds unchanged.
        self._keep_locks = True
        try:
            for _ in range(RESTARTS_MAX):
                try:
                    with self.statement(kind, is_single=is_single):
                        return body()
                except StatementRestart:
                    is_single = False
            with self.statement(kind):
                return body()
        finally:
            self._keep_locks = False
            if not self.work.active:
                self.engine.locks.release(self.owner)

    # -- for Statement ----------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        """For :class:`Statement`: another value when a trigger ended its transaction."""
        return self._epoch

    def enter_statement(self, kind: str, *, is_single: bool) -> tuple[bool, WorkMark | None]:
        """For :class:`Statement`.

        Returns:
            Whether it autocommits, and where the work stands; None without a savepoint.
        """
        work = self.work
        implicit = not work.active
        if implicit:
            work.begin(self.engine.clock.now_ticks())
        self.snapshots.begin_access()
        if not work.view.snapshot and self.depth == 0:
            work.view.read_sequence = self.engine.write_path.commit_sequence
        if self.depth == 0:
            self._outer_trancount = self.trancount
        self.depth += 1
        work.statement_kind = kind
        if is_single and implicit and self.depth == 1:
            return True, None
        work.settle()
        mark = work.mark()
        if not self.connection.in_transaction:
            work.outer_mark = mark
        self.connection.execute(f"SAVEPOINT statement_{self.depth}")
        return implicit, mark

    def leave_statement(self, mark: WorkMark | None, *, implicit: bool, failed: bool) -> None:
        """For :class:`Statement`: keep or undo what the statement did."""
        work = self.work
        name = f"statement_{self.depth}"
        catalog = self._catalogs.pop(self.depth, None)
        self.depth -= 1
        if self.depth == 0:
            self._outer_trancount = 0
        if not failed:
            if mark is not None:
                if not implicit or self.trancount:
                    work.settle()
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
        elif mark is not None:
            self.connection.execute(f"ROLLBACK TO {name}")
            self.connection.execute(f"RELEASE {name}")
            work.restore(mark)
            if catalog is not None:
                self.engine.write_path.restore_catalog(catalog)


class Statement:
    """The context manager of :meth:`TransactionControl.statement`."""

    __slots__ = ("_epoch", "_implicit", "_is_single", "_kind", "_mark", "_session")

    def __init__(self, session: TransactionControl, kind: str, *, is_single: bool) -> None:
        self._session = session
        self._kind = kind
        self._is_single = is_single

    def __enter__(self) -> None:
        """The statement begins."""
        self._epoch = self._session.epoch
        self._implicit, self._mark = self._session.enter_statement(
            self._kind, is_single=self._is_single
        )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """The statement ends: kept, or undone when an exception passes."""
        if self._session.epoch != self._epoch:
            return  # a trigger ended its transaction, and what it did is committed or undone
        self._session.leave_statement(self._mark, implicit=self._implicit, failed=error is not None)
