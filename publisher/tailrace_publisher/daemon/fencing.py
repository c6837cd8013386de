"""Telling a publisher that was replaced from one whose transaction only took too long.

Brokers answer both with the same error: the producer is fenced. What tells them apart is the
checkpoint. Whoever is fenced starts once more, which fences the other in turn, and looks: when
somebody else has committed since, it ends; when nobody has, or it was a commit of its own whose
outcome it did not learn, it goes on. Of two publishers with one
transactional id exactly one remains, and neither publishes anything twice.
"""

from __future__ import annotations

from collections.abc import Mapping

from tailrace_publisher.errors import LeaseLost
from tailrace_schemas.checkpoint import DatabaseCheckpoint
from tailrace_schemas.topics import TableName


class FencingCheck:
    """What this process last knew to be the database's checkpoint.

    Args:
        database: the database.
    """

    def __init__(self, database: str) -> None:
        self._database = database
        self._last: DatabaseCheckpoint | None = None
        self._tried: DatabaseCheckpoint | None = None
        self._is_in_doubt = False

    @property
    def has_checkpoint(self) -> bool:
        """Whether this process knows of a checkpoint."""
        return self._last is not None

    def found(
        self, current: DatabaseCheckpoint | None, stopped: Mapping[TableName, str] | None = None
    ) -> bool:
        """Look at the checkpoint at a start.

        Args:
            current: the database's own record.
            stopped: the tables that stand still in it, and why: who ends tells them, too.

        Returns:
            Whether it is the one that this process wrote last, so that nobody else has committed.

        Raises:
            LeaseLost: we were fenced, and somebody else has committed since.
        """
        if current is not None and current == self._tried:
            self.written(current)
        if self._is_in_doubt and current != self._last:
            raise LeaseLost(
                f"another publisher of database {self._database} with the same prefix has"
                " taken over: end one of them, or give it a prefix of its own"
                + _of_stopped(stopped or {})
            )
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
        self._is_in_doubt = False

    def doubt(self, error: LeaseLost) -> None:
        """We were fenced: the next start has to find out by whom.

        Raises:
            LeaseLost: the error, when the start before was already to find that out.
        """
        if self._is_in_doubt:
            raise error
        self._is_in_doubt = True


def _of_stopped(stopped: Mapping[TableName, str]) -> str:
    """Tables that nobody goes on with: the one that took over does not, either."""
    if not stopped:
        return ""
    told = "; ".join(sorted(f"{table} ({reason})" for table, reason in stopped.items()))
    return f". These tables are stopped, for that publisher, too, until tailrace snapshot: {told}"
