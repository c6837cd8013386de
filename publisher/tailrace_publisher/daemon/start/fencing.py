"""Telling a publisher that was replaced from one whose transaction only took too long.

Brokers answer both with the same error: the producer is fenced. What tells them apart is the
checkpoint. A fenced publisher waits, so that the other can commit, and looks: if somebody else has
committed since, it ends; if nobody has, or it was a commit of its own whose outcome it did not
learn, it starts again, which fences the other in turn. Each time it waits twice as long, so one of
two publishers has the time for its first commit: exactly one remains.
"""

from __future__ import annotations

from collections.abc import Mapping

from tailrace_publisher.errors import PublisherReplaced
from tailrace_schemas.records.checkpoint import DatabaseCheckpoint
from tailrace_schemas.topics.topic_names import TableName


class FencingCheck:
    """What this process last knew to be the database's checkpoint.

    Args:
        database: the database.
    """

    def __init__(self, database: str) -> None:
        self._database = database
        self._last: DatabaseCheckpoint | None = None
        self._tried: DatabaseCheckpoint | None = None
        self._doubts = 0
        self._is_replaced = False

    @property
    def has_checkpoint(self) -> bool:
        """Whether this process knows of a checkpoint."""
        return self._last is not None

    @property
    def is_in_doubt(self) -> bool:
        """Whether we were fenced, and do not know by whom."""
        return self._doubts > 0

    def check(
        self, current: DatabaseCheckpoint | None, stopped: Mapping[TableName, str] | None = None
    ) -> None:
        """Look at the checkpoint before a start fences whoever publishes.

        Args:
            current: the database's own record.
            stopped: the tables that are stopped in it, and why: the error names them, too.

        Raises:
            PublisherReplaced: we were fenced, and somebody else has committed since.
        """
        if self.is_in_doubt and current not in (self._last, self._tried):
            self._is_replaced = True
            raise PublisherReplaced(
                f"another publisher of database {self._database} with the same prefix has"
                " taken over: end one of them, or give it a prefix of its own"
                + _of_stopped(stopped or {})
            )

    def found(
        self, current: DatabaseCheckpoint | None, stopped: Mapping[TableName, str] | None = None
    ) -> bool:
        """Look at the checkpoint at a start, when nobody else can write it any more.

        Args:
            current: as of :meth:`check`.
            stopped: the same.

        Returns:
            Whether it is the one that this process wrote last, so that nobody else has committed.

        Raises:
            PublisherReplaced: as of :meth:`check`.
        """
        self.check(current, stopped)
        if current is not None and current == self._tried:
            self.written(current)
        is_ours = current is not None and current == self._last
        self._last = current
        self._tried = None
        return is_ours

    def writing(self, record: DatabaseCheckpoint) -> None:
        """A transaction with this record is about to be committed, perhaps without an answer."""
        self._tried = record

    def written(self, record: DatabaseCheckpoint) -> None:
        """A transaction with this record is committed: nobody has fenced us."""
        self._last = record
        self._tried = None
        self._doubts = 0

    def doubt(self, error: PublisherReplaced, heartbeat_s: float) -> float:
        """We were fenced: the next start has to find out by whom.

        Args:
            error: that says so.
            heartbeat_s: how often a publisher commits at least, seconds.

        Returns:
            How long to wait before that start, seconds.

        Raises:
            PublisherReplaced: the error, when another publisher was found to have taken over.
        """
        if self._is_replaced:
            raise error
        self._doubts += 1
        return float(heartbeat_s * 2 ** min(self._doubts - 1, 30))


def _of_stopped(stopped: Mapping[TableName, str]) -> str:
    """Tables that nobody goes on with: the one that took over does not, either."""
    if not stopped:
        return ""
    told = "; ".join(sorted(f"{table} ({reason})" for table, reason in stopped.items()))
    return f". These tables are stopped, for that publisher, too, until tailrace snapshot: {told}"
