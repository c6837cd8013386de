"""How long a Kafka transaction waits for rows that are known to come."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

_WORTH: Final = 4
_WAIT_MAX_S: Final = 1.0


class CommitPace:
    """Decides when a transaction that holds rows has waited long enough.

    A commit takes longer the more partitions it has, and nothing is sent while it runs. So a
    transaction stays open four times as long as a commit takes, but at most one second. Commits
    then take at most a fifth of the time. With a backlog of more than a window it waits the whole
    second. Few large transactions take half of the brokers' time, and their rows are late anyway.
    Without a linger time it never waits.

    Args:
        linger_s: shortest wait of a transaction.

    Attributes:
        is_behind: whether more is waiting at the source than is being read.
    """

    def __init__(self, linger_s: float, monotonic: Callable[[], float]) -> None:
        self._linger_s = linger_s
        self._monotonic = monotonic
        self._opened_at = 0.0
        self._took_s = 0.0
        self.is_behind = False

    def opened(self) -> None:
        """Note that the first rows of a transaction are sent."""
        self._opened_at = self._monotonic()

    @contextmanager
    def committing(self) -> Iterator[None]:
        """Measure how long the commit within takes."""
        started_at = self._monotonic()
        yield
        self._took_s = self._monotonic() - started_at

    def is_due(self) -> bool:
        """Return whether to commit even if more rows may come."""
        wait_s = self._linger_s
        if wait_s:
            longer_s = _WAIT_MAX_S if self.is_behind else min(_WORTH * self._took_s, _WAIT_MAX_S)
            wait_s = max(wait_s, longer_s)
        return self._monotonic() - self._opened_at >= wait_s
