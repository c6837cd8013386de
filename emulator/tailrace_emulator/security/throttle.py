"""Slows down who guesses passwords: each failed login of a name is answered later than the last.

The wait is the connection's own: it holds no lock and delays nobody else. It is bounded, so that
nobody can lock a name without knowing its password.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final

NAMES_MAX: Final = 1000
"""Names that are remembered, the oldest forgotten first."""


class LoginThrottle:
    """Failed logins in a row, by name; thread-safe.

    Args:
        delay_s: how long the answer to the first failure waits; each further one twice as long.
        delay_max_s: never longer than this; 0 turns waiting off.
    """

    def __init__(self, delay_s: float = 0.05, delay_max_s: float = 2.0) -> None:
        self._delay_s = delay_s
        self._delay_max_s = delay_max_s
        self._failures: OrderedDict[str, int] = OrderedDict()
        self._lock = threading.Lock()

    def failed(self, name: str) -> float:
        """A login failed; returns for how many seconds its answer has to wait."""
        folded = name.casefold()[:128]
        with self._lock:
            count = self._failures.pop(folded, 0) + 1
            self._failures[folded] = count
            while len(self._failures) > NAMES_MAX:
                self._failures.popitem(last=False)
        doublings = min(count - 1, 30)
        return float(min(self._delay_max_s, self._delay_s * 2**doublings))

    def succeeded(self, name: str) -> None:
        """A login succeeded: its failures are forgotten."""
        with self._lock:
            self._failures.pop(name.casefold()[:128], None)
