"""What one session sees: committed rows in its snapshot, its own changes over them, and the newest.

A statement reads in one snapshot. Some checks must not be fooled by it: unique keys, parents,
whether a row is still what the statement read. They read through :meth:`SessionView.current`. It is
the session's own connection while nobody committed changes of that table since the snapshot, else a
second one.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING

import apsw

from tailrace_emulator import messages
from tailrace_emulator.messages.errors import SqlError
from tailrace_emulator.storage.index_filter import filter_condition
from tailrace_emulator.storage.locks import LockOwner
from tailrace_emulator.storage.model import Index, Table
from tailrace_emulator.storage.overlay import Overlay
from tailrace_emulator.values.fetching import fetch
from tailrace_emulator.values.types import StorageValue

if TYPE_CHECKING:
    from tailrace_emulator.storage.engine import Engine, WriteScope


class StatementRestart(SqlError):
    """What the statement read was changed by somebody else before it could lock it: run it again.

    SQL Server would have waited at the row and continued with its new version; here the statement's
    reading is done, so it is repeated. The runner of statements catches this and repeats; a client
    that sees it sees a deadlock error (1205), which it may retry too.
    """

    def __init__(self, session_id: int = 0) -> None:
        as_victim = messages.error(1205, session_id, "lock", state=52)
        super().__init__(**vars(as_victim))


class SessionView:
    """What one session sees, and the locks that keep what it saw true."""

    def __init__(self, engine: Engine, connection: apsw.Connection, owner: LockOwner) -> None:
        self.engine = engine
        self.connection = connection
        self.owner = owner
        self.read_sequence = 0
        """The engine's commit count when the statement's (or SNAPSHOT transaction's) view began."""
        self.snapshot = False
        """A SNAPSHOT transaction holds its read transaction."""
        self.scope: WriteScope | None = None
        """Set while the transaction is exclusive."""
        self.overlays: dict[str, Overlay] = {}
        """The session's uncommitted changes, by SQLite table name."""
        self._overlay_count = 0
        self.abandoned: list[str] = []
        """TEMP tables of overlays that are no more, to be dropped."""
        self._fresh: apsw.Connection | None = None

    def close(self) -> None:
        """Let go of the second connection."""
        if self._fresh is not None:
            self._fresh.close()
            self._fresh = None

    def overlay(self, table: Table) -> Overlay:
        """The table's overlay, made when this session changes it for the first time."""
        overlay = self.overlays.get(table.sqlite_name)
        if overlay is None or overlay.table is not table:
            if overlay is not None and overlay.dirty:
                raise StatementRestart(self.owner.session_id)
            if overlay is not None:
                self.abandoned += (overlay.hidden_name, overlay.images_name)
            # A rollback to a savepoint may have brought one back.
            live = {other.hidden_name for other in self.overlays.values() if other is not overlay}
            live |= {o.images_name for o in self.overlays.values() if o is not overlay}
            self.abandoned = [
                name
                for name in self.abandoned
                if name in live or not _is_dropped(self.connection, name)
            ]
            self._overlay_count += 1
            overlay = Overlay(self.connection, table, self._overlay_count)
            self.overlays[table.sqlite_name] = overlay
        return overlay

    def changed(self, table: Table) -> Overlay | None:
        """The table's overlay when it has uncommitted changes."""
        overlay = self.overlays.get(table.sqlite_name)
        if overlay is None or not overlay.dirty:
            return None
        overlay.settle()
        return overlay

    def is_stale(self, table: Table) -> bool:
        """Whether somebody committed changes of the table since this view of the data began."""
        if self.scope is not None:
            return False
        return self.engine.write_path.table_sequences.get(table.sqlite_name, 0) > self.read_sequence

    def current(self, table: Table) -> apsw.Connection:
        """A connection that sees the table's newest committed rows."""
        return self.fresh() if self.is_stale(table) else self.connection

    def fresh(self) -> apsw.Connection:
        """A second connection, whose every query sees what is committed now."""
        if self._fresh is None:
            self._fresh = self.engine.connect()
        return self._fresh

    def find(
        self,
        table: Table,
        column_ids: Sequence[int],
        key: Sequence[StorageValue],
        *,
        limit: int = -1,
        index: Index | None = None,
    ) -> list[int]:
        """Row ids with these column values: committed ones as of now, and this session's own.

        With ``index``, those that a filtered index has.
        """
        condition = " AND ".join(f"c{column_id} IS ?" for column_id in column_ids)
        if index is not None and index.filter:
            condition += f" AND {filter_condition(index.filter)}"
        overlay = self.changed(table)
        rids: list[int] = []
        if overlay is not None:
            images = f'SELECT rid FROM temp."{overlay.images_name}" WHERE {condition} LIMIT ?'
            rids += [rid for (rid,) in fetch(self.connection, images, (*key, limit))]
        committed = f'SELECT rid FROM main."{table.sqlite_name}" WHERE {condition} LIMIT ?'
        bindings = (*key, limit if overlay is None else -1)
        for (rid,) in fetch(self.current(table), committed, bindings):
            if overlay is None or not overlay.hides(rid):
                rids.append(rid)
        return rids

    # -- locks ------------------------------------------------------------------------------------

    def lock_rows(self, table: Table, resources: Iterable[Hashable]) -> None:
        """Lock rows and keys for writing, and make sure that the table is what it was.

        Raises:
            StatementRestart: the table was altered or dropped meanwhile.
            SqlError: 1222 lock timeout, 1205 deadlock victim, 3617 cancelled.
        """
        self.engine.locks.lock(self.owner, table.sqlite_name, resources)
        database = self.engine.database_by_id(table.database_id)
        if database is None or database.table_by_id(table.object_id) is not table:
            raise StatementRestart(self.owner.session_id)

    def share(self, table: Table, resources: Iterable[Hashable]) -> bool:
        """Lock rows or keys against writing by others; returns whether it had to wait."""
        return self.engine.locks.lock(self.owner, table.sqlite_name, resources, "S")

    def refuse_stale(self, table: Table, overlay: Overlay, rids: Sequence[int]) -> None:
        """After locking rows that a query found: see that nobody changed them in between.

        Raises:
            StatementRestart: another transaction changed one of them.
            SqlError: 3960 in a SNAPSHOT transaction.
        """
        if not self.is_stale(table):
            return
        fresh = self.fresh()
        for rid in rids:
            if overlay.dirty and (overlay.hides(rid) or overlay.image(rid) is not None):
                continue
            seen = overlay.committed_row(self.connection, rid)
            if overlay.committed_row(fresh, rid) != seen:
                if self.snapshot:
                    raise self.update_conflict(table)
                raise StatementRestart(self.owner.session_id)

    def update_conflict(self, table: Table) -> SqlError:
        """Error 3960."""
        database = self.engine.database_by_id(table.database_id)
        return messages.error(
            3960, f"{table.schema}.{table.name}", database.name if database else ""
        )


def _is_dropped(connection: apsw.Connection, name: str) -> bool:
    """Drop a TEMP table; false while rows of a statement of the connection are being read."""
    try:
        connection.execute(f'DROP TABLE IF EXISTS temp."{name}"')
    except apsw.LockedError:
        return False
    return True
