"""A table's states: every event in every state is either in the table of transitions or refused."""

from __future__ import annotations

import itertools

import pytest

from tailrace_publisher.daemon.tables.table_state import (
    OUT_OF_CUT,
    PUBLISHED,
    STORED,
    TRANSITIONS,
    UNREAD,
    WHOLE,
    ForbiddenTransition,
    TableEvent,
    TableState,
    state_after,
)

S, E = TableState, TableEvent

EXPECTED = {
    S.MISSING: {E.CAPTURED: S.FOUND, E.GONE: S.MISSING},
    S.FOUND: {
        E.CAPTURED: S.FOUND,
        E.GONE: S.MISSING,
        E.SNAPSHOT_WANTED: S.PENDING,
        E.CHANGES_WANTED: S.FOLLOWED,
        E.PLACE_LOST: S.LOST,
        E.FAILED: S.STOPPED,
    },
    S.PENDING: {
        E.CAPTURED: S.PENDING,
        E.GONE: S.MISSING,
        E.ROWS_PUBLISHED: S.SNAPSHOTTING,
        E.SNAPSHOT_PUBLISHED: S.FOLLOWED,
        E.SNAPSHOT_STOPPED: S.HALTED,
        E.PLACE_LOST: S.LOST,
        E.FAILED: S.STOPPED,
    },
    S.SNAPSHOTTING: {
        E.CAPTURED: S.SNAPSHOTTING,
        E.GONE: S.MISSING,
        E.ROWS_PUBLISHED: S.SNAPSHOTTING,
        E.SNAPSHOT_PUBLISHED: S.FOLLOWED,
        E.SNAPSHOT_STOPPED: S.HALTED,
        E.PLACE_LOST: S.LOST,
        E.FAILED: S.STOPPED,
    },
    S.HALTED: {
        E.CAPTURED: S.HALTED,
        E.GONE: S.MISSING,
        E.SNAPSHOT_WANTED: S.PENDING,
        E.PLACE_LOST: S.LOST,
        E.FAILED: S.STOPPED,
    },
    S.FOLLOWED: {
        E.CAPTURED: S.FOLLOWED,
        E.GONE: S.MISSING,
        E.SNAPSHOT_WANTED: S.PENDING,
        E.PART_WANTED: S.REREADING,
        E.PLACE_LOST: S.LOST,
        E.FAILED: S.STOPPED,
    },
    S.REREADING: {
        E.CAPTURED: S.REREADING,
        E.GONE: S.MISSING,
        E.SNAPSHOT_WANTED: S.PENDING,
        E.ROWS_PUBLISHED: S.REREADING,
        E.SNAPSHOT_PUBLISHED: S.FOLLOWED,
        E.SNAPSHOT_STOPPED: S.FOLLOWED,
        E.PLACE_LOST: S.LOST,
        E.FAILED: S.STOPPED,
    },
    S.LOST: {
        E.CAPTURED: S.LOST,
        E.GONE: S.MISSING,
        E.SNAPSHOT_WANTED: S.PENDING,
        E.PLACE_LOST: S.LOST,
        E.FAILED: S.STOPPED,
    },
    S.STOPPED: {
        E.CAPTURED: S.STOPPED,
        E.GONE: S.MISSING,
        E.SNAPSHOT_WANTED: S.PENDING,
        E.PLACE_LOST: S.LOST,
        E.FAILED: S.STOPPED,
    },
}


@pytest.mark.parametrize(
    ("state", "event"), list(itertools.product(S, E)), ids=lambda value: value.name.lower()
)
def test_every_event_in_every_state(state: TableState, event: TableEvent):
    expected = EXPECTED[state].get(event)
    if expected is not None:
        assert state_after(state, event) is expected
        return
    with pytest.raises(ForbiddenTransition, match=f"{event.name} .* {state.name}") as raised:
        state_after(state, event)
    assert (raised.value.state, raised.value.event) == (state, event)


def test_nobody_is_told_of_a_table_without_a_record_and_every_other_one_is_told_of():
    assert set(S) - STORED == {S.MISSING, S.FOUND}
    assert STORED - OUT_OF_CUT == WHOLE == {S.FOLLOWED, S.REREADING}
    assert UNREAD < PUBLISHED < STORED
    assert set(S) - PUBLISHED == {S.MISSING, S.FOUND, S.LOST, S.STOPPED}


def test_every_state_is_reached_and_left():
    reached = {after for (before, _), after in TRANSITIONS.items() if before is not after}
    left = {before for (before, _), after in TRANSITIONS.items() if before is not after}
    assert reached == left == set(S)
