"""The distinction between a replaced publisher and one whose transaction only took too long.

Brokers answer both with the same error: the producer is fenced. The checkpoint distinguishes them.
A fenced publisher waits, so that the other one can commit, and then reads the checkpoint. If
another publisher has committed since, it ends. If not, or if the new commit is its own, whose
outcome it did not learn, it starts again and fences the other one. Each wait is twice as long as
the last one. So one of two publishers has enough time for its first commit, and exactly one
remains.
"""

from __future__ import annotations

from collections.abc import Mapping

from tailrace_publisher.errors import PublisherReplaced
from tailrace_schemas.records.checkpoint import DatabaseCheckpoint
from tailrace_schemas.topics.topic_names import TableName


class FencingCheck:
    """The last checkpoint of the database that this process knows."""

    def __init__(self, database: str) -> None:
        self._database = database
        self._last: DatabaseCheckpoint | None = None
        self._tried: DatabaseCheckpoint | None = None
        self._doubts = 0
        self._is_fenced = False
        self._is_replaced = False

    @property
    def has_checkpoint(self) -> bool:
        """Whether this process knows of a checkpoint."""
        return self._last is not None

    @property
    def is_fenced(self) -> bool:
        """Whether this publisher was fenced and has not taken its transactional id again.

        Only then does it check first and fence later: no transaction of its own is open. After any
        other failure one may be, and hide the checkpoint until the id is taken.
        """
        return self._is_fenced

    def check(
        self, current: DatabaseCheckpoint | None, stopped: Mapping[TableName, str] | None = None
    ) -> None:
        """Check the checkpoint before a start fences the present publisher.

        Args:
            current: the database's own record.
            stopped: its stopped tables with the reasons, which the error names, too.

        Raises:
            PublisherReplaced: this publisher was fenced, and another one has committed since.
        """
        if self._doubts and current not in (self._last, self._tried):
            self._is_replaced = True
            raise PublisherReplaced(
                f"another publisher of database {self._database} with the same prefix has"
                " taken over. Fix: stop one of them, or give it a prefix of its own"
                + _of_stopped(stopped or {})
            )

    def found(
        self, current: DatabaseCheckpoint | None, stopped: Mapping[TableName, str] | None = None
    ) -> bool:
        """Check the checkpoint at a start, when no other publisher can write it any more.

        Takes the arguments of :meth:`check`.

        Returns:
            Whether this process wrote it last, so that no other publisher has committed.

        Raises:
            PublisherReplaced: as :meth:`check` raises it.
        """
        self.check(current, stopped)
        if current is not None and current == self._tried:
            self.written(current)
        is_ours = current is not None and current == self._last
        self._last = current
        self._tried = None
        self._is_fenced = False
        return is_ours

    def writing(self, record: DatabaseCheckpoint) -> None:
        """Note that a commit of this record is about to start; its outcome may stay unknown."""
        self._tried = record

    def written(self, record: DatabaseCheckpoint) -> None:
        """Note that this record is committed, so nobody has fenced this publisher."""
        self._last = record
        self._tried = None
        self._doubts = 0

    def doubt(self, error: PublisherReplaced, heartbeat_s: float) -> float:
        """Note that this publisher was fenced; the next start must find out by whom.

        Args:
            heartbeat_s: longest time between two commits of a publisher, seconds.

        Returns:
            How long to wait before that start, seconds.

        Raises:
            PublisherReplaced: the error, if another publisher was found to have taken over.
        """
        if self._is_replaced:
            raise error
        self._doubts += 1
        self._is_fenced = True
        return float(heartbeat_s * 2 ** min(self._doubts - 1, 30))


def _of_stopped(stopped: Mapping[TableName, str]) -> str:
    """Describe stopped tables: the publisher that took over does not continue them, either."""
    if not stopped:
        return ""
    tables = "; ".join(sorted(f"{table} ({reason})" for table, reason in stopped.items()))
    return f". These tables are stopped, for that publisher, too, until tailrace snapshot: {tables}"
