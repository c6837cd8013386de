"""When an order of an operator does not apply."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tailrace_publisher.daemon.orders.table_orders import partial_refusal_of, refusal_of
from tailrace_publisher.daemon.tables.table_record import TableRecord
from tailrace_publisher.daemon.tables.table_state import TableState
from tailrace_schemas.records.signals import TableOrder

S, DO = TableState, TableOrder
READ = TableRecord(S.SNAPSHOTTING)
PAUSED = replace(READ, snapshot_paused=True)


@pytest.mark.parametrize(
    ("order", "record", "refusal"),
    [
        (DO.PAUSE_SNAPSHOT, READ, None),
        (DO.PAUSE_SNAPSHOT, TableRecord(S.PENDING), None),
        (DO.PAUSE_SNAPSHOT, PAUSED, "paused already"),
        (DO.PAUSE_SNAPSHOT, TableRecord(S.FOLLOWED), "no snapshot"),
        (DO.PAUSE_SNAPSHOT, TableRecord(S.HALTED), "no snapshot"),
        (DO.RESUME_SNAPSHOT, PAUSED, None),
        (DO.RESUME_SNAPSHOT, READ, "not paused"),
        (DO.RESUME_SNAPSHOT, TableRecord(S.HALTED), "request a new one"),
        (DO.RESUME_SNAPSHOT, TableRecord(S.STOPPED), "no snapshot"),
        (DO.STOP_SNAPSHOT, READ, None),
        (DO.STOP_SNAPSHOT, PAUSED, None),
        (DO.STOP_SNAPSHOT, TableRecord(S.HALTED), "stopped already"),
        (DO.STOP_SNAPSHOT, TableRecord(S.FOLLOWED), "no snapshot"),
        (DO.STOP_SNAPSHOT, TableRecord(S.REREADING), None),
        (DO.PAUSE_SNAPSHOT, TableRecord(S.REREADING), None),
        (DO.STOP_TABLE, TableRecord(S.STOPPED), "stopped already"),
        *((DO.STOP_TABLE, TableRecord(s), None) for s in S if s not in {S.STOPPED, S.MISSING}),
    ],
)
def test_it_says_why(order: TableOrder, record: TableRecord, refusal: str | None):
    found = refusal_of(order, record)
    assert (found is None) is (refusal is None)
    assert (refusal or "") in (found or "")


@pytest.mark.parametrize(
    ("state", "refusal"),
    [
        (S.FOLLOWED, None),
        (S.REREADING, "one is being read"),
        (S.PENDING, "its snapshot is being read"),
        (S.SNAPSHOTTING, "its snapshot is being read"),
        (S.FOUND, "nothing of it is published yet"),
        (S.HALTED, "it is halted: request a whole snapshot"),
        (S.LOST, "it is lost: request a whole snapshot"),
        (S.STOPPED, "it is stopped: request a whole snapshot"),
    ],
)
def test_a_partial_snapshot_is_of_a_whole_table(state: S, refusal: str | None):
    found = partial_refusal_of(TableRecord(state))
    assert (found is None) is (refusal is None)
    assert (refusal or "") in (found or "")
