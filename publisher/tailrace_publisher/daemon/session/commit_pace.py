"""How long a Kafka transaction waits for rows that are known to come."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

_WORTH: Final = 4
_WAIT_MAX_S: Final = 1.0


class CommitPace:
    """Says when a transaction that holds rows has waited for long enough.

    A commit takes the brokers longer the more partitions it is of, and while it is waited for
    nothing is sent. So at most a fifth of the time goes to commits, but where that would make a
    transaction wait for longer than a second. It waits that second where there is a backlog of more
    than a window: few and large transactions take half of the brokers' time, and none of their rows
    is news. Without a linger time it waits for nothing.

    Args:
        linger_s: how long a transaction waits in any case.
        monotonic: the clock.

    Attributes:
        is_behind: whether more is known to come than is being read.
    """

    def __init__(self, linger_s: float, monotonic: Callable[[], float]) -> None:
        self._linger_s = linger_s
        self._monotonic = monotonic
        self._opened_at = 0.0
        self._took_s = 0.0
        self.is_behind = False

    def opened(self) -> None:
        """The first rows of a transaction are sent."""
        self._opened_at = self._monotonic()

    @contextmanager
    def committing(self) -> Iterator[None]:
        """Within, a transaction is committed."""
        began = self._monotonic()
        yield
        self._took_s = self._monotonic() - began

    def is_due(self) -> bool:
        """Whether to commit though there may be more rows."""
        wait_s = self._linger_s
        if wait_s:
            longer_s = _WAIT_MAX_S if self.is_behind else min(_WORTH * self._took_s, _WAIT_MAX_S)
            wait_s = max(wait_s, longer_s)
        return self._monotonic() - self._opened_at >= wait_s
