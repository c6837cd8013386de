"""How long the publisher waits for an error to heal, if that is bounded."""

from __future__ import annotations

from collections.abc import Callable


class Patience:
    """The time since an error first occurred.

    Args:
        clock: returns seconds of a monotonic clock.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since: float | None = None

    def has_ended(self, longest_s: float | None) -> bool:
        """Return whether the error has lasted too long.

        Args:
            longest_s: how long it may last; None means for ever, and is not counted.
        """
        if longest_s is None:
            return False
        now = self._clock()
        if self._since is None:
            self._since = now
        return now - self._since > longest_s

    def renew(self) -> None:
        """Forget the error: it is over."""
        self._since = None
