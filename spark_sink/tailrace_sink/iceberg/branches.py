"""How the staging branch of a table stands to its main branch."""

from __future__ import annotations

from itertools import takewhile
from typing import Final

from tailrace_sink.iceberg.loaded_table import Change, LoadedTable, Snapshot
from tailrace_sink.iceberg.names import BRANCH, MAIN
from tailrace_sink.iceberg.stamp import Stamp
from tailrace_sink.ports.writes import RowsChanged

MEANWHILE: Final = "while a batch was staged"


def staged_part(
    table: LoadedTable, snapshot: int, stamp: Stamp
) -> tuple[list[Snapshot], int | None]:
    """Return what a batch has staged up to a snapshot, oldest first, and what it is staged on."""
    found = list(takewhile(lambda of: of.stamp == stamp, table.history(snapshot)))
    return found[::-1], found[-1].parent if found else snapshot


def is_in_main(table: LoadedTable, snapshot: int, stamp: Stamp | None = None) -> bool:
    """Whether a snapshot is in the main branch, or was before it expired.

    Args:
        stamp: of the batch that staged it. What the batch is staged on ends the search.
    """
    base = None if stamp is None else staged_part(table, snapshot, stamp)[1]
    for found in table.history(table.head(MAIN)):
        if snapshot in (found.id, found.parent):
            return True
        if base in (found.id, found.parent):
            return False
    return False


def is_stray(table: LoadedTable, snapshot: int) -> bool:
    """Whether a snapshot was only staged, on the main branch as it is or was.

    Others roll back to an earlier snapshot, or replace the table: then it was published.
    """
    if table.was_main(snapshot):
        return False
    return not ids_of(table, snapshot).isdisjoint(ids_of(table, table.head(MAIN)))


def ids_of(table: LoadedTable, head: int | None) -> set[int]:
    """Return the ids of a snapshot and those before it."""
    return {found.id for found in table.history(head)}


def require_columns(table: LoadedTable, staged: Snapshot | None) -> None:
    """Require that the table has the columns of a staged snapshot.

    Raises:
        RowsChanged: somebody dropped one, and the snapshot may have values for it.
    """
    lost = [] if staged is None else table.lost_columns(staged.schema_id)
    if lost:
        change = f"column {', '.join(lost)} was dropped {MEANWHILE}"
        raise RowsChanged(str(table.name), change)


def stands_on_main(table: LoadedTable, snapshot: int, stamp: Stamp) -> bool:
    """Whether a staged snapshot is of this batch alone, on top of the main branch."""
    head = table.head(MAIN)
    for found in table.history(snapshot):
        if found.id == head:
            return True
        if found.stamp != stamp:
            return False
    return False


def set_back(table: LoadedTable) -> Change | None:
    """Return the change that sets the branch back to the main one; None if it is there."""
    head = table.head(MAIN)
    if head is None or table.head(BRANCH) == head:
        return None
    return table.with_heads({BRANCH: head})


def until(table: LoadedTable, head: int | None, known: set[int]) -> list[Snapshot]:
    """Return the snapshots of a branch after those that are known, newest first."""
    found: list[Snapshot] = []
    for snapshot in table.history(head):
        if snapshot.id in known:
            break
        found.append(snapshot)
    return found
