"""When to retry a table that could not be read; its failure is logged once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import structlog

from tailrace_publisher.errors import PublisherError
from tailrace_publisher.snapshot.pending import PendingTable
from tailrace_schemas.topics.topic_names import TableName
from tailrace_service.backoff import Backoff

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Pause:
    backoff: Backoff
    until: float = 0.0
    is_reported: bool = False


class Pauses:
    """Growing pauses of tables that cannot be read now.

    Args:
        longest_s: the longest pause, seconds.
        monotonic: seconds of a clock that is never set back.
    """

    def __init__(self, longest_s: float, monotonic: Callable[[], float]) -> None:
        self._longest_s = longest_s
        self._monotonic = monotonic
        self._pauses: dict[TableName, _Pause] = {}

    def is_paused(self, table: PendingTable) -> bool:
        """Return whether a table must not be read yet."""
        pause = self._pauses.get(table.name)
        return pause is not None and self._monotonic() < pause.until

    def pause(self, table: PendingTable, error: PublisherError | None) -> None:
        """Retry a table later.

        Args:
            table: the table that is to be read again.
            error: why it could not be read, logged once; None if it was read but must be read
                again.
        """
        pause = self._pauses.setdefault(table.name, _Pause(Backoff(self._longest_s)))
        pause.until = self._monotonic() + pause.backoff.next_s()
        if error is None or pause.is_reported:
            return
        pause.is_reported = True
        _log.warning(
            "snapshot_retrying",
            table=str(table.name),
            error=type(error).__name__,
            reason=str(error),
            effect="its snapshot waits; the stream and other snapshots continue",
        )

    def end(self, table: PendingTable) -> None:
        """End a table's pauses: it was read."""
        pause = self._pauses.pop(table.name, None)
        if pause is not None and pause.is_reported:
            attempts = pause.backoff.attempts
            _log.info("snapshot_resumed", table=str(table.name), attempts=attempts)
