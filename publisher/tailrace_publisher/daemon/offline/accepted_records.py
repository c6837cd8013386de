"""What the acceptance of a database writes: checkpoints, and a progress record for readers."""

from __future__ import annotations

import json
from dataclasses import replace

from tailrace_publisher.daemon.offline.lost_history import LostHistory
from tailrace_publisher.daemon.offline.own_record import Rewrite
from tailrace_publisher.daemon.offline.repairable import rows_of
from tailrace_publisher.daemon.tables.publisher_state import PublisherState
from tailrace_publisher.daemon.tables.table_state import TableEvent, TableState
from tailrace_publisher.runtime import DatabaseTopics
from tailrace_publisher.snapshot.lost_rows import LostRows
from tailrace_publisher.source.log.identity import DatabaseIdentity
from tailrace_schemas.records.checkpoint import DatabaseCheckpoint
from tailrace_schemas.records.progress import LOST_HEADER, Progress
from tailrace_schemas.topics.topic_names import TableName


def accepting(
    topics: DatabaseTopics,
    state: PublisherState,
    own: DatabaseCheckpoint,
    found: DatabaseIdentity,
    lost: LostHistory,
    again: frozenset[TableName],
    repaired: frozenset[TableName],
) -> Rewrite:
    """Return what the acceptance of a database writes.

    The progress record closes nothing. It leaves out the tables that start again, so that no reader
    takes their next rows for those of an earlier snapshot.

    Args:
        state: restored from the checkpoint; changed by this.
        own: the database's own record in it.
        again: published tables that start again by a snapshot.
        repaired: published tables whose rows are read again by their keys.
    """
    now_ms = topics.kafka.clock.now_ms()
    for table in again:
        _start_again(state, table)
    for table in repaired:
        _start_repair(state, table, rows_of(lost, topics.names.data(table)))
    checkpoints = state.records_to_write(_as_found(own, found, now_ms), now_ms)
    if lost.is_nothing:
        return Rewrite(checkpoints)
    closed = str(own.closed_lsn)
    progress = Progress(
        shard=0,
        server=topics.server,
        database=topics.database,
        after_lsn=closed,
        closed_lsn=closed,
        closed_commit_ms=None,
        closed=False,
        published_ms=now_ms,
        snapshotting=[topics.names.data(t) for t in state.out_of_cut() if t not in again],
    )
    told = {
        "kept_lsn": None if lost.kept is None else str(lost.kept),
        "through_lsn": str(lost.through),
        "events": {topic: lost.events[topic].events for topic in sorted(lost.events)},
        "snapshots": sorted(topics.names.data(table) for table in again),
        "repairs": sorted(topics.names.data(table) for table in repaired),
    }
    return Rewrite(checkpoints, progress, ((LOST_HEADER, json.dumps(told).encode()),))


def _start_again(state: PublisherState, table: TableName) -> None:
    """Let a published table start again by a snapshot."""
    if state.of(table).state in {TableState.PENDING, TableState.SNAPSHOTTING}:
        state.happened(table, TableEvent.SNAPSHOT_STOPPED)
    unread = state.of(table).without_snapshot(state.position.commit_lsn)
    state.happened(table, TableEvent.SNAPSHOT_WANTED, unread)


def _start_repair(state: PublisherState, table: TableName, rows: LostRows) -> None:
    """Let a published table read some rows again; an unfinished repair of them starts again."""
    if state.of(table).state is TableState.REREADING:
        state.happened(table, TableEvent.SNAPSHOT_STOPPED)
    record = state.of(table)
    unread = replace(
        record, repair=rows, snapshot_fence=None, resume_key=None, snapshot_rows=0, snapshot_bytes=0
    )
    state.happened(table, TableEvent.PART_WANTED, unread)


def _as_found(own: DatabaseCheckpoint, found: DatabaseIdentity, now_ms: int) -> DatabaseCheckpoint:
    """Return the record with the present database, without the commit of the old one."""
    return replace(
        own,
        database_guid=found.database_guid,
        recovery_fork_guid=found.recovery_fork_guid,
        family_guid=found.family_guid,
        tran_end_time=None,
        tran_id=None,
        written_ms=now_ms,
    )
