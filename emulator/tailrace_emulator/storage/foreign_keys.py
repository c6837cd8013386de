"""Foreign keys: checked at the end of each statement, over all that it did.

A child's new key locks the parent row that it found, shared, so that nobody deletes it before this
transaction ends. Deleting a parent locks the row exclusively.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import apsw

from tailrace_emulator import messages
from tailrace_emulator.messages.errors import INTERNAL, SqlError
from tailrace_emulator.storage.cascades import Cascade
from tailrace_emulator.storage.database import Database
from tailrace_emulator.storage.model import ForeignKey, Table
from tailrace_emulator.storage.table_plan import Row, TablePlan, UniqueKey, positions_of
from tailrace_emulator.storage.values import GivenValue
from tailrace_emulator.storage.work import Work
from tailrace_emulator.values.fetching import fetch

if TYPE_CHECKING:
    from tailrace_emulator.storage.stage import Stage


class RowChanges(NamedTuple):
    """What one operation does to its own rows, and so to those that follow from it."""

    delete: Callable[[Work, Table, Iterable[int]], int]
    update: Callable[[Work, Table, Iterable[tuple[int, tuple[GivenValue, ...]]]], int]


class ForeignKeyChecks:
    """What one operation must verify at its end, and the actions that follow from it."""

    def __init__(self, work: Work, plan: TablePlan, kind: str, change: RowChanges) -> None:
        """Begin.

        Args:
            kind: INSERT, UPDATE, DELETE or MERGE, for messages.
            change: what an action does to children.
        """
        self._work = work
        self._change = change
        self._table = plan.table
        self._kind = kind
        database = work.engine.database_by_id(plan.table.database_id)
        version = (database, database.version if database is not None else 0)
        if plan.foreign_keys is None or plan.foreign_keys[0] != version:
            outgoing = [
                (key, positions_of(plan.table, key.column_ids))
                for key in plan.table.foreign_keys
                if not key.is_disabled
            ]
            incoming = [
                (child, key, positions_of(plan.table, key.referenced_column_ids))
                for child in (database.tables() if database is not None else ())
                for key in child.foreign_keys
                if key.referenced == plan.table.object_id and not key.is_disabled
            ]
            plan.foreign_keys = version, outgoing, incoming
        _, self._outgoing, self._incoming = plan.foreign_keys
        self._appeared: Stage | None = None
        self._vanished: Stage | None = None
        self._plan = plan

    def is_referenced(self) -> bool:
        """Whether another table's foreign key points here."""
        return any(child.object_id != self._table.object_id for child, _, _ in self._incoming)

    def appeared(self, rows: Sequence[Row]) -> None:
        """Rows came into being: their parents must exist."""
        if self._outgoing:
            self._appeared = self._stage(self._appeared, [tuple(row) for row in rows])

    def vanished(self, rows: Sequence[Row]) -> None:
        """Rows went: nobody may reference them."""
        if self._incoming:
            self._vanished = self._stage(self._vanished, [(row, None) for row in rows])

    def changed(self, old: Row, new: Row) -> None:
        """A row changed: only keys with another value count."""
        if any(old[p] != new[p] for _, positions in self._outgoing for p in positions):
            self._appeared = self._stage(self._appeared, [new])
        if any(old[p] != new[p] for _, _, positions in self._incoming for p in positions):
            self._vanished = self._stage(self._vanished, [(old, new)])

    def verify(self) -> None:
        """Check everything.

        Raises:
            SqlError: 547 for a row without its parent.
        """
        if self._appeared is not None:
            for chunk in self._appeared.chunks():
                self._verify_parents(chunk)
            self._appeared.close()
            self._appeared = None
        if self._vanished is not None:
            vanished, self._vanished = self._vanished, None
            for chunk in vanished.chunks():
                for old, new in chunk:
                    self._verify_children(old, new)
            vanished.close()

    def _stage(self, stage: Stage | None, rows: list[object]) -> Stage:
        from tailrace_emulator.storage.stage import Stage as NewStage

        if stage is None:
            stage = NewStage(self._work.connection, chunk_rows=self._plan.chunk_rows)
        stage.extend(rows)
        return stage

    # -- parents ----------------------------------------------------------------------------------

    def _verify_parents(self, rows: Sequence[Row]) -> None:
        for key, positions in self._outgoing:
            seen: set[Row] = set()
            for row in rows:
                values = tuple([row[p] for p in positions])
                # A key with a NULL in it references nothing (MATCH SIMPLE).
                if None in values or values in seen:
                    continue
                seen.add(values)
                self._hold_parent(key, values)

    def _hold_parent(self, key: ForeignKey, values: Row) -> None:
        work = self._work
        database = work.engine.database_by_id(self._table.database_id)
        parent = None if database is None else database.table_by_id(key.referenced)
        if parent is None:
            raise self._conflict(key, parent, "FOREIGN KEY")
        pending = _key_resource(parent, key, values)
        while True:
            rids = work.view.find(parent, key.referenced_column_ids, values, limit=1)
            if rids:
                # It may be on its way out in another transaction: then wait and look again.
                if not work.view.share(parent, rids):
                    return
            elif pending is None or not work.view.share(parent, [pending]):
                raise self._conflict(key, parent, "FOREIGN KEY")

    # -- children ---------------------------------------------------------------------------------

    def _verify_children(self, old: Row, new: Row | None) -> None:
        for child, key, positions in self._incoming:
            values = tuple([old[p] for p in positions])
            if None in values:
                continue
            if new is not None and values == tuple([new[p] for p in positions]):
                continue
            self._resolve_children(child, key, values, new, positions)

    def _resolve_children(
        self, child: Table, key: ForeignKey, values: Row, new: Row | None, positions: Sequence[int]
    ) -> None:
        work = self._work
        rids = work.view.find(child, key.column_ids, values)
        if not rids or work.view.find(self._table, key.referenced_column_ids, values, limit=1):
            return
        action = key.on_delete if new is None else key.on_update
        if action == "NO_ACTION":
            raise self._conflict(key, child, "REFERENCE")
        overlay = work.view.overlay(child)
        database = work.engine.database_by_id(child.database_id)
        has_triggers = database is not None and bool(database.triggers(child.object_id))
        if action == "CASCADE" and new is None:
            if has_triggers:
                work.cascades.append(Cascade(child, "DELETE", (), _present(overlay.rows(rids))))
            self._change.delete(work, child, rids)
            return
        changes = self._replaced(child, key, rids, values, new, positions)
        if has_triggers:
            before, after = _present(overlay.rows(rids)), [row for _, row in changes]
            columns = frozenset(key.column_ids)
            work.cascades.append(Cascade(child, "UPDATE", after, before, columns))
        self._change.update(work, child, changes)

    def _replaced(
        self, child: Table, key: ForeignKey, rids: Sequence[int], values: Row, new: Row | None,
        positions: Sequence[int],
    ) -> list[tuple[int, Row]]:  # fmt: skip
        """Children (row id, new row) whose key becomes the parent's new one, NULL or its default.

        Raises:
            SqlError: 547 when the default is the key that goes.
        """
        work = self._work
        rules = work.row_rules
        action = key.on_delete if new is None else key.on_update
        targets = positions_of(child, key.column_ids)
        overlay = work.view.overlay(child)
        changes: list[tuple[int, Row]] = []
        for rid in rids:
            row = list(overlay.row(rid) or ())
            given: Row = (None,) * len(targets)
            if action == "CASCADE" and new is not None:
                given = tuple([new[p] for p in positions])
            elif action == "SET_DEFAULT":
                if rules is None:
                    raise SqlError(INTERNAL, "SET DEFAULT asks for defaults that nobody knows.")
                defaults = rules.defaults(child, targets)
                given = tuple([defaults[target] for target in targets])
                if given == values:  # it would stay with the parent that goes
                    raise self._conflict(key, child, "REFERENCE")
            for target, value in zip(targets, given, strict=True):
                row[target] = value
            changed = tuple(row)
            if rules is not None:
                changed = rules.completed(child, changed, work.statement_kind or self._kind)
            changes.append((rid, changed))
        return changes

    def _conflict(self, key: ForeignKey, other: Table | None, kind: str) -> SqlError:
        database = self._work.engine.database_by_id(self._table.database_id)
        return foreign_key_conflict(
            self._work.statement_kind or self._kind, database, self._table, key, other, kind
        )


