"""The states of a table and the transitions between them, as data.

``PublisherState`` alone stores a table's state, and only events change it. A pair of state and
event that is missing in the table below is a defect of the publisher and raises an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class TableState(StrEnum):
    """Where a table is; the values are those of ``snapshot_state`` in its checkpoint record."""

    MISSING = "missing"
    """Not captured, not selected, or never seen: it has no record."""
    FOUND = "found"
    """Captured, but not published and not decided about. It has no record yet."""
    PENDING = "pending"
    """Its changes are published; the snapshot of the rows before them has not started."""
    SNAPSHOTTING = "running"
    """Its changes and a part of its snapshot are published."""
    HALTED = "halted"
    """Its changes are published; an operator stopped its snapshot, so it is not part of the cut."""
    FOLLOWED = "done"
    """Its changes are published, and it is part of the cut."""
    REREADING = "rereading"
    """Like FOLLOWED, and a partial snapshot publishes some of its rows again."""
    LOST = "lost"
    """Changes were lost before they were published; it waits for a capture instance to restart."""
    STOPPED = "stopped"
    """It cannot continue until an operator or a new start of the publisher restarts it."""


class TableEvent(StrEnum):
    """What happens to a table."""

    CAPTURED = "captured"
    """It is among the captured and selected tables."""
    GONE = "gone"
    """It is not captured or not selected any more."""
    SNAPSHOT_WANTED = "snapshot wanted"
    """It starts with a snapshot, or gets a new one."""
    CHANGES_WANTED = "changes wanted"
    """It is new and starts with its changes from now on."""
    PART_WANTED = "part wanted"
    """An operator requested a partial snapshot."""
    ROWS_PUBLISHED = "rows published"
    """A part of its snapshot is published, and not the last one."""
    SNAPSHOT_PUBLISHED = "snapshot published"
    """The last part of its snapshot is published."""
    SNAPSHOT_STOPPED = "snapshot stopped"
    """An operator stopped its snapshot."""
    PLACE_LOST = "place lost"
    """Changes were lost before they were published, and it restarts automatically."""
    FAILED = "failed"
    """It cannot continue."""


_S, _E = TableState, TableEvent

TRANSITIONS: Final[Mapping[tuple[TableState, TableEvent], TableState]] = MappingProxyType(
    {
        (_S.MISSING, _E.CAPTURED): _S.FOUND,
        (_S.MISSING, _E.GONE): _S.MISSING,
        (_S.FOUND, _E.CAPTURED): _S.FOUND,
        (_S.FOUND, _E.GONE): _S.MISSING,
        (_S.FOUND, _E.SNAPSHOT_WANTED): _S.PENDING,
        (_S.FOUND, _E.CHANGES_WANTED): _S.FOLLOWED,
        (_S.FOUND, _E.PLACE_LOST): _S.LOST,
        (_S.FOUND, _E.FAILED): _S.STOPPED,
        (_S.PENDING, _E.CAPTURED): _S.PENDING,
        (_S.PENDING, _E.GONE): _S.MISSING,
        (_S.PENDING, _E.ROWS_PUBLISHED): _S.SNAPSHOTTING,
        (_S.PENDING, _E.SNAPSHOT_PUBLISHED): _S.FOLLOWED,
        (_S.PENDING, _E.SNAPSHOT_STOPPED): _S.HALTED,
        (_S.PENDING, _E.PLACE_LOST): _S.LOST,
        (_S.PENDING, _E.FAILED): _S.STOPPED,
        (_S.SNAPSHOTTING, _E.CAPTURED): _S.SNAPSHOTTING,
        (_S.SNAPSHOTTING, _E.GONE): _S.MISSING,
        (_S.SNAPSHOTTING, _E.ROWS_PUBLISHED): _S.SNAPSHOTTING,
        (_S.SNAPSHOTTING, _E.SNAPSHOT_PUBLISHED): _S.FOLLOWED,
        (_S.SNAPSHOTTING, _E.SNAPSHOT_STOPPED): _S.HALTED,
        (_S.SNAPSHOTTING, _E.PLACE_LOST): _S.LOST,
        (_S.SNAPSHOTTING, _E.FAILED): _S.STOPPED,
        (_S.HALTED, _E.CAPTURED): _S.HALTED,
        (_S.HALTED, _E.GONE): _S.MISSING,
        (_S.HALTED, _E.SNAPSHOT_WANTED): _S.PENDING,
        (_S.HALTED, _E.PLACE_LOST): _S.LOST,
        (_S.HALTED, _E.FAILED): _S.STOPPED,
        (_S.FOLLOWED, _E.CAPTURED): _S.FOLLOWED,
        (_S.FOLLOWED, _E.GONE): _S.MISSING,
        (_S.FOLLOWED, _E.SNAPSHOT_WANTED): _S.PENDING,
        (_S.FOLLOWED, _E.PART_WANTED): _S.REREADING,
        (_S.FOLLOWED, _E.PLACE_LOST): _S.LOST,
        (_S.FOLLOWED, _E.FAILED): _S.STOPPED,
        (_S.REREADING, _E.CAPTURED): _S.REREADING,
        (_S.REREADING, _E.GONE): _S.MISSING,
        (_S.REREADING, _E.SNAPSHOT_WANTED): _S.PENDING,
        (_S.REREADING, _E.ROWS_PUBLISHED): _S.REREADING,
        (_S.REREADING, _E.SNAPSHOT_PUBLISHED): _S.FOLLOWED,
        (_S.REREADING, _E.SNAPSHOT_STOPPED): _S.FOLLOWED,
        (_S.REREADING, _E.PLACE_LOST): _S.LOST,
        (_S.REREADING, _E.FAILED): _S.STOPPED,
        (_S.LOST, _E.CAPTURED): _S.LOST,
        (_S.LOST, _E.GONE): _S.MISSING,
        (_S.LOST, _E.SNAPSHOT_WANTED): _S.PENDING,
        (_S.LOST, _E.PLACE_LOST): _S.LOST,
        (_S.LOST, _E.FAILED): _S.STOPPED,
        (_S.STOPPED, _E.CAPTURED): _S.STOPPED,
        (_S.STOPPED, _E.GONE): _S.MISSING,
        (_S.STOPPED, _E.SNAPSHOT_WANTED): _S.PENDING,
        (_S.STOPPED, _E.PLACE_LOST): _S.LOST,
        (_S.STOPPED, _E.FAILED): _S.STOPPED,
    }
)
"""The next state by state and event; a missing pair is forbidden."""

WHOLE: Final = frozenset({_S.FOLLOWED, _S.REREADING})
"""States in which a table is part of the cut."""

UNREAD: Final = frozenset({_S.PENDING, _S.SNAPSHOTTING, _S.REREADING})
"""States in which a part of a table's snapshot is unread."""

PUBLISHED: Final = WHOLE | UNREAD | {_S.HALTED}
"""States in which a table's changes are published."""

STORED: Final = PUBLISHED | {_S.LOST, _S.STOPPED}
"""States that have a checkpoint record."""

OUT_OF_CUT: Final = STORED - WHOLE
"""States in which every progress record names the table, so that no reader takes it for whole."""


class ForbiddenTransition(Exception):
    """An event came in a state that forbids it: a defect of the publisher."""

    def __init__(self, state: TableState, event: TableEvent) -> None:
        self.state = state
        self.event = event
        super().__init__(f"event {event.name} does not happen in state {state.name}")


def state_after(state: TableState, event: TableEvent) -> TableState:
    """Return the state after an event.

    Raises:
        ForbiddenTransition: the state forbids the event.
    """
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise ForbiddenTransition(state, event) from None
