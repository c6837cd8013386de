"""The rows of one table that the stream told about while chunks of its snapshot wait (pure).

One dictionary serves all chunks of the table: it has the time at which each row was told last, and
a chunk asks for those since it began to be read.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Final

_ENTRY_BYTES: Final = 150
"""Of an entry beside the text of its identity: the bytes object, its slot, and room to grow."""


class ChangedRows:
    """Identities of rows, with the time at which each was told of last.

    Args:
        size_max: bytes from which on no more are kept.
    """

    def __init__(self, size_max: int) -> None:
        self._size_max = size_max
        self._told: dict[bytes, int] = {}
        self._time = 0
        self._size = 0
        self._is_complete = True

    @property
    def is_complete(self) -> bool:
        """Whether all were kept; if not, what waits cannot be compared and is read again."""
        return self._is_complete

    @property
    def now(self) -> int:
        """The time at which what is told now is kept."""
        return self._time

    @property
    def told(self) -> Set[bytes]:
        """The identities that are kept."""
        return self._told.keys()

    def mark(self) -> int:
        """The time now: what is told from here on counts for a chunk that begins to be read."""
        self._time += 1
        return self._time

    def tell(self, identities: Sequence[bytes] | None) -> None:
        """Keep what the stream told; None when it is not known which rows, or is too much."""
        if not self._is_complete or (identities is not None and not identities):
            return
        if identities is not None:
            before = len(self._told)
            self._told.update(dict.fromkeys(identities, self._time))
            mean = sum(map(len, identities)) // len(identities)
            self._size += (len(self._told) - before) * (mean + _ENTRY_BYTES)
        if identities is None or self._size > self._size_max:
            self._is_complete = False
            self._told.clear()

    def unchanged(self, identities: Sequence[bytes], since: int) -> list[int] | None:
        """Indexes of the rows that were not told of since a time; None when all of them are."""
        told = self._told
        if not told or told.keys().isdisjoint(identities):
            return None
        return [
            index for index, identity in enumerate(identities) if told.get(identity, -1) < since
        ]

    def forget_before(self, time: int) -> None:
        """Drop what no chunk that is left asks for."""
        if self._told:
            self._told = {row: at for row, at in self._told.items() if at >= time}
            self._size = sum(map(len, self._told)) + _ENTRY_BYTES * len(self._told)

    def clear(self) -> None:
        """No chunk is left: begin anew."""
        self._told = {}
        self._size = 0
        self._is_complete = True
