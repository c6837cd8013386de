"""INSERT, UPDATE, DELETE and TRUNCATE of rows into a session's overlay, with locks, checks and log.

Key updates are as SQL Server logs them (KB 238254; for change tables: operations 1 and 2 with one
``__$seqval``). A statement may set a column of a unique or clustered key, also to the same value.
Then each row is logged as a DELETE and an INSERT that share one seqval. In a statement over several
rows they are deferred: all rows are deleted before the first is inserted. So ``UPDATE t SET id = id
+ 1`` never meets itself. The command ids count on through both phases. Sorted by (command id,
seqval, operation), deletes come first. Inserts have later command ids with seqvals that are below
those of other deletes.

Inferred, not documented: the command id counts row operations and not statements. Rows whose key a
cascade leaves alone are logged as updates, before the inserts. An update that sets no key and
leaves every column as it was is not logged at all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final, cast

from tailrace_emulator import messages
from tailrace_emulator.log.journal import ACTION_DELETE, ACTION_INSERT, ACTION_UPDATE, Record
from tailrace_emulator.storage.constraints import put_unique, refuse_null
from tailrace_emulator.storage.foreign_keys import ForeignKeyChecks, RowChanges
from tailrace_emulator.storage.model import Table
from tailrace_emulator.storage.overlay import Overlay
from tailrace_emulator.storage.session_view import StatementRestart
from tailrace_emulator.storage.stage import SeenRows, Stage
from tailrace_emulator.storage.table_plan import Row, TablePlan
from tailrace_emulator.storage.values import GivenValue
from tailrace_emulator.storage.work import Work

GivenRow = tuple[GivenValue, ...]


class RowWriter:
    """One operation on one table: its overlay, its plan, its place in the log."""

    def __init__(self, work: Work, table: Table, kind: str) -> None:
        """Begin.

        Raises:
            StatementRestart: the table is not what the statement was compiled for.
        """
        database = work.engine.database_by_id(table.database_id)
        current = None if database is None else database.table_by_id(table.object_id)
        if current is None or (current is not table and current.columns != table.columns):
            raise StatementRestart(work.owner.session_id)
        self.work = work
        self.table = current
        self.kind = kind
        self.overlay: Overlay = work.view.overlay(current)
        self.plan: TablePlan = self.overlay.plan
        self.checks = ForeignKeyChecks(work, self.plan, kind, _CHANGES)

    def stage(self, rows: Iterable[object] = ()) -> Stage:
        """Rows on their way through this operation."""
        return Stage(self.work.connection, rows, chunk_rows=self.plan.chunk_rows)

    def lock(self, rids: Sequence[int], rows: Sequence[Row] = ()) -> None:
        """Lock rows and the keys that new rows have."""
        work = self.work
        whole = work.engine.locks.holds_table(work.owner, self.table.sqlite_name)
        resources = () if whole else self.plan.resources(rids, rows) if rows else rids
        work.view.lock_rows(self.table, resources)

    def log(self, changes: Iterable[tuple[int, int, Row | None, Row | None]]) -> None:
        """Log (position or -1 for a new one, action, before, after) when the table is tracked."""
        if not self.table.is_tracked:
            return
        work = self.work
        plan = self.plan
        entries = list(changes)
        database_id = self.table.database_id
        work.journal(database_id)
        position = work.positions(database_id, sum(1 for entry in entries if entry[0] < 0))
        command_id = work.command_count
        records: list[Record] = []
        for given, action, before, after in entries:
            command_id += 1
            at = given
            if given < 0:
                at = position
                position += 1
            records.append(
                (at, command_id, self.table.object_id, action, plan.column_ids, before, after)
            )
        work.command_count = command_id
        work.log(database_id, records, plan.chunk_rows)

    def fill_row_version(self, rows: list[GivenRow]) -> list[Row]:
        """Give each row its rowversion; then nothing in the rows is GENERATED any more."""
        position = self.plan.row_version_position
        if position < 0:
            return cast("list[Row]", rows)
        database_id = self.table.database_id
        first = self.work.engine.row_versions.take(database_id, len(rows))
        self.work.note_row_version(database_id)
        return [
            (*row[:position], (first + n).to_bytes(8, "big"), *row[position + 1 :])
            for n, row in enumerate(cast("list[Row]", rows))
        ]


def insert_rows(work: Work, table: Table, rows: Iterable[GivenRow]) -> tuple[list[int], int | None]:
    """INSERT: see :meth:`StoreSession.insert`. Returns row ids and the last identity value."""
    writer = RowWriter(work, table, "INSERT")
    staged = writer.stage(rows)
    rids: list[int] = []
    last_identity: int | None = None
    for chunk in staged.chunks():
        work.refuse_cancelled()
        numbered, generated = _fill_identity(writer, chunk)
        last_identity = generated if generated is not None else last_identity
        filled = writer.fill_row_version(numbered)
        refuse_null(work, writer.plan, filled, "INSERT")
        # A row may repeat the key of the one before it: then each is put before the next is seen.
        ignores = bool(writer.plan.ignoring) and work.statement_kind != "MERGE"
        for piece in [[row] for row in filled] if ignores else [filled]:
            if ignores and _is_duplicate(writer, piece[0]):
                work.ignored_duplicates = True
            else:
                rids += _put(writer, piece)
    staged.close()
    writer.checks.verify()
    return rids, last_identity


def _is_duplicate(writer: RowWriter, row: Row) -> bool:
    """Whether a row's key is there already in an index with IGNORE_DUP_KEY; locks the key."""
    view, table = writer.work.view, writer.table
    for key in writer.plan.ignoring:
        if key.covers(row):
            view.lock_rows(table, [key.resource(row)])
            if view.find(table, key.column_ids, key.values(row), limit=1, index=key.index):
                return True
    return False


