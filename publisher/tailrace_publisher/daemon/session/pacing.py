"""How long to wait between polls: next to nothing behind news, longer while there is none."""

from __future__ import annotations

from typing import Final

FIRST_S: Final = 0.01
"""The pause behind news, seconds: a statement of an idle poll takes some milliseconds itself."""

_GROWTH: Final = 1.5


class Pacing:
    """The pauses of one publisher.

    Behind a poll with news the next one follows after 10 ms: where the capture job scans often, or
    a transaction follows another, the next commit is near. Each poll without news makes the pause
    half as long again, up to the longest.

    Args:
        longest_s: the longest pause, seconds; the first is not longer.
    """

    def __init__(self, longest_s: float) -> None:
        self._longest_s = longest_s
        self._next_s = min(FIRST_S, longest_s)

    def news(self) -> None:
        """There was news: the next pause is the shortest again."""
        self._next_s = min(FIRST_S, self._longest_s)

    def pause_s(self) -> float:
        """The pause to make now, seconds."""
        pause_s = self._next_s
        self._next_s = min(pause_s * _GROWTH, self._longest_s)
        return pause_s
