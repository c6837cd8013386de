"""Telling a publisher that was replaced from one whose transaction only took too long.

Brokers answer both with the same error: the producer is fenced. What tells them apart is the
checkpoint. Whoever is fenced starts once more, which fences the other in turn, and looks: when
somebody else has committed since, it ends; when nobody has, it goes on. Of two publishers with one
transactional id exactly one remains, and neither publishes anything twice.
"""

from __future__ import annotations

from tailrace_publisher.errors import LeaseLost
from tailrace_schemas.checkpoint import DatabaseCheckpoint


class FencingCheck:
    """What this process last knew to be the database's checkpoint.

    Args:
        database: the database.
    """

    def __init__(self, database: str) -> None:
        self._database = database
        self._last: DatabaseCheckpoint | None = None
        self._is_in_doubt = False

    @property
    def has_checkpoint(self) -> bool:
        """Whether this process knows of a checkpoint."""
        return self._last is not None

    def found(self, current: DatabaseCheckpoint | None) -> bool:
        """Look at the checkpoint at a start.

        Returns:
            Whether it is the one that this process wrote last, so that nobody else has committed.

        Raises:
            LeaseLost: we were fenced, and somebody else has committed since.
        """
        if self._is_in_doubt and current != self._last:
            raise LeaseLost(
                f"another publisher of database {self._database} with the same prefix has"
                " taken over: end one of them, or give it a prefix of its own"
            )
        is_ours = current is not None and current == self._last
        self._last = current
        return is_ours

    def written(self, record: DatabaseCheckpoint) -> None:
        """A transaction with this record is committed: nobody has fenced us."""
        self._last = record
        self._is_in_doubt = False

    def doubt(self, error: LeaseLost) -> None:
        """We were fenced: the next start has to find out by whom.

        Raises:
            LeaseLost: the error, when the start before was already to find that out.
        """
        if self._is_in_doubt:
            raise error
        self._is_in_doubt = True
