"""SQL statements that apply changes to a keyed table or delete rows from it."""

from __future__ import annotations

from collections.abc import Sequence

from tailrace_schemas.position.change_position import ChangePosition
from tailrace_schemas.position.lsn import Lsn
from tailrace_sink.options.modes import DeleteMode
from tailrace_sink.rows.last_change import available_flag
from tailrace_sink.tables.lake_table import (
    CDC_COLUMNS,
    LSN,
    OPERATION,
    POSITION,
    LakeTable,
    literal,
    quote,
)
from tailrace_sink.tables.origins import own_rows


def same_key(table: LakeTable, left: str, right: str) -> list[str]:
    """Conditions that two rows have the same key; null-safe, as a unique index may hold a NULL."""
    return [f"{left}.{quote(name)} <=> {right}.{quote(name)}" for name in table.key]


def merge_statement(
    name: str,
    view: str,
    table: LakeTable,
    large: Sequence[str],
    delete_mode: DeleteMode,
    whole_at: str | None = None,
    bounds: Sequence[str] = (),
    since: str = "",
) -> str:
    """Build the MERGE of a view of last changes into a keyed table.

    A row that is as new as its change stays: the change was applied before. Rows from before a
    snapshot are replaced whatever their position. On an idle database a row is read at the LSN of
    its last change, whose position is greater than the snapshot's.

    Args:
        name: of the table in SQL.
        large: names of large columns; ``view`` has a flag for each.
        whole_at: LSN of the cut, if the changes hold the whole table. Rows that they lack are
            deleted then.
        bounds: conditions on the target's keys, with which files are skipped.
        since: for a part of a snapshot: closed LSN before it; empty: unknown.
    """
    flags = {name: available_flag(index) for index, name in enumerate(large)}
    same = same_key(table, "t", "s")
    matched = " AND ".join([*same, *([] if whole_at is not None else bounds)])
    newer = "" if whole_at is not None else f" AND {_is_newer(since)}"
    assignments = []
    for of in [*(c.name for c in table.columns if not c.key_ordinal), *CDC_COLUMNS]:
        column = quote(of)
        value = f"s.{column}"
        if of in flags:
            value = f"CASE WHEN s.{flags[of]} THEN s.{column} ELSE t.{column} END"
        assignments.append(f"t.{column} = {value}")
    names = list(map(quote, [*(c.name for c in table.columns), *CDC_COLUMNS]))
    inserted = f"({', '.join(names)}) VALUES ({', '.join(f's.{name}' for name in names)})"
    update = f"WHEN MATCHED{newer} THEN UPDATE SET {', '.join(assignments)}"
    if delete_mode is DeleteMode.SOFT:
        clauses = [update, f"WHEN NOT MATCHED THEN INSERT {inserted}"]
    else:
        clauses = [
            f"WHEN MATCHED AND s.{OPERATION} = 'd'{newer} THEN DELETE",
            update,
            f"WHEN NOT MATCHED AND s.{OPERATION} <> 'd' THEN INSERT {inserted}",
        ]
    if whole_at is not None:
        gone = "THEN DELETE"
        if delete_mode is DeleteMode.SOFT:
            gone = f"AND t.{OPERATION} <> 'd' THEN UPDATE SET {soft_delete(whole_at)}"
        own = "" if table.origin is None else f"AND {own_rows(table, 't')} "
        clauses.append(f"WHEN NOT MATCHED BY SOURCE {own}{gone}")
    return f"MERGE INTO {name} t USING {view} s ON {matched} {' '.join(clauses)}"


def _is_newer(since: str) -> str:
    older = f" OR t.{LSN} <= {literal(since)}" if since else ""
    return f"(t.{POSITION} IS NULL OR s.{POSITION} > t.{POSITION}{older})"


def empty_statement(
    name: str, table: LakeTable, delete_mode: DeleteMode, cut: str, condition: str | None = None
) -> str:
    """Build the statement that deletes rows from a keyed table, or marks them as deleted.

    Args:
        name: of the table in SQL.
        cut: LSN of the cut, recorded as the LSN of soft deletes.
        condition: selects the rows; None: all.
    """
    if table.origin is not None:
        own = own_rows(table)
        condition = own if condition is None else f"{own} AND {condition}"
    if delete_mode is DeleteMode.HARD:
        return f"DELETE FROM {name}" + ("" if condition is None else f" WHERE {condition}")
    chosen = f"{OPERATION} <> 'd'" + ("" if condition is None else f" AND {condition}")
    return f"UPDATE {name} SET {soft_delete(cut)} WHERE {chosen}"


def soft_delete(cut: str) -> str:
    """Assignments for a row that the source lost at an unknown time."""
    return f"{OPERATION} = 'd', {LSN} = {literal(cut)}, {POSITION} = {snapshot_position(cut)}"


def snapshot_position(lsn: str) -> str:
    """SQL literal of the position of a snapshot row at an LSN."""
    return f"X'{ChangePosition.of_snapshot(Lsn.parse(lsn)).to_bytes().hex()}'"
