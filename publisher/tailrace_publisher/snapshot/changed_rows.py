"""The rows of one table that changed while chunks of its snapshot wait (pure).

One dictionary serves all chunks of the table. It holds the logical time of each row's latest
change, and a chunk looks up the changes since its read started.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Final

_ENTRY_BYTES: Final = 150
"""Per entry, in addition to the identity's text: the bytes object, its slot, room to grow."""


class ChangedRows:
    """The identities of changed rows, each with the logical time of its latest change.

    Args:
        size_max: bytes; beyond them nothing more is stored.
    """

    def __init__(self, size_max: int) -> None:
        self._size_max = size_max
        self._changed_at: dict[bytes, int] = {}
        self._time = 0
        self._size = 0
        self._is_complete = True

    @property
    def is_complete(self) -> bool:
        """Whether every change is stored; if not, waiting chunks cannot be compared."""
        return self._is_complete

    @property
    def now(self) -> int:
        """The logical time under which a change is stored now."""
        return self._time

    @property
    def identities(self) -> Set[bytes]:
        """The identities of the changed rows."""
        return self._changed_at.keys()

    def mark(self) -> int:
        """Start a new logical time; changes from here on count for a chunk whose read starts."""
        self._time += 1
        return self._time

    def add(self, identities: Sequence[bytes] | None) -> None:
        """Store changed rows; None if they cannot be identified or are too many."""
        if not self._is_complete or (identities is not None and not identities):
            return
        if identities is not None:
            before = len(self._changed_at)
            self._changed_at.update(dict.fromkeys(identities, self._time))
            mean = sum(map(len, identities)) // len(identities)
            self._size += (len(self._changed_at) - before) * (mean + _ENTRY_BYTES)
        if identities is None or self._size > self._size_max:
            self._is_complete = False
            self._changed_at.clear()

    def unchanged(self, identities: Sequence[bytes], since: int) -> list[int] | None:
        """Return the indexes of the rows without a change since a time; None if no row changed."""
        changed_at = self._changed_at
        if not changed_at or changed_at.keys().isdisjoint(identities):
            return None
        return [
            index
            for index, identity in enumerate(identities)
            if changed_at.get(identity, -1) < since
        ]

    def forget_before(self, time: int) -> None:
        """Drop the changes before a time, which no remaining chunk needs."""
        if self._changed_at:
            self._changed_at = {row: at for row, at in self._changed_at.items() if at >= time}
            self._size = sum(map(len, self._changed_at)) + _ENTRY_BYTES * len(self._changed_at)

    def clear(self) -> None:
        """Drop all changes once no chunk remains."""
        self._changed_at = {}
        self._size = 0
        self._is_complete = True
