"""Errors of cuts that cannot be read."""

from __future__ import annotations

from datetime import UTC, datetime

from tailrace_sink.errors import SinkError
from tailrace_sink.plan.oldest_cut import OldestCut


class CutUnknown(SinkError):
    """The lake has no cut at or before the point, or the cut lacks the table."""


class CutForgotten(CutUnknown):
    """Retention (``sink.retention``) removed the cut.

    Attributes:
        oldest_lsn: LSN of the oldest kept cut.
    """

    def __init__(self, lake: str, which: str, oldest: OldestCut) -> None:
        self.oldest_lsn = oldest.lsn
        at = ""
        if oldest.commit_ms is not None:
            at = f" of {datetime.fromtimestamp(oldest.commit_ms / 1000, UTC)}"
        super().__init__(
            f"lake {lake} has forgotten its cut{which}: sink.retention keeps {oldest.days:g} days"
            f" and at most {oldest.cuts} cuts, and the oldest kept cut is at LSN {oldest.lsn}{at}."
            " Fix: read that cut or a later one; for cuts to come, raise sink.retention.days or"
            " sink.retention.cuts"
        )
