"""How long a readable secondary may be behind what was published."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

_REPLICA_BEHIND_MAX_S: Final = 3600.0


class Patience:
    """Waits for a secondary that is behind, but not for ever: it may have been restored.

    Args:
        clock: seconds of a clock that only goes forward.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since: float | None = None

    def has_ended(self) -> bool:
        """Whether it is behind again, and has been for too long."""
        now = self._clock()
        if self._since is None:
            self._since = now
        return now - self._since > _REPLICA_BEHIND_MAX_S

    def renew(self) -> None:
        """It is not behind any more."""
        self._since = None
