"""How fast the publisher falls behind, and so when cleanup reaches what is not published (pure).

Cleanup removes change rows that are older than its retention. Rows are lost once the publisher's
lag exceeds it. A lag alone says little: one publisher catches up from two days, another one stopped
an hour ago. So the growth of the lag, in seconds a second, is continued up to the retention. A
stopped publisher has the growth 1.

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
"""Growth below this is none: 86 seconds a day."""


class LagTrend:
    """The lag of the last hours; written by one thread, read by any.

    Args:
        clock: seconds, from any start.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._points: deque[tuple[float, float]] = deque(maxlen=int(_WINDOWS_S[-1] / _EVERY_S))
        self._last: tuple[float, float] | None = None

    def note(self, lag_s: float) -> None:
        """Record the lag; 0 when everything that was captured is published."""
        if not math.isfinite(lag_s):
            return
        now = self._clock()
        self._last = now, lag_s
        if not self._points or now - self._points[-1][0] >= _EVERY_S:
            self._points.append(self._last)

    def seconds_until(self, limit_s: float) -> float:
        """Return the seconds until the lag reaches a limit.

        Nothing was published since the last :meth:`note`, so the lag has grown by that time.

        Returns:
            Infinity if the lag does not grow; NaN while too little is known.
        """
        last, points = self._last, tuple(self._points)
        if last is None or not math.isfinite(limit_s):
            return math.nan
        now = self._clock()
        lag_s = last[1] + max(0.0, now - last[0])
        if lag_s >= limit_s:
            return 0.0
        growths = [g for w in _WINDOWS_S if (g := _growth(points, w, now, lag_s)) is not None]
        if not growths:
            return math.nan
        growth = min(growths)
        return (limit_s - lag_s) / growth if growth > _FLAT else math.inf


def _growth(
    points: tuple[tuple[float, float], ...], window_s: float, now: float, lag_s: float
) -> float | None:
    """Return the growth over a window, seconds a second; None while half of it is not known."""
    first = next((point for point in points if now - point[0] <= window_s), None)
    if first is None or now - first[0] < window_s / 2:
        return None
    return (lag_s - first[1]) / (now - first[0])
