"""What is due of one table's files, decided from times alone."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

from tailrace_sink.delta import old_files
from tailrace_sink.plan.oldest_cut import DAY_MS, Tended, is_over

FULL_EVERY_MS: Final = 7 * DAY_MS
"""Time between two listings of a table's folder. Only they find files of writes that failed."""

_INTERVAL: Final = re.compile(r"interval (\d+) (hour|day|week)s?", re.IGNORECASE)
_UNIT_MS: Final = {"hour": 3_600_000, "day": DAY_MS, "week": 7 * DAY_MS}


@dataclass(frozen=True, slots=True)
class Oldest:
    """The version of a table in the oldest kept cut.

    Attributes:
        written_ms: when it was committed.
        left_ms: when the version after it was committed; None if it is the current one.
    """

    version: int
    written_ms: int
    left_ms: int | None


@dataclass(frozen=True, slots=True)
class Removal:
    """What VACUUM does to one table.

    Attributes:
        horizon_ms: files that left the table before it are removed.
        is_full: whether the folder is due to be listed.
        may_list: whether it may be: the table's state has a tombstone of each file that an older
            version needs.
    """

    horizon_ms: int
    is_full: bool
    may_list: bool


def is_due(before: Tended, now_ms: int) -> bool:
    """Whether a table was last tended a day ago or earlier."""
    return is_over(before.at_ms, now_ms, DAY_MS)


def is_listing_due(before: Tended, now_ms: int) -> bool:
    """Whether a table's folder was last listed a week ago or earlier."""
    return is_over(before.full_ms, now_ms, FULL_EVERY_MS)


def removal(
    before: Tended, now_ms: int, present_ms: int, oldest: Oldest | None, tombstones: str
) -> Removal:
    """Decide what to remove.

    Args:
        now_ms: the sink's clock, which decides what is due.
        present_ms: the storage's clock, by which files are old.
        oldest: None for a table of which only the current version is read.
        tombstones: Delta's property ``deletedFileRetentionDuration``; a form that is not understood
            counts as none kept.
    """
    is_full = is_listing_due(before, now_ms)
    if oldest is None or oldest.left_ms is None:
        return Removal(present_ms - old_files.SLACK_MS, is_full, may_list=True)
    may_list = present_ms - oldest.left_ms < _milliseconds(tombstones)
    return Removal(oldest.written_ms - old_files.SLACK_MS, is_full, may_list)


def tended(before: Tended, now_ms: int, *, has_listed: bool, through: int, trim_to: int) -> Tended:
    """Return the state of a table after a removal; ``through`` and ``trim_to`` are stored."""
    found = replace(before, through=through, at_ms=now_ms, trim_to=trim_to)
    return replace(found, full_ms=now_ms) if has_listed else found


def _milliseconds(interval: str) -> int:
    match = _INTERVAL.fullmatch(interval.strip())
    return 0 if match is None else int(match[1]) * _UNIT_MS[match[2].lower()]
