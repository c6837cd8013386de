"""What a database changed since a common state, and how two such histories differ (pure).

A restored database has another history since the fork than the topics. The image before a row's
first change is the common state. The image after its last change is the present state. Rows that
neither side changed are equal. So no table is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace


class HistoriesContradict(ValueError):
    """An image is not what the changes before it leave: one of the histories lacks changes."""


@dataclass(frozen=True, slots=True)
class RowChange:
    """A change of one row, or several in one.

    Attributes:
        before: its image before the change; None if it did not exist.
        after: its image after the change; None if it does not exist any more.
    """

    key: bytes
    before: bytes | None
    after: bytes | None


class RowHistory:
    """The changes of a table's rows since a common state, in one of the histories."""

    def __init__(self) -> None:
        self._rows: dict[bytes, RowChange] = {}

    def __len__(self) -> int:
        """Number of changed rows."""
        return len(self._rows)

    def add(self, change: RowChange) -> None:
        """Add the next change.

        Raises:
            HistoriesContradict: the row was not left as the change found it.
        """
        known = self._rows.get(change.key)
        if known is None:
            self._rows[change.key] = change
        elif known.after == change.before:
            self._rows[change.key] = replace(known, after=change.after)
        else:
            raise HistoriesContradict("a change does not start from the row that precedes it")

    def differences(self, own: RowHistory) -> Iterator[RowChange]:
        """Yield the changes that turn this history's rows into those of another.

        Args:
            own: the other history, from the same common state.

        Raises:
            HistoriesContradict: the histories do not start from the same row.
        """
        for key in {**self._rows, **own._rows}:
            ours, theirs = self._rows.get(key), own._rows.get(key)
            if ours is not None and theirs is not None and ours.before != theirs.before:
                raise HistoriesContradict("the two histories start from different rows")
            common = ours or theirs
            before = None if common is None else common.before
            is_now = before if ours is None else ours.after
            becomes = before if theirs is None else theirs.after
            if is_now != becomes:
                yield RowChange(key, is_now, becomes)
