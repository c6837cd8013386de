"""RAND(): the generator of two combined sequences that SQL Server uses (L'Ecuyer, 1988).

The constants of the seeds are inferred from values that documents show: RAND(100), RAND(), RAND()
is 0.715436657367485, 0.28463380767982, 0.0131039082850364.

https://learn.microsoft.com/sql/t-sql/functions/rand-transact-sql
"""

from __future__ import annotations

import secrets
from typing import Final

_FIRST: Final = (40014, 2147483563)
_SECOND: Final = (40692, 2147483399)
_SCALE: Final = 4.656613e-10
_SEED_OF_ZERO: Final = 12345
_SECOND_SEED: Final = 67890


class RandomNumbers:
    """The numbers of one session; it begins somewhere by chance."""

    def __init__(self) -> None:
        self._first = self._second = 0
        self.seed(secrets.randbelow(_FIRST[1] - 1) + 1)

    def seed(self, number: int) -> None:
        """RAND(number): what follows is fixed."""
        self._first = abs(number) % _FIRST[1] or _SEED_OF_ZERO
        self._second = _SECOND_SEED

    def next(self) -> float:
        """The next number, between 0 and 1."""
        self._first = self._first * _FIRST[0] % _FIRST[1]
        self._second = self._second * _SECOND[0] % _SECOND[1]
        difference = self._first - self._second
        if difference < 1:
            difference += _FIRST[1] - 1
        return difference * _SCALE
