"""How many progress records are read at once. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

SLICE_BYTES: Final = 8 * 1024 * 1024
"""Bytes of progress records read at once; decoded, they take about ten times as much memory."""
_FIRST: Final = 200
_MOST: Final = 20_000
_GROWTH: Final = 4


def fitting(sizes: Iterable[tuple[int, int]], bytes_max: int) -> int | None:
    """Return the last number whose bytes, plus those before it, are within a bound.

    Args:
        sizes: numbers with their bytes, in order.

    Returns:
        At least the first number; None if there is none.
    """
    last, total = None, 0
    for number, size in sizes:
        total += size
        if last is not None and total > bytes_max:
            break
        last = number
    return last


class SliceSize:
    """The number of offsets of the next slice, by the size of the last records.

    The next records may be larger. So for more than 200 offsets their lengths are read first.

    Args:
        bytes_max: of the records of a slice.

    Attributes:
        offsets: at most so many; 200 at first.
    """

    def __init__(self, bytes_max: int = SLICE_BYTES) -> None:
        self._bytes_max = bytes_max
        self.offsets = _FIRST

    def learn(self, offsets: int, size: int) -> None:
        """Record how many bytes some offsets had."""
        as_many = offsets * self._bytes_max // max(1, size)
        self.offsets = max(1, min(as_many, self.offsets * _GROWTH, _MOST))

    def may_be_large(self, offsets: int) -> bool:
        """Whether the lengths of so many offsets must be read before their records."""
        return offsets > _FIRST
