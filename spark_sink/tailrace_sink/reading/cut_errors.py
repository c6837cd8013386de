"""Errors of cuts that cannot be read."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Self

from tailrace_sink.errors import SinkError
from tailrace_sink.plan.oldest_cut import OldestCut


class PointInvalid(SinkError, ValueError):
    """A point of the source that is written neither as an LSN nor as a time."""


class CutUnknown(SinkError):
    """The lake has no cut at or before the point, or the cut lacks the table."""

    @classmethod
    def no_lake(cls, lake: str, commits: str) -> Self:
        """Create the error of an address without a commit table."""
        return cls(
            f"{lake} is not a lake of Tailrace: it has no commit table at {commits}. Fix: use the"
            " address in sink.lake, or start the sink (tailrace sink), which creates the table"
        )

    @classmethod
    def no_cut(cls, lake: str, phrase: str, newest: Mapping[str, Any] | None) -> Self:
        """Create the error of a point before the lake's first cut.

        Args:
            newest: newest row of the commit table; None if it is empty.
        """
        if newest is None:
            return cls(f"lake {lake} has no cut yet. Fix: wait for the sink's first batch")
        at = f"LSN {newest['through_lsn']} ({newest['through_commit_time']})"
        return cls(f"lake {lake} has no cut{phrase}. Fix: choose a later one, up to {at}")


class CutForgotten(CutUnknown):
    """Retention (``sink.retention``) removed the cut.

    Attributes:
        oldest_lsn: LSN of the oldest kept cut.
    """

    def __init__(self, lake: str, which: str, oldest: OldestCut) -> None:
        self.oldest_lsn = oldest.lsn
        at = f"{oldest.lsn}@{oldest.batch}" if oldest.is_late else oldest.lsn
        if oldest.commit_ms is not None:
            at += f" of {datetime.fromtimestamp(oldest.commit_ms / 1000, UTC)}"
        super().__init__(
            f"lake {lake} has forgotten its cut{which}: sink.retention keeps {oldest.days:g} days"
            f" and at most {oldest.cuts} cuts, and the oldest kept cut is at LSN {at}."
            " Fix: read that cut or a later one; for cuts to come, raise sink.retention.days or"
            " sink.retention.cuts"
        )


def require_first(lake: str, batch: int, phrase: str, oldest: OldestCut) -> None:
    """Raise :class:`CutForgotten` if the first cut at an LSN was removed, and a later one kept.

    Args:
        batch: of the first commit row that is left at the LSN.
        phrase: of the point (``Point.phrase``).
    """
    if oldest.is_late and batch <= oldest.batch:
        raise CutForgotten(lake, phrase, oldest)
