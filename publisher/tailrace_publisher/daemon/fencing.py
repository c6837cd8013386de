"""Telling a publisher that was replaced from one whose transaction only took too long.

Brokers answer both with the same error: the producer is fenced. What tells them apart is the
checkpoint. Whoever is fenced starts once more, which fences the other in turn, and looks: when
somebody else has committed since, it ends; when nobody has, it goes on. Of two publishers with one
transactional id exactly one remains, and neither publishes anything twice.
"""

from __future__ import annotations

from collections.abc import Mapping

from tailrace_publisher.errors import LeaseLost
from tailrace_schemas.checkpoint import CheckpointKey, CheckpointRecord


class FencingCheck:
    """What this process last knew to be the database's checkpoint.

    Args:
        key: of the database's own checkpoint record.
    """

    def __init__(self, key: CheckpointKey) -> None:
        self._key = key
        self._last: CheckpointRecord | None = None
        self._is_in_doubt = False

    @property
    def has_checkpoint(self) -> bool:
        """Whether this process knows of a checkpoint."""
        return self._last is not None

    def found(self, records: Mapping[CheckpointKey, CheckpointRecord]) -> bool:
        """Look at the checkpoint at a start.

        Returns:
            Whether it is the one that this process wrote last, so that nobody else has committed.

        Raises:
            LeaseLost: we were fenced, and somebody else has committed since.
        """
        current = records.get(self._key)
        if self._is_in_doubt and current != self._last:
            raise LeaseLost(
                f"another publisher of database {self._key.database} with the same prefix has"
                " taken over: end one of them, or give it a prefix of its own"
            )
        is_ours = current is not None and current == self._last
        self._last = current
        return is_ours

    def written(self, records: Mapping[CheckpointKey, CheckpointRecord | None]) -> None:
        """A transaction with these records is committed: nobody has fenced us."""
        self._last = records.get(self._key, self._last)
        self._is_in_doubt = False

    def doubt(self, error: LeaseLost) -> None:
        """We were fenced: the next start has to find out by whom.

        Raises:
            LeaseLost: the error, when the start before was already to find that out.
        """
        if self._is_in_doubt:
            raise error
        self._is_in_doubt = True
