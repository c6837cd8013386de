"""Growing pauses between the attempts at something that failed."""

from __future__ import annotations

from typing import Final

_DOUBLINGS_MAX: Final = 30


class Backoff:
    """Pauses that double with each attempt, up to a bound in seconds.

    Attributes:
        attempts: pauses since the last reset.
    """

    def __init__(self, longest_s: float, *, first_s: float = 0.25) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self.attempts = 0

    def next_s(self) -> float:
        """Count another attempt, and give the seconds to pause before it."""
        pause_s = min(self._first_s * 2 ** min(self.attempts, _DOUBLINGS_MAX), self._longest_s)
        self.attempts += 1
        return float(pause_s)

    def reset(self) -> None:
        """Start with the shortest pause again."""
        self.attempts = 0
