"""What rows must satisfy: NOT NULL, and unique keys in which NULLs are equal.

Keys are compared by their collation, trailing spaces apart. A new key is locked before it is looked
for. So of two transactions that create the same key one waits for the other. It then gets the
error, or not if the other rolled back.
"""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from tailrace_emulator import messages
from tailrace_emulator.messages.errors import INTERNAL, SqlError
from tailrace_emulator.storage.index_filter import filter_condition
from tailrace_emulator.storage.model import Index, Table
from tailrace_emulator.storage.overlay import ARRAY_ROWS_MIN, Overlay
from tailrace_emulator.storage.sqlite_schema import where_text
from tailrace_emulator.storage.table_plan import Row, TablePlan, UniqueKey, positions_of
from tailrace_emulator.storage.values import value_text
from tailrace_emulator.storage.work import Work
from tailrace_emulator.values.fetching import fetch
from tailrace_emulator.values.types import StorageValue


def refuse_null(work: Work, plan: TablePlan, rows: Sequence[Row], kind: str) -> None:
    """NOT NULL.

    Raises:
        SqlError: 515 for NULL in such a column.
    """
    for row in rows:
        if None not in row:
            continue
        for position in plan.required:
            if row[position] is None:
                table = plan.table
                database = work.engine.database_by_id(table.database_id)
                raise messages.error(
                    515,
                    table.columns[position].name,
                    f"{database.name if database else ''}.{table.schema}.{table.name}",
                    work.statement_kind or kind,
                )


def put_unique(
    work: Work, overlay: Overlay, plan: TablePlan, rids: Sequence[int], rows: Sequence[Row]
) -> None:
    """Put new images into the overlay; their keys are locked already.

    Raises:
        SqlError: 2627 for an equal key of a constraint, 2601 of an index.
    """
    at_once = len(rows) >= ARRAY_ROWS_MIN and not work.view.is_stale(plan.table)
    if not at_once:
        for key in plan.unique:
            for row in key.covered(rows):
                _refuse_committed_duplicate(work, overlay, plan.table, key, row)
    try:
        overlay.put([(rid, *row) for rid, row in zip(rids, rows, strict=True)])
    except apsw.ConstraintError:
        raise _find_duplicate(work, overlay, plan, rids, rows) from None
    for key in plan.unique:
        if at_once and overlay.meets_committed_key(key.index, rids):
            for row in key.covered(rows):
                _refuse_committed_duplicate(work, overlay, plan.table, key, row)
        if not key.nullable:
            continue
        for rid, row in zip(rids, rows, strict=True):
            values = key.values(row)
            # SQLite's unique indexes take NULLs for different.
            if None not in values or not key.covers(row):
                continue
            if work.view.find(plan.table, key.column_ids, values, limit=2, index=key.index) != [
                rid
            ]:
                raise duplicate_key(plan.table, key.index, values)


def _refuse_committed_duplicate(
    work: Work, overlay: Overlay, table: Table, key: UniqueKey, row: Row
) -> None:
    values = key.values(row)
    terms = [f"c{column_id} IS ?" for column_id in key.column_ids]
    if key.index.filter:
        terms.append(filter_condition(key.index.filter))
    condition = " AND ".join(terms)
    query = f'SELECT rid FROM main."{table.sqlite_name}" WHERE {condition}'
    while True:
        found = fetch(work.view.current(table), query, values)
        rids = [rid for (rid,) in found if not (overlay.dirty and overlay.hides(rid))]
        if not rids:
            return
        # Whoever deletes or moves the other row, uncommitted, has it locked: wait for the outcome.
        if not work.view.share(table, rids):
            raise duplicate_key(table, key.index, values)


def _find_duplicate(
    work: Work, overlay: Overlay, plan: TablePlan, rids: Sequence[int], rows: Sequence[Row]
) -> SqlError:
    """The images up to the first of two equal keys are in: find that one."""
    for rid, row in zip(rids, rows, strict=True):
        if overlay.image(rid) == row:
            continue
        for key in plan.unique:
            values = key.values(row)
            if None in values or not key.covers(row):
                continue
            if work.view.find(plan.table, key.column_ids, values, limit=1, index=key.index):
                return duplicate_key(plan.table, key.index, values)
    return SqlError(INTERNAL, f"Row ids of table '{plan.table.name}' were given twice.")


def duplicate_key(table: Table, index: Index, values: Row) -> SqlError:
    """Error 2627 (a constraint) or 2601 (an index)."""
    types = [table.columns[p].type for p in positions_of(table, index.column_ids)]
    text = ", ".join(value_text(v, t) for v, t in zip(values, types, strict=True))
    name = f"{table.schema}.{table.name}"
    if index.primary_key or index.unique_constraint:
        kind = "PRIMARY KEY" if index.primary_key else "UNIQUE KEY"
        return messages.error(2627, kind, index.name, name, f"({text})")
    return messages.error(2601, name, index.name, f"({text})")


def refuse_duplicates(connection: apsw.Connection, table: Table, index: Index) -> None:
    """Before a unique index is built: two equal keys in the table refuse it.

    Raises:
        SqlError: 1505 for two equal keys.
    """
    columns = ", ".join(f"c{column_id}" for column_id in index.column_ids)
    rows: list[tuple[StorageValue, ...]] = fetch(
        connection,
        f'SELECT {columns} FROM main."{table.sqlite_name}"{where_text(index)} GROUP BY {columns}'
        " HAVING count(*) > 1 LIMIT 1",
    )
    if rows:
        types = [table.columns[p].type for p in positions_of(table, index.column_ids)]
        text = ", ".join(value_text(v, t) for v, t in zip(rows[0], types, strict=True))
        raise messages.error(1505, f"{table.schema}.{table.name}", index.name, f"({text})")
