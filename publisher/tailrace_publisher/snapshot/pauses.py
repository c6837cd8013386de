"""When a table that could not be read is tried again; it is told once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import structlog

from tailrace_publisher.errors import PublisherError
from tailrace_publisher.snapshot.pending import PendingTable

_log = structlog.get_logger(__name__)

_FIRST_S: Final = 0.25


@dataclass(slots=True)
class _Pause:
    attempts: int
    until: float
    is_told: bool


class Pauses:
    """Growing pauses of tables that cannot be read now.

    Args:
        longest_s: the longest pause, seconds.
        monotonic: seconds of a clock that only goes forward.
    """

    def __init__(self, longest_s: float, monotonic: Callable[[], float]) -> None:
        self._longest_s = longest_s
        self._monotonic = monotonic
        self._pauses: dict[str, _Pause] = {}

    def is_paused(self, topic: str) -> bool:
        """Whether the table of a topic is not to be read yet."""
        pause = self._pauses.get(topic)
        return pause is not None and self._monotonic() < pause.until

    def pause(self, table: PendingTable, error: PublisherError | None) -> None:
        """Try a table again later.

        Args:
            table: the table.
            error: what keeps it from being read, which is told once; None when that was told.
        """
        pause = self._pauses.setdefault(table.topic, _Pause(0, 0.0, is_told=False))
        pause_s = min(_FIRST_S * 2 ** min(pause.attempts, 30), self._longest_s)
        pause.attempts += 1
        pause.until = self._monotonic() + pause_s
        if error is None or pause.is_told:
            return
        pause.is_told = True
        _log.warning(
            "snapshot_retrying",
            table=str(table.instance.table),
            error=type(error).__name__,
            reason=str(error),
            effect="its snapshot waits; the stream and the snapshots of other tables go on",
        )

    def end(self, table: PendingTable) -> None:
        """A table was read."""
        pause = self._pauses.pop(table.topic, None)
        if pause is not None and pause.is_told:
            _log.info("snapshot_resumed", table=str(table.instance.table), attempts=pause.attempts)
