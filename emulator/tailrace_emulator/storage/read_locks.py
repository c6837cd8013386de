"""What a query waits for and what it locks: isolation levels and table hints.

Everybody reads committed rows in a snapshot of their own, so a reader *can* always continue. SQL
Server does not let it if it reads by locks. READ COMMITTED (unless READ_COMMITTED_SNAPSHOT is on)
waits at a row that another open transaction changed. REPEATABLE READ keeps what it read locked,
UPDLOCK and XLOCK claim it. So a table that somebody else writes to, or on which locks are to be
kept, is read through a condition. SQLite evaluates it for each row that it visits: ``may_read``
waits, locks or skips. It visits what SQL Server's scan or seek would, so a query by key does not
wait for changes of other keys. Rows that exist only in other sessions' overlays are put into a TEMP
table with the table's indexes and are visited the same way.

A reader that had to wait reads again, in a new snapshot: StatementRestart. Tables that nobody else
is changing are read plainly.

Inferred or coarser than SQL Server: SERIALIZABLE and HOLDLOCK lock the whole table, shared (with
UPDLOCK so that others may still read it); locks are on rows, also under PAGLOCK; READ UNCOMMITTED
sees committed rows only of a transaction that changed more than a few thousand rows or undid a part
of itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tailrace_emulator import messages
from tailrace_emulator.messages.errors import SqlError
from tailrace_emulator.storage.lock_state import PendingRows
from tailrace_emulator.storage.session_view import StatementRestart
from tailrace_emulator.storage.snapshot_isolation import SNAPSHOT
from tailrace_emulator.storage.sqlite_schema import column_list, create_table_text
from tailrace_emulator.storage.written_ahead import visible_source

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace_emulator.storage.model import Table
    from tailrace_emulator.storage.transaction_control import TransactionControl

NO_HINTS: Final[frozenset[str]] = frozenset()

_LEVEL_HINTS: Final = {
    "NOLOCK": "read uncommitted",
    "READUNCOMMITTED": "read uncommitted",
    "READCOMMITTED": "read committed",
    "READCOMMITTEDLOCK": "read committed",
    "REPEATABLEREAD": "repeatable read",
    "HOLDLOCK": "serializable",
    "SERIALIZABLE": "serializable",
}
_TABLE_HINTS: Final = frozenset({"TABLOCK", "TABLOCKX"})
_CLAIMS: Final = frozenset({"UPDLOCK", "XLOCK", "TABLOCKX"})
_LOCKING: Final = _CLAIMS | {
    *("TABLOCK", "HOLDLOCK", "SERIALIZABLE", "REPEATABLEREAD", "READCOMMITTEDLOCK"),
}
"""Hints that take locks where the session reads row versions."""

_CHANGES: Final = frozenset({"UPDATE", "DELETE", "MERGE"})
"""Statements that may write what they read: they claim it while they read."""

# How a row is read: the second argument of may_read.
_WAIT: Final = "W"
_SKIP: Final = "P"
_SHARE: Final = "S"
_UPDATE: Final = "U"
_CLAIM: Final = "X"


class ReadLocks:
    """The reading side of a session."""

    def __init__(self, transactions: TransactionControl) -> None:
        """Begin.

        Args:
            transactions: of the session, whose connection learns to ask before it reads a row.
        """
        self._transactions = transactions
        self._engine = transactions.engine
        self._connection = transactions.connection
        self._work = transactions.work
        self._owner = transactions.owner
        self._read_tables: dict[str, Table] = {}
        """The tables that are read through conditions now, by SQLite name."""
        create: Callable[..., None] = self._connection.create_scalar_function
        create("may_read", self._may_read, 3)
        create("wait_for_new", self._wait_for_new, 3)

    def begin_read(self) -> None:
        """A query outside of a writing statement is about to read."""
        work = self._work
        if not work.view.snapshot and self._transactions.depth == 0:
            work.view.read_sequence = self._engine.write_path.commit_sequence

    def end_read(self) -> None:
        """A query has read what it waits for: outside of a transaction its locks end."""
        if not self._work.active:
            self._engine.locks.release(self._owner)

    def source(self, table: Table) -> str:
        """SQLite text for FROM that shows the table as this session sees it: rid, c1, c2, ...

        For the session's own work: no other transaction is waited for, but one that holds
        uncommitted DDL on the table.

        Raises:
            StatementRestart: the table changed while it waited.
            SqlError: 1222 lock timeout, 1205 deadlock victim, 3617 cancelled.
        """
        self._wait_for_ddl(table)
        overlay = self._work.view.changed(table)
        if overlay is not None:
            return overlay.source
        return visible_source(table) if table.is_ms_shipped else f'main."{table.sqlite_name}"'

    def has_changed(self, table: Table) -> bool:
        """Whether this session has uncommitted changes of the table."""
        return self._work.view.changed(table) is not None

    def read(self, table: Table, hints: frozenset[str] = NO_HINTS) -> tuple[str, bool]:
        """As :meth:`source`, for a query: with what its isolation level and hints ask for.

        Args:
            hints: table hints in upper case.

        Returns:
            The text, and whether its reading may wait. If so, no row may go to the client before
            all are read, because after a StatementRestart the query is run again.

        Raises:
            StatementRestart: it had to wait.
            SqlError: 1222, 1205, 3617; 650 for READPAST; 3951, 3952, 3961 under SNAPSHOT.
        """
        level = next((_LEVEL_HINTS[hint] for hint in sorted(hints) if hint in _LEVEL_HINTS), "")
        level = level or self._transactions.isolation
        if "READPAST" in hints:
            self._check_readpast(table, level, hints)
        if level == SNAPSHOT:
            self._transactions.snapshots.access(table)
        else:
            self._transactions.snapshots.begin_access()
        if table.is_ms_shipped:
            return self._read_shipped(table, hints), False
        if level == SNAPSHOT and _CLAIMS.isdisjoint(hints):
            return self.source(table), False
        if level == "read uncommitted" and _CLAIMS.isdisjoint(hints):
            return self._uncommitted(table), False
        if level == "serializable" or hints & _TABLE_HINTS:
            self._lock_whole(table, level, hints)
            if level == "serializable" or "TABLOCKX" in hints:
                return self.source(table), False
        mode = self._mode(table, level, hints)
        if (
            self._transactions.depth
            and self._work.statement_kind in _CHANGES
            and (mode == _SHARE or "READPAST" in hints)
        ):
            mode = _UPDATE
        if "READPAST" in hints and mode in {_WAIT, ""}:
            mode = _SKIP
        if mode in {_WAIT, _SKIP} and not self._is_contended(table):
            mode = ""
        if not mode:
            return self.source(table), False
        return self._guarded(table, mode, hints), True

    def _check_readpast(self, table: Table, level: str, hints: frozenset[str]) -> None:
        """Refuse READPAST where rows are read in versions: nothing is locked that it could pass.

        Inferred: hints that take locks lift the refusal under READ_COMMITTED_SNAPSHOT too, and it
        is never refused for the target of a change.

        https://learn.microsoft.com/sql/t-sql/queries/hints-transact-sql-table

        Raises:
            SqlError: 650, if it is refused.
        """
        if self._work.statement_kind in _CHANGES:
            return
        by_version = level == SNAPSHOT or (
            level == "read committed" and self._reads_versions(table, hints)
        )
        by_locks = not _LOCKING.isdisjoint(hints)
        if self._transactions.isolation != SNAPSHOT:
            by_locks &= level not in {"serializable", "read uncommitted"}
        if not by_locks and (by_version or level in {"serializable", "read uncommitted"}):
            raise messages.error(650)

    def _reads_versions(self, table: Table, hints: frozenset[str]) -> bool:
        """Whether READ COMMITTED reads row versions in the table's database."""
        database = self._engine.database_by_id(table.database_id)
        by_snapshot = database and database.options.get("is_read_committed_snapshot_on")
        return bool(by_snapshot) and "READCOMMITTEDLOCK" not in hints

    def _read_shipped(self, table: Table, hints: frozenset[str]) -> str:
        """The source of a table of change data capture, whose rows readers do not wait for.

        With TABLOCKX, those who change its rows, and the cleanup, wait for the reader.
        """
        if "TABLOCKX" in hints:
            self._lock_whole(table, "", hints)
        return self.source(table)

    def _mode(self, table: Table, level: str, hints: frozenset[str]) -> str:
        if "XLOCK" in hints:
            return _CLAIM
        if "UPDLOCK" in hints:
            return _UPDATE
        if level == "repeatable read":
            return _SHARE
        return "" if self._reads_versions(table, hints) else _WAIT

    def _is_contended(self, table: Table) -> bool:
        locks, name = self._engine.locks, table.sqlite_name
        return bool(locks.others_writing(self._owner, name)) or locks.is_closed_to(
            self._owner, name
        )

    # -- whole tables -----------------------------------------------------------------------------

    def _lock_whole(self, table: Table, level: str, hints: frozenset[str]) -> None:
        locks, owner, name = self._engine.locks, self._owner, table.sqlite_name
        claims = not _CLAIMS.isdisjoint(hints)
        if claims:
            readable = "XLOCK" not in hints and "TABLOCKX" not in hints
            waited = self._timed(hints, lambda: locks.lock_table(owner, name, readable=readable))
        elif level in {"serializable", "repeatable read"}:
            waited = self._timed(hints, lambda: locks.lock_table(owner, name, shared=True))
        else:  # TABLOCK lasts as long as the statement: nobody must be writing when it begins
            waited = self._is_contended(table) and self._timed(
                hints, lambda: locks.wait_for_readable(owner, name)
            )
        if waited and self._work.view.is_stale(table):
            if self._work.view.snapshot:
                raise self._work.view.update_conflict(table)
            raise StatementRestart(owner.session_id)

    def _timed(self, hints: frozenset[str], lock: Callable[[], bool]) -> bool:
        """Lock or wait; with NOWAIT not at all (error 1222)."""
        owner = self._owner
        timeout_ms = owner.timeout_ms
        if "NOWAIT" in hints:
            owner.timeout_ms = 0
        try:
            return lock()
        finally:
            owner.timeout_ms = timeout_ms

    # -- rows -------------------------------------------------------------------------------------

    def _guarded(self, table: Table, mode: str, hints: frozenset[str]) -> str:
        locks, owner, name = self._engine.locks, self._owner, table.sqlite_name
        pending = locks.others_writing(owner, name)
        if locks.is_closed_to(owner, name) or any(p.unbounded for p in pending):
            self._timed(hints, lambda: locks.wait_for_readable(owner, name))
            raise StatementRestart(owner.session_id)
        self._read_tables[name] = table
        how = mode + ("P" if "READPAST" in hints else "") + ("0" if "NOWAIT" in hints else "")
        condition = f"may_read('{name}', rid, '{how}')"
        others = ""
        appearing = [p for p in pending if p.appears]
        if appearing and "READPAST" not in hints:
            self._fill(table, appearing)
            others = (
                f' UNION ALL SELECT rid, {column_list(table)} FROM temp."{_others_name(table)}"'
                f" WHERE wait_for_new('{name}', rid, '{how}')"
            )
        overlay = self._work.view.changed(table)
        if overlay is not None:
            return overlay.source_where(condition, others)
        return f'(SELECT rid, {column_list(table)} FROM main."{name}" WHERE {condition}{others})'

    def _may_read(self, name: str, rid: int, how: str) -> int:
        """Called by SQLite for each committed row that a query visits."""
        locks, owner = self._engine.locks, self._owner
        mode = how[0]
        if mode in {_SKIP, _WAIT}:
            if not locks.is_being_changed(owner, name, rid):
                return 1
            if "P" in how:
                return 0
            hints = frozenset({"NOWAIT"}) if "0" in how else NO_HINTS
            self._timed(hints, lambda: locks.wait_for_readable(owner, name, rid))
            raise StatementRestart(owner.session_id)
        if mode != _CLAIM and locks.holds(owner, name, rid):
            return 1
        skips = "P" in how
        hints = frozenset({"NOWAIT"}) if skips or "0" in how else NO_HINTS
        try:
            waited = self._timed(hints, lambda: locks.lock(owner, name, (rid,), mode))
        except SqlError as error:
            if skips and error.number == 1222:
                return 0
            raise
        work, table = self._work, self._read_tables[name]
        if work.view.is_stale(table) or waited:
            if work.view.snapshot:
                raise work.view.update_conflict(table)
            raise StatementRestart(owner.session_id)
        return 1

    def _wait_for_new(self, name: str, rid: int, how: str) -> int:
        """Called by SQLite for each row that only another session's overlay has."""
        locks, owner = self._engine.locks, self._owner
        hints = frozenset({"NOWAIT"}) if "0" in how else NO_HINTS
        self._timed(hints, lambda: locks.wait_for_readable(owner, name, rid))
        raise StatementRestart(owner.session_id)

    def _fill(self, table: Table, pending: list[PendingRows]) -> None:
        """Put other sessions' uncommitted rows where a query finds them."""
        name = _others_name(table)
        connection = self._connection
        known = connection.execute("SELECT 1 FROM temp.sqlite_schema WHERE name = ?", (name,))
        if known.fetchall():
            connection.execute(f'DELETE FROM temp."{name}"')
        else:
            connection.execute(create_table_text(table, name, temporary=True))
            for index in table.kept_indexes:
                columns = ", ".join(f"c{column_id}" for column_id in index.column_ids)
                connection.execute(
                    f'CREATE INDEX temp."{name}_{index.index_id}" ON "{name}"({columns})'
                )
        marks = ", ".join("?" * (len(table.columns) + 1))
        for changes in pending:
            connection.executemany(
                f'INSERT OR REPLACE INTO temp."{name}"(rid, {column_list(table)}) VALUES ({marks})',
                [(rid, *row) for rid, row in list(changes.rows.items()) if row is not None],
            )

    def _uncommitted(self, table: Table) -> str:
        """READ UNCOMMITTED: what others have changed too."""
        name = table.sqlite_name
        pending = [
            p
            for p in self._engine.locks.others_writing(self._owner, name)
            if p.rows and not p.doubtful
        ]
        if not pending or self._work.view.scope is not None:
            return self.source(table)
        self._fill(table, pending)
        self._connection.execute("CREATE TEMP TABLE IF NOT EXISTS hidden_rows(name, rid)")
        self._connection.execute("DELETE FROM temp.hidden_rows WHERE name = ?", (name,))
        self._connection.executemany(
            "INSERT INTO temp.hidden_rows(name, rid) VALUES (?, ?)",
            [(name, rid) for changes in pending for rid in list(changes.rows)],
        )
        condition = f"rid NOT IN (SELECT rid FROM temp.hidden_rows WHERE name = '{name}')"
        others = f' UNION ALL SELECT rid, {column_list(table)} FROM temp."{_others_name(table)}"'
        overlay = self._work.view.changed(table)
        if overlay is not None:
            return overlay.source_where(condition, others)
        return f'(SELECT rid, {column_list(table)} FROM main."{name}" WHERE {condition}{others})'

    # -- conditions of any reading ----------------------------------------------------------------

    def _wait_for_ddl(self, table: Table) -> None:
        scope = self._engine.write_path.scope
        if scope is None or scope is self._work.view.scope or scope.catalog is None:
            return
        self._engine.locks.wait_for_table(self._owner, table.sqlite_name)
        database = self._engine.database_by_id(table.database_id)
        if database is None or database.table_by_id(table.object_id) is not table:
            raise StatementRestart(self._owner.session_id)


def _others_name(table: Table) -> str:
    """The TEMP table of others' rows; a table that is altered gets another one."""
    return f"others_{table.sqlite_name}_{table.modify_ticks}"