def _put(writer: RowWriter, filled: list[Row]) -> list[int]:
    """Write new rows; returns their ids."""
    work = writer.work
    first = work.engine.take_rids(writer.table, len(filled), work.connection)
    rids = range(first, first + len(filled))
    writer.lock(rids, filled)
    work.record_undo(writer.overlay, rids)
    work.note_pending(writer.table, zip(rids, filled, strict=True), appears=True)
    put_unique(work, writer.overlay, writer.plan, rids, filled)
    writer.checks.appeared(filled)
    writer.log([(-1, ACTION_INSERT, None, row) for row in filled])
    return list(rids)


def update_rows(
    work: Work,
    table: Table,
    changes: Iterable[tuple[int, GivenRow]],
    assigned: Collection[int] = (),
) -> int:
    """UPDATE: see :meth:`StoreSession.update`."""
    writer = RowWriter(work, table, "UPDATE")
    sets_key = writer.table.is_tracked and not writer.plan.keys.isdisjoint(assigned)
    staged = writer.stage(changes)
    moved = writer.stage()
    seen = SeenRows()
    count = 0
    for chunk in staged.chunks():
        work.refuse_cancelled()
        once = [change for change in chunk if seen.add(change[0])]
        count += len(once)
        moved.extend(_update_in_place(writer, once, sets_key=sets_key))
    staged.close()
    for deferred_chunk in moved.chunks():
        work.refuse_cancelled()
        rids = [rid for rid, _, _ in deferred_chunk]
        rows = [row for _, _, row in deferred_chunk]
        writer.lock(rids, rows)
        work.note_pending(writer.table, zip(rids, rows, strict=True), appears=True)
        put_unique(work, writer.overlay, writer.plan, rids, rows)
        writer.log([(position, ACTION_INSERT, None, row) for _, position, row in deferred_chunk])
    moved.close()
    writer.checks.verify()
    return count


