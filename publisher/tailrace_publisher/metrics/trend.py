"""How fast a figure grows towards a limit, and so when it is there (pure).

Cleanup removes change rows that are older than its retention. Rows are lost once the publisher's
lag exceeds it. A lag alone says little: one publisher catches up from two days, another one stopped
an hour ago. So the growth of the lag, in seconds a second, is continued up to the retention. A
stopped publisher has the growth 1. Used space is continued likewise, in bytes a second.

The growth is the smallest one over several windows. A burst grows in the short window only. A
recovery ends the growth in the short window first. Neither is forecast as a loss.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Final

_WINDOWS_S: Final = (600.0, 3_600.0, 21_600.0)
"""A window counts once half of it is known."""
_EVERY_S: Final = 30.0
"""Time between two stored points: those of the longest window are 720."""
_FLAT: Final = 0.001
"""Growth a second below which there is none: 86 seconds, or bytes, a day."""


class Trend:
    """A figure over the last hours; written by one thread, read by any.

    Args:
        clock: seconds, from any start.
        is_lag: whether it grows by a second a second while it is not noted.
    """

    def __init__(self, clock: Callable[[], float], *, is_lag: bool) -> None:
        self._clock = clock
        self._is_lag = is_lag
        self._points: deque[tuple[float, float]] = deque(maxlen=int(_WINDOWS_S[-1] / _EVERY_S))
        self._last: tuple[float, float] | None = None

    def note(self, value: float) -> None:
        """Record the figure, e.g. a lag of 0 when everything that was captured is published."""
        if not math.isfinite(value):
            return
        now = self._clock()
        self._last = now, value
        if not self._points or now - self._points[-1][0] >= _EVERY_S:
            self._points.append(self._last)

    def seconds_until(self, limit: float) -> float:
        """Return the seconds until the figure reaches a limit.

        Returns:
            Infinity if it does not grow; NaN while too little is known.
        """
        last, points = self._last, tuple(self._points)
        if last is None or not math.isfinite(limit):
            return math.nan
        now = self._clock() if self._is_lag else last[0]
        value = last[1] + max(0.0, now - last[0])
        if value >= limit:
            return 0.0
        growths = [g for w in _WINDOWS_S if (g := _growth(points, w, now, value)) is not None]
        if not growths:
            return math.nan
        growth = min(growths)
        return (limit - value) / growth if growth > _FLAT else math.inf


def _growth(
    points: tuple[tuple[float, float], ...], window_s: float, now: float, value: float
) -> float | None:
    """Return the growth over a window, a second; None while half of it is not known."""
    first = next((point for point in points if now - point[0] <= window_s), None)
    if first is None or now - first[0] < window_s / 2:
        return None
    return (value - first[1]) / (now - first[0])
