"""Whether a forecast is a reason to warn."""

from __future__ import annotations

from typing import Final

_NEAR_S: Final = 6 * 3600.0


class NearForecast:
    """Remembers whether a forecast was near, so that each growth is warned of once."""

    def __init__(self) -> None:
        self._is_near = False

    def is_news(self, left_s: float) -> bool:
        """Return whether the forecast is near now, and was not before.

        Args:
            left_s: seconds until it comes true; NaN, as infinity, is not near.
        """
        was_near, self._is_near = self._is_near, left_s < _NEAR_S
        return self._is_near and not was_near