def _present(rows: Sequence[Row | None]) -> list[Row]:
    """Rows that are there."""
    return [row for row in rows if row is not None]


def foreign_key_conflict(
    statement: str,
    database: Database | None,
    table: Table,
    key: ForeignKey,
    other: Table | None,
    kind: str,
) -> SqlError:
    """Error 547. ``other`` is the parent (FOREIGN KEY) or the child (REFERENCE)."""
    same = other is not None and other.object_id == table.object_id
    words = f"{kind} SAME TABLE" if same and kind == "FOREIGN KEY" else kind
    words = "SAME TABLE REFERENCE" if same and kind == "REFERENCE" else words
    column_ids = key.referenced_column_ids if kind == "FOREIGN KEY" else key.column_ids
    where = f"{other.schema}.{other.name}" if other is not None else ""
    column = other.column_by_id(column_ids[0]) if other is not None else None
    at = (", column '", column.name, "'") if column and len(column_ids) == 1 else ("", "", "")
    shown = database.name if database else ""
    return messages.error(547, statement, words, key.name, shown, where, *at)


def refuse_orphans(
    connection: apsw.Connection, database: Database, table: Table, key: ForeignKey
) -> None:
    """Before a foreign key is added: every row's parent must exist.

    Raises:
        SqlError: 547 for a row without its parent.
    """
    parent = database.table_by_id(key.referenced)
    if parent is None:
        raise messages.error(1767, key.name, "")
    pairs = list(zip(key.column_ids, key.referenced_column_ids, strict=True))
    given = " AND ".join(f"child.c{column_id} IS NOT NULL" for column_id in key.column_ids)
    same = " AND ".join(f"parent.c{theirs} = child.c{ours}" for ours, theirs in pairs)
    rows = fetch(
        connection,
        f'SELECT 1 FROM main."{table.sqlite_name}" AS child WHERE {given} AND NOT EXISTS'
        f' (SELECT 1 FROM main."{parent.sqlite_name}" AS parent WHERE {same}) LIMIT 1',
    )
    if rows:
        raise foreign_key_conflict("ALTER TABLE", database, table, key, parent, "FOREIGN KEY")


def _key_resource(parent: Table, key: ForeignKey, values: Row) -> object | None:
    """The lock under which another transaction would hold the parent's new key."""
    by_column = dict(zip(key.referenced_column_ids, values, strict=True))
    for index in parent.indexes:
        if index.unique and not index.filter and set(index.column_ids) == set(by_column):
            row: list[object] = [None] * len(parent.columns)
            for position, column in enumerate(parent.columns):
                row[position] = by_column.get(column.column_id)
            return UniqueKey(parent, index).resource(tuple(row))  # type: ignore[arg-type]
    return None
