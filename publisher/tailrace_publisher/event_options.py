"""What becomes of events that cannot be published as they are."""

from __future__ import annotations

from enum import StrEnum


class OnBadEvent(StrEnum):
    """What an event does that does not fit its schema, or is too large."""

    FAIL = "fail"
    STOP_TABLE = "stop-table"
    DEAD_LETTER = "dead-letter"


class UnavailableValues(StrEnum):
    """What an event has in the place of a value that the change table does not hold."""

    MARK = "mark"
    PLACEHOLDER = "placeholder"
    RESELECT = "reselect"
