"""Cuts that the lake has, and those that retention removed."""

from __future__ import annotations

from datetime import UTC, datetime

from pyspark.sql import SparkSession

from tailrace_sink.errors import SinkError
from tailrace_sink.log.oldest_cut import OldestCut, OldestCutFile
from tailrace_sink.options.retention import retention_path


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


def require_kept(spark: SparkSession, lake: str, batch: int) -> None:
    """Raise :class:`CutForgotten` for a cut that is older than the oldest kept one."""
    oldest = oldest_cut(spark, lake)
    if batch < oldest.batch:
        raise CutForgotten(lake, f" of batch {batch}", oldest)


def oldest_cut(spark: SparkSession, lake: str) -> OldestCut:
    """Read the oldest kept cut of a lake."""
    commits = f"{lake}/_tailrace/commits"
    return OldestCutFile(spark, retention_path(lake), commits).read()
