"""How long the publisher waits for what may heal, where that is bounded."""

from __future__ import annotations

from collections.abc import Callable


class Patience:
    """Counts from the first time that something is met until it is over.

    Args:
        clock: seconds of a clock that only goes forward.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since: float | None = None

    def has_ended(self, longest_s: float | None) -> bool:
        """Whether it has been met for too long.

        Args:
            longest_s: how long it may be; None for ever, which is not counted.
        """
        if longest_s is None:
            return False
        now = self._clock()
        if self._since is None:
            self._since = now
        return now - self._since > longest_s

    def renew(self) -> None:
        """It is over."""
        self._since = None
