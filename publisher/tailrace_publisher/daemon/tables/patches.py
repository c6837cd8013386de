"""When the patches of tables start, and what their end changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import structlog

from tailrace_publisher.daemon.tables.coverage import PublishedTable
from tailrace_publisher.daemon.tables.publisher_state import PublisherState
from tailrace_publisher.daemon.tables.table_state import TableState
from tailrace_publisher.snapshot.progress import SnapshotProgress
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.topic_names import TableName

_log = structlog.get_logger(__name__)


def patches_due(
    state: PublisherState, tables: Mapping[TableName, PublishedTable], position: Lsn
) -> Iterator[TableName]:
    """Yield the tables whose patch starts now; drop patches that are impossible.

    Args:
        position: the closed LSN. At the hand-over and before, events lack the columns, and events
            of a transaction come after rows that are read at its LSN. So a patch starts after it.
    """
    for name in list(state.patches()):
        record, table = state.of(name), tables.get(name)
        patch = record.patch
        if patch is None or table is None or record.state is not TableState.FOLLOWED:
            continue
        if position <= patch.after:
            continue
        newest = table.instances.newest
        if not (newest.identity and newest.key):
            _log.warning(
                "patch_impossible",
                table=str(name),
                columns=patch.columns,
                reason="it has no key that distinguishes its rows",
                effect="rows lack the values that these columns got before the hand-over",
                fix="take a new snapshot of it",
            )
            state.store(name, replace(record, patch=None))
            continue
        _log.info(
            "patch_started",
            table=str(name),
            columns=patch.columns,
            rows="all" if patch.is_whole else "with a value in these columns",
            after_lsn=str(patch.after),
        )
        yield name


def note_end(state: PublisherState, table: TableName, progress: SnapshotProgress) -> None:
    """Note that a table's snapshot is published, if it was its patch."""
    record = state.of(table)
    if not record.is_patched or record.patch is None:
        return
    _log.info(
        "patch_finished",
        table=str(table),
        columns=record.patch.columns,
        rows=progress.rows,
        whole_from_lsn=str(progress.fence),
    )
    state.patched[table] = record.patch.columns
    state.store(table, replace(record, patch=None))
