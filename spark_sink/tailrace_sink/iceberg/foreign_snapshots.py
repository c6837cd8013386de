"""Snapshots of somebody else between two of a table that the sink writes.

A batch builds on the snapshot of the last commit row. Later ones on the main branch may be the
sink's own. Others must change no row: those that move rows to other files are ``replace``, and an
empty append has no files.

See: Iceberg Table Spec, "Snapshots" (``operation``, and counts of files in ``summary``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tailrace_sink.iceberg.loaded_table import LoadedTable, Snapshot
from tailrace_sink.iceberg.names import MAIN
from tailrace_sink.tables.exchanged_columns import exchanged_columns
from tailrace_sink.tables.schema_record import SCHEMA_RECORD_PROPERTY, record_batch

_REPLACE: Final = "replace"
_FILES: Final = (
    *("added-data-files", "deleted-data-files", "added-delete-files", "removed-delete-files"),
    *("added-records", "deleted-records", "added-dvs", "removed-dvs"),
)


def foreign_change(
    table: LoadedTable | None, since: int, log: str, spares: Callable[[Snapshot], bool]
) -> str | None:
    """Describe how somebody else has changed rows of the main branch since a snapshot, if so.

    Args:
        log: of the sink's stamps.
        spares: returns whether a snapshot left the sink's columns as they were.

    Returns:
        The first such snapshot, or that the known one is not below the newest; None: only the sink
        has changed rows.
    """
    head = None if table is None else table.head(MAIN)
    if table is None or head is None:
        now = "there is no table" if table is None else "the table has no snapshot"
        return f"{now}, and snapshot {since} is in the lake's cut"
    found = exchanged(table, since)
    if head == since or found is not None:
        return found
    for snapshot in table.history(head):
        stamp = snapshot.stamp
        is_own = stamp is not None and stamp.log == log
        if not (is_own or not _changes_rows(table, snapshot) or spares(snapshot)):
            found = f"snapshot {snapshot.id}: {snapshot.operation}"
        if snapshot.parent == since:
            return found
    return (
        f"snapshot {since} of the lake's cut is not below its newest snapshot {head}: it was rolled"
        " back or created again, or snapshots of it were removed"
    )


def exchanged(table: LoadedTable, since: int) -> str | None:
    """Describe how somebody else has exchanged columns since a snapshot, if so.

    The sink records its own changes of columns with their batch.
    """
    snapshot = table.snapshot(since)
    ids = None if snapshot is None else table.other_ids(snapshot.schema_id)
    if ids is None:
        return None
    batches = (of.stamp.batch for of in table.history(since) if of.stamp is not None)
    known = next((batch for batch in batches if batch is not None), 0)
    if record_batch(table.property(SCHEMA_RECORD_PROPERTY) or "") > known:
        return None
    return exchanged_columns(table.properties, *ids)


def _changes_rows(table: LoadedTable, snapshot: Snapshot) -> bool:
    if snapshot.operation == _REPLACE:
        return False
    counts = (table.summary_entry(snapshot.id, name) for name in _FILES)
    return any(count is not None and count != "0" for count in counts)
