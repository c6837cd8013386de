"""What a foreign key's CASCADE, SET NULL or SET DEFAULT changed: the triggers of that table ask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from emulator.storage.model import Table
from emulator.types import StorageValue

Row = tuple[StorageValue, ...]


@dataclass(frozen=True, slots=True)
class Cascade:
    """One table's share, for one parent row.

    Attributes:
        table: the table with the foreign key.
        event: UPDATE or DELETE.
        inserted: rows after, for UPDATE.
        deleted: rows before.
        column_ids: the columns of the foreign key, for UPDATE.
    """

    table: Table
    event: str
    inserted: Sequence[Row]
    deleted: Sequence[Row]
    column_ids: frozenset[int] = frozenset()
