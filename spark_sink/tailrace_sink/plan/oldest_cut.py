"""The oldest kept cut of a lake, from which all removal of old data follows. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Final

DAY_MS: Final = 86_400_000


@dataclass(frozen=True, slots=True)
class Tended:
    """The last removal of old files of a table.

    Attributes:
        through: version of the table that has no old files; -1 if it may have some.
        full_ms: when the table's folder was last listed for it.
        trim_to: version before which entries of the table's log still have to go; -1: none.
    """

    through: int
    at_ms: int
    full_ms: int
    trim_to: int = -1


@dataclass(frozen=True, slots=True)
class OldestCut:
    """The oldest kept cut, and what was last removed.

    Attributes:
        batch: of its commit row; 0 before the first look.
        commit_ms: source commit time of its LSN, milliseconds UTC.
        committed_ms: when its commit row was written.
        has_forgotten: whether any earlier cut was forgotten.
        chosen_ms: when it was last chosen.
        days, cuts: the options that were in force.
        tended: path below the lake to the last removal of old files.
        is_late: whether an earlier cut at the same LSN was forgotten.
    """

    batch: int = 0
    lsn: str = ""
    commit_ms: int | None = None
    committed_ms: int = 0
    has_forgotten: bool = False
    chosen_ms: int = 0
    days: float = 0.0
    cuts: int = 0
    tended: dict[str, Tended] = field(default_factory=dict)
    is_late: bool = False

    def to_json(self) -> str:
        """Convert to the text of the file."""
        return json.dumps(asdict(self))

    @classmethod
    def of_json(cls, text: str) -> OldestCut:
        """Read the text of the file."""
        found = json.loads(text)
        tended = {path: Tended(**of) for path, of in found.pop("tended").items()}
        return cls(**found, tended=tended)


def oldest_kept(rows: Iterable[tuple[int, int]], days: float, cuts: int, now_ms: int) -> int:
    """Return the batch of the oldest cut that is kept; 0 without any cut.

    A point in the promised days is read from the newest cut before it. So the newest of the cuts
    that are too old is kept, too.

    Args:
        rows: batch of each cut, with the time of its commit in milliseconds.
        days, cuts: bounds of what is kept.
    """
    newest_first = sorted(rows, reverse=True)[:cuts]
    since = now_ms - round(days * DAY_MS)
    for batch, committed_ms in newest_first:
        if committed_ms <= since:
            return batch
    return newest_first[-1][0] if newest_first else 0
