"""The uncommitted work of a session: overlays, journals, locks; how it is applied or undone.

Three levels of undo, each with the mechanism that fits:

- a statement: a SQLite SAVEPOINT round it (all of its effects are in TEMP tables). It also gives
  the statement one snapshot of the committed data;
- SAVE TRANSACTION: an undo list of overlay rows, kept only while a savepoint exists. (A SQLite
  savepoint would hold the read snapshot for the rest of the transaction.)
- the transaction: emptying the overlays.

DDL inside a transaction makes it *exclusive*. It holds the write path and an open SQLite write
transaction until its end, so that SQLite rolls the DDL back. Other sessions read on; those that
want to commit, or use a table whose definition is not committed, wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import apsw

from tailrace_emulator import messages
from tailrace_emulator.log.journal import JOURNAL_SCHEMA, Journal, JournalMark, Record
from tailrace_emulator.messages.errors import INTERNAL, SqlError
from tailrace_emulator.storage.cascades import Cascade, RowRules
from tailrace_emulator.storage.lock_state import PENDING_ROWS_MAX
from tailrace_emulator.storage.locks import LockOwner
from tailrace_emulator.storage.model import Table
from tailrace_emulator.storage.overlay import UNDO_SCHEMA, Overlay
from tailrace_emulator.storage.session_view import SessionView
from tailrace_emulator.storage.stage import STAGE_SCHEMA
from tailrace_emulator.storage.table_plan import Row
from tailrace_emulator.storage.write_scope import CatalogSnapshot
from tailrace_emulator.values.fetching import fetch

if TYPE_CHECKING:
    from tailrace_emulator.storage.engine import Engine


@dataclass(frozen=True, slots=True)
class WorkMark:
    """Where the work stood when a SQLite transaction or savepoint began."""

    journals: dict[int, JournalMark]
    command_count: int
    overlays: tuple[tuple[Overlay, bool], ...]
    """Each overlay that there was, and whether it had changes."""
    reset_count: int = 0
    """How many identity counters had been reset."""


@dataclass(frozen=True, slots=True)
class Savepoint:
    """A SAVE TRANSACTION: ``sqlite_name`` where the transaction was exclusive already."""

    name: str
    undo_count: int
    mark: WorkMark
    sqlite_name: str = ""
    catalog: CatalogSnapshot | None = None
    lock_count: int = 0
    """How many locks had been taken since the first savepoint."""


class Work:
    """One session's open transaction, reused for the next one."""

    def __init__(self, engine: Engine, connection: apsw.Connection, owner: LockOwner) -> None:
        self.engine = engine
        self.connection = connection
        self.owner = owner
        self.view = SessionView(engine, connection, owner)
        """What the session sees, this work included."""
        self.active = False
        self.begin_ticks = 0
        self.command_count = 0
        self.statement_kind = ""
        self.outer_mark: WorkMark | None = None
        """Where the work stood when the connection's SQLite transaction began."""
        self.cascades: list[Cascade] = []
        """What foreign keys did to tables with triggers since they were last asked for."""
        self.ignored_duplicates = False
        """Whether the statement left out rows for IGNORE_DUP_KEY."""
        self.row_rules: RowRules | None = None
        """Of the T-SQL layer, for the rows that foreign keys change."""
        self._journals: dict[int, Journal] = {}
        self._savepoints: list[Savepoint] = []
        self._identity_tables: dict[tuple[int, int], Table] = {}
        self._resets: list[tuple[Table, int | None]] = []
        """Identity counters that were reset, with what each was before."""
        self._row_version_databases: set[int] = set()
        for schema in (JOURNAL_SCHEMA, STAGE_SCHEMA, UNDO_SCHEMA):
            connection.execute(schema)

    # -- log --------------------------------------------------------------------------------------

    def journal(self, database_id: int) -> Journal:
        """The transaction's journal for a database, with its begin record."""
        journal = self._journals.get(database_id)
        if journal is None:
            journal = self._journals[database_id] = Journal(self.connection, database_id)
        if journal.begin_position < 0:
            journal.begin_position = self.positions(database_id, 1)
        return journal

    def positions(self, database_id: int, count: int) -> int:
        """Reserve log positions; returns the first."""
        database = self.engine.database_by_id(database_id)
        if database is None:
            raise SqlError(INTERNAL, f"Database id {database_id} was dropped in a transaction.")
        return database.log.allocator.take(count)

    def log(self, database_id: int, records: list[Record], chunk_rows: int) -> None:
        """Add log records of this transaction."""
        self.journal(database_id).extend(records, chunk_rows)

    def refuse_cancelled(self) -> None:
        """Between two pieces of a long statement.

        Raises:
            SqlError: 3617, the client cancelled it.
        """
        cancelled = self.owner.cancelled
        if cancelled is not None and cancelled.is_set():
            raise messages.cancelled()

    def note_identity(self, table: Table) -> None:
        """The commit is to persist the table's identity value."""
        self._identity_tables[table.database_id, table.object_id] = table

    def reset_identity(self, table: Table) -> None:
        """The identity of a table, which is locked, begins again; a rollback takes that back."""
        identities = self.engine.identities
        self._resets.append((table, identities.current(table)))
        identities.reseed(table, None)
        self.note_identity(table)

    def _undo_resets(self, count: int) -> None:
        """Put back what identity counters were when that many had been reset."""
        for table, value in reversed(self._resets[count:]):
            self.engine.identities.reseed(table, value)
        del self._resets[count:]

    def note_row_version(self, database_id: int) -> None:
        """The commit is to persist the database's rowversion."""
        self._row_version_databases.add(database_id)

    def note_pending(
        self, table: Table, rows: Iterable[tuple[int, Row | None]], *, appears: bool
    ) -> None:
        """For readers in other sessions: these rows (row id, image or None) are changed.

        Args:
            rows: after they were locked.
            appears: whether new keys appear, see :class:`PendingRows`.
        """
        pending = self.owner.pending.get(table.sqlite_name)
        if pending is None:
            pending = self.engine.locks.begin_writing(self.owner, table.sqlite_name)
        pending.appears |= appears
        if pending.unbounded:
            return
        pending.rows.update(rows)
        if len(pending.rows) > PENDING_ROWS_MAX:
            pending.unbounded = True
            pending.rows = {}

    def doubt_pending(self) -> None:
        """A part of the transaction was undone."""
        for pending in self.owner.pending.values():
            pending.doubtful = True

    def _show_pending_as_it_is(self) -> None:
        """The rows that are still locked, with the images that they have again."""
        for name, pending in self.owner.pending.items():
            overlay = self.view.overlays.get(name)
            if overlay is not None:
                rids = list(pending.rows)
                pending.rows.update(zip(rids, overlay.rows(rids), strict=True))
                pending.doubtful = False

    # -- statements -------------------------------------------------------------------------------

    def begin(self, ticks: int) -> None:
        """A transaction begins."""
        self.active = True
        self.begin_ticks = ticks
        self.command_count = 0

    def settle(self) -> None:
        """Before SQLite marks or keeps the TEMP tables: let them have everything."""
        for overlay in self.view.overlays.values():
            overlay.settle()

    def mark(self) -> WorkMark:
        """Where the work stands, for :meth:`restore`."""
        return WorkMark(
            {key: journal.mark() for key, journal in self._journals.items() if journal.count},
            self.command_count,
            tuple([(overlay, overlay.dirty) for overlay in self.view.overlays.values()]),
            len(self._resets),
        )

    def restore(self, mark: WorkMark) -> None:
        """Go back to a mark, SQLite having undone the TEMP tables themselves."""
        self.doubt_pending()
        self._undo_resets(mark.reset_count)
        empty = JournalMark((), 0, 0)
        for key, journal in self._journals.items():
            journal.restore(mark.journals.get(key, empty))
        self.command_count = mark.command_count
        self.view.overlays = {overlay.table.sqlite_name: overlay for overlay, _ in mark.overlays}
        for overlay, dirty in mark.overlays:
            overlay.suspect(dirty)

    # -- savepoints -------------------------------------------------------------------------------

    def record_undo(self, overlay: Overlay, rids: Iterable[int]) -> None:
        """Before rows change: remember them when a savepoint may want them back."""
        if self._savepoints:
            overlay.record_undo(rids)

    def savepoint(self, name: str) -> None:
        """SAVE TRANSACTION."""
        if self.owner.acquired is None:
            self.owner.acquired = []
        saved = Savepoint(
            name, self._undo_count(), self.mark(), lock_count=len(self.owner.acquired)
        )
        if self.view.scope is not None:
            sqlite_name = f"saved_{len(self._savepoints)}"
            self.connection.execute(f"SAVEPOINT {sqlite_name}")
            catalog = self.engine.write_path.catalog_snapshot()
            saved = replace(saved, sqlite_name=sqlite_name, catalog=catalog)
        self._savepoints.append(saved)

    def rollback_to(self, name: str) -> bool:
        """ROLLBACK TRANSACTION to a savepoint, which stays; returns whether there is one.

        What was locked since is released.
        """
        for position in range(len(self._savepoints) - 1, -1, -1):
            if self._savepoints[position].name == name:
                break
        else:
            return False
        saved = self._savepoints[position]
        del self._savepoints[position + 1 :]
        if saved.sqlite_name:
            self.connection.execute(f"ROLLBACK TO {saved.sqlite_name}")
            if saved.catalog is not None:
                self.engine.write_path.restore_catalog(saved.catalog)
            self.restore(saved.mark)
            self.engine.locks.release_since(self.owner, saved.lock_count)
            return True
        if self.view.scope is not None:
            self._leave_exclusive()
        self.doubt_pending()
        self._undo_to(saved.undo_count)
        self._undo_resets(saved.mark.reset_count)
        for key, journal in self._journals.items():
            mark = saved.mark.journals.get(key)
            journal.truncate(0 if mark is None else mark.count)
        self.command_count = saved.mark.command_count
        self.engine.locks.release_since(self.owner, saved.lock_count)
        self._show_pending_as_it_is()
        return True

    def _undo_count(self) -> int:
        ((count,),) = fetch(self.connection, "SELECT coalesce(max(n), 0) FROM temp.undo")
        return int(count)

    def _undo_to(self, count: int) -> None:
        """Put back what each row was at that point of the undo list.

        First all of the rows' images go, then the old ones come: in between, keys may have moved
        from row to row.
        """
        self.connection.execute("SAVEPOINT undoing")
        touched = "SELECT DISTINCT overlay, rid FROM temp.undo WHERE n > ?"
        for name, rid in self.connection.execute(touched, (count,)):
            self.view.overlays[str(name)].remove(rid)
        oldest = (
            "SELECT overlay, rid, hidden, image FROM temp.undo WHERE n IN"
            " (SELECT min(n) FROM temp.undo WHERE n > ? GROUP BY overlay, rid)"
        )
        for name, rid, hidden, image in self.connection.execute(oldest, (count,)):
            self.view.overlays[str(name)].put_back(rid, bool(hidden), image)
        self.connection.execute("DELETE FROM temp.undo WHERE n > ?", (count,))
        self.connection.execute("RELEASE undoing")

    # -- exclusive (DDL) --------------------------------------------------------------------------

    def become_exclusive(self, open_statements: Sequence[str]) -> None:
        """Take the write path until the transaction ends.

        Args:
            open_statements: names of the SQLite savepoints of the statements that are running. They
                are closed (a DDL statement has changed nothing yet) and opened again inside.
        """
        if self.view.scope is not None:
            return
        for journal in self._journals.values():
            journal.flush()
        if self.connection.in_transaction:
            self.connection.execute("COMMIT")
        self.view.snapshot = False
        self.view.scope = self.engine.write_path.begin_write(self.connection, self.owner)
        self.outer_mark = self.mark()
        for name in open_statements:
            self.connection.execute(f"SAVEPOINT {name}")

    def flush_overlay(self, table: Table) -> None:
        """Before DDL on a table: its uncommitted rows move into it; for exclusive transactions."""
        overlay = self.view.overlays.pop(table.sqlite_name, None)
        if overlay is None:
            return
        if overlay.dirty:
            overlay.apply()
        self.view.abandoned += (overlay.hidden_name, overlay.images_name)

    def _leave_exclusive(self) -> None:
        """Undo everything since the first DDL."""
        scope = self.view.scope
        self.view.scope = None
        if scope is not None:
            self.engine.write_path.abandon_write(scope)
        if self.outer_mark is not None:
            self.restore(self.outer_mark)

    # -- the end ----------------------------------------------------------------------------------

    def commit(self) -> bytes | None:
        """Apply and log everything in one SQLite transaction; returns the commit LSN, if logged.

        Raises:
            SqlError: 1205 or 3617 while waiting for the write path; nothing is committed then, and
                the caller rolls back.
        """
        overlays = [overlay for overlay in self.view.overlays.values() if overlay.dirty]
        journals = [journal for journal in self._journals.values() if journal.count]
        scope = self.view.scope
        if scope is None:
            if self.connection.in_transaction:
                self.connection.execute("COMMIT")
            if not overlays and not journals and not self._identity_tables:
                self._end()
                return None
            scope = self.engine.write_path.begin_write(self.connection, self.owner)
        try:
            lsn = self._write(overlays, journals)
            self.connection.execute("COMMIT")
        except BaseException as error:
            exclusive = self.view.scope is not None
            self.view.scope = None
            self.engine.write_path.abandon_write(scope)
            if exclusive and self.outer_mark is not None:
                self.restore(self.outer_mark)
            for overlay in self.view.overlays.values():
                overlay.suspect(True)
            if self.view.snapshot and isinstance(error, apsw.ConstraintError):
                raise self.view.update_conflict(overlays[0].table) from error
            raise
        self.engine.write_path.note_commit(overlay.table.sqlite_name for overlay in overlays)
        self.view.scope = None
        self.engine.write_path.end_write(scope)
        self._end()
        for effect in scope.effects:
            effect()
        return lsn

    def _write(self, overlays: list[Overlay], journals: list[Journal]) -> bytes | None:
        """Everything that the transaction changed.

        Raises:
            SqlError: 913 when one of its databases was dropped meanwhile.
        """
        for overlay in overlays:
            if self.engine.database_by_id(overlay.table.database_id) is None:
                raise messages.error(913, overlay.table.database_id)
        for overlay in overlays:
            overlay.apply()
        lsn = None
        for journal in journals:
            database = self.engine.database_by_id(journal.database_id)
            if database is not None:
                lsn = database.log.commit(
                    self.connection, journal, self.begin_ticks, self.engine.clock.now_ticks()
                )
        if self.view.scope is not None:
            self.engine.write_path.log_ddl(self.view.scope)
        for table in self._identity_tables.values():
            self.engine.identities.persist(self.connection, table)
        for database_id in self._row_version_databases:
            self.engine.row_versions.persist(self.connection, database_id)
        return lsn

    def rollback(self, *, keep_locks: bool = False) -> None:
        """Forget everything."""
        if self.view.scope is not None:
            self._leave_exclusive()
        elif self.connection.in_transaction:
            self.connection.execute("ROLLBACK")
            if self.outer_mark is not None:
                self.restore(self.outer_mark)
        for overlay in self.view.overlays.values():
            overlay.clear()
        self._undo_resets(0)
        self._end(keep_locks=keep_locks)

    def _end(self, *, keep_locks: bool = False) -> None:
        for journal in self._journals.values():
            journal.clear()
        if self._savepoints:
            self.connection.execute("DELETE FROM temp.undo")
            self._savepoints.clear()
            self.owner.acquired = None
        self._identity_tables.clear()
        self._resets.clear()
        self._row_version_databases.clear()
        if not keep_locks:
            self.engine.locks.release(self.owner)
        self.active = False
        self.view.snapshot = False