def _update_in_place(
    writer: RowWriter, chunk: list[tuple[int, GivenRow]], *, sets_key: bool
) -> list[tuple[int, int, Row]]:
    """Write the rows that keep their keys, take away the others; all where the key is set.

    Returns:
        (row id, log position, new row) of those others.
    """
    work, plan, overlay = writer.work, writer.plan, writer.overlay
    rids = [rid for rid, _ in chunk]
    writer.lock(rids)
    work.view.refuse_stale(writer.table, overlay, rids)
    new_rows = writer.fill_row_version([row for _, row in chunk])
    refuse_null(work, plan, new_rows, "UPDATE")
    work.record_undo(overlay, rids)
    stays: list[tuple[int, Row, Row]] = []
    moves: list[tuple[int, Row, Row]] = []
    for rid, old, new in zip(rids, overlay.rows(rids), new_rows, strict=True):
        if old is None:
            raise StatementRestart(work.owner.session_id)
        if sets_key or plan.key_changed(old, new):
            moves.append((rid, old, new))
        elif old != new:
            stays.append((rid, old, new))
    appears = bool(moves) or any(plan.found_elsewhere(old, new) for _, old, new in stays)
    work.note_pending(writer.table, [(rid, new) for rid, _, new in stays], appears=appears)
    overlay.take_away([rid for rid, _, _ in stays] + [rid for rid, _, _ in moves])
    overlay.put([(rid, *new) for rid, _, new in stays])
    for _, old, new in (*stays, *moves):
        writer.checks.changed(old, new)
    first = -1
    if moves and writer.table.is_tracked:
        work.journal(writer.table.database_id)
        first = work.positions(writer.table.database_id, len(moves))
    writer.log(
        [(-1, ACTION_UPDATE, old, new) for _, old, new in stays]
        + [(first + n, ACTION_DELETE, old, None) for n, (_, old, _) in enumerate(moves)]
    )
    return [(rid, first + n, new) for n, (rid, _, new) in enumerate(moves)]


def delete_rows(work: Work, table: Table, rids: Iterable[int]) -> int:
    """DELETE: see :meth:`StoreSession.delete`."""
    writer = RowWriter(work, table, "DELETE")
    staged = writer.stage(rids)
    seen = SeenRows()
    count = 0
    for given in staged.chunks():
        work.refuse_cancelled()
        chunk = [rid for rid in given if seen.add(rid)]
        count += len(chunk)
        writer.lock(chunk)
        work.view.refuse_stale(writer.table, writer.overlay, chunk)
        work.record_undo(writer.overlay, chunk)
        found = writer.overlay.rows(chunk)
        old_rows = [row for row in found if row is not None]
        if len(old_rows) < len(found):
            raise StatementRestart(work.owner.session_id)
        work.note_pending(writer.table, [(rid, None) for rid in chunk], appears=False)
        writer.overlay.take_away(chunk)
        writer.checks.vanished(old_rows)
        writer.log([(-1, ACTION_DELETE, old, None) for old in old_rows])
    staged.close()
    writer.checks.verify()
    return count


def truncate_table(work: Work, table: Table) -> None:
    """TRUNCATE TABLE: see :meth:`StoreSession.truncate`."""
    writer = RowWriter(work, table, "TRUNCATE")
    if writer.table.is_tracked:
        raise messages.error(4711, table.name)
    if writer.checks.is_referenced():
        raise messages.error(4712, table.name)
    work.engine.locks.lock_table(work.owner, writer.table.sqlite_name)
    if work.view.is_stale(writer.table):
        raise StatementRestart(work.owner.session_id)
    work.record_undo(writer.overlay, writer.overlay.visible_rids())
    writer.overlay.hide_all()
    if writer.plan.identity_position >= 0:
        work.reset_identity(writer.table)


def _fill_identity(writer: RowWriter, rows: list[GivenRow]) -> tuple[list[GivenRow], int | None]:
    """Generate identity values where asked; returns the last one."""
    plan = writer.plan
    position = plan.identity_position
    if position < 0:
        return rows, None
    identities = writer.work.engine.identities
    writer.work.note_identity(writer.table)
    asked = sum(1 for row in rows if row[position] is ...)
    value = identities.take(writer.table, plan.identity, asked) if asked else 0
    last: int | None = None
    filled: list[GivenRow] = []
    for row in rows:
        given = row[position]
        if given is ...:
            filled.append((*row[:position], value, *row[position + 1 :]))
            last = value
            value += plan.identity.increment
        else:
            if isinstance(given, int):
                identities.saw(writer.table, plan.identity, given)
                last = given  # IDENTITY_INSERT: @@IDENTITY tells of an explicit value too
            filled.append(row)
    return filled, last


_CHANGES: Final = RowChanges(delete_rows, update_rows)
