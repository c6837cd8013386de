"""Times of the source's commits, as people write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def time_of_text(text: str) -> datetime:
    """Read a time in ISO 8601.

    Raises:
        ValueError: the text has another form; its words say how a time is written.
    """
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:
        raise ValueError(
            f"{text!r} is not a time. Fix: write ISO 8601, as in 2026-11-22T14:05:00+01:00;"
            " without an offset it is UTC"
        ) from error


def milliseconds(moment: datetime) -> int:
    """Convert a time to whole milliseconds since 1970; without a zone it is UTC.

    A float would turn 1.007 s into 1006 ms.
    """
    zoned = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return (zoned - _EPOCH) // timedelta(milliseconds=1)
