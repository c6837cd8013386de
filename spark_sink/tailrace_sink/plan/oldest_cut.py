"""The oldest kept cut of a lake, from which all removal of old data follows. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from typing import Final

DAY_MS: Final = 86_400_000


def is_over(since_ms: int, now_ms: int, span_ms: int) -> bool:
    """Whether a span has passed since a moment; or the clock went back to before it.

    Otherwise a clock that had jumped ahead would put everything off until it gets there again.
    """
    return not 0 <= now_ms - since_ms < span_ms


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
        chosen_ms: the moment that it was chosen for, which is a day ago or longer.
        days, cuts: the options that were in force.
        tended: path below the lake to the last removal of old files.
        is_late: whether an earlier cut at the same LSN was forgotten.
        seen_ms: what the clock said a day ago or less; it counts once it said more a day later.
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
    seen_ms: int = 0

    def is_due(self, now_ms: int) -> bool:
        """Whether the clock says another day than at the last look, or went back."""
        return is_over(self.seen_ms or self.chosen_ms, now_ms, DAY_MS)

    def look(self, now_ms: int) -> OldestCut:
        """Return the cut with the moment to choose for, and with what the clock says.

        A clock that jumps ahead would forget all cuts but one. So it counts only once it has gone
        on from there for a day; until then cuts are kept as at the look before.
        """
        if not self.chosen_ms:
            return replace(self, chosen_ms=now_ms, seen_ms=now_ms)
        seen_ms = self.seen_ms or self.chosen_ms
        if now_ms < seen_ms:  # it went back: what it said before does not count
            return replace(self, chosen_ms=min(self.chosen_ms, now_ms), seen_ms=now_ms)
        if now_ms - seen_ms >= DAY_MS:
            return replace(self, chosen_ms=seen_ms, seen_ms=now_ms)
        return self

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

    A cut whose time is in the future, or before that of an earlier cut, is not chosen: the clock
    was wrong then.

    Args:
        rows: batch of each cut, with the time of its commit in milliseconds.
        days, cuts: bounds of what is kept.
    """
    kept = sorted(rows)[-cuts:]
    since = now_ms - round(days * DAY_MS)
    oldest, latest_ms = kept[0][0] if kept else 0, 0
    for batch, committed_ms in kept:
        if latest_ms <= committed_ms <= now_ms:
            latest_ms = committed_ms
            if committed_ms <= since:
                oldest = batch
    return oldest
