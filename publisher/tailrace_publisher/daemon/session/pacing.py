"""How long to wait between polls: almost nothing after news, longer while there is none."""

from __future__ import annotations

from typing import Final

FIRST_S: Final = 0.01
"""The pause after news, seconds; the statement of an idle poll itself takes some milliseconds."""

_GROWTH: Final = 1.5


class Pacing:
    """The pauses of one publisher.

    After a poll with news the next one follows in 10 ms. If the capture job scans often, or
    transactions follow one another, the next commit is near. Each poll without news multiplies the
    pause by one and a half, up to the longest.

    Args:
        longest_s: the longest pause, seconds; the first is not longer.
    """

    def __init__(self, longest_s: float) -> None:
        self._longest_s = longest_s
        self._next_s = min(FIRST_S, longest_s)

    def news(self) -> None:
        """Note that there was news: the next pause is the shortest again."""
        self._next_s = min(FIRST_S, self._longest_s)

    def pause_s(self) -> float:
        """Return the pause to make now, seconds."""
        pause_s = self._next_s
        self._next_s = min(pause_s * _GROWTH, self._longest_s)
        return pause_s
