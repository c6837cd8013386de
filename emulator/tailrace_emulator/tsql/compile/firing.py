"""What a trigger sees of the statement that fired it: inserted, deleted, and which columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from tailrace_emulator.storage.model import Column
from tailrace_emulator.values.types import StorageValue

if TYPE_CHECKING:
    from tailrace_emulator.storage.model import Table

PSEUDO_TABLES: Final = frozenset({"inserted", "deleted"})

Row = tuple[StorageValue, ...]


@dataclass(frozen=True, slots=True)
class Firing:
    """One action of one statement on a table.

    Attributes:
        table: the table as it is now.
        event: INSERT, UPDATE or DELETE.
        inserted: full rows as they are after.
        deleted: full rows as they were before.
        column_ids: of an UPDATE: the columns of its SET.
        is_instead_of: whether the trigger replaces the statement.
    """

    table: Table
    event: str
    inserted: Sequence[Row] = ()
    deleted: Sequence[Row] = ()
    column_ids: frozenset[int] = frozenset()
    is_instead_of: bool = False

    def updates(self, column_id: int) -> bool:
        """UPDATE(column): an INSERT gives every column a value."""
        if self.event == "UPDATE":
            return column_id in self.column_ids
        return self.event == "INSERT"

    def columns_updated(self) -> bytes:
        """COLUMNS_UPDATED(): the lowest bit of the first byte is the column with id 1."""
        highest = max(column.column_id for column in self.table.columns)
        bits = bytearray((highest + 7) // 8)
        for column in self.table.columns:
            if self.updates(column.column_id):
                bits[(column.column_id - 1) >> 3] |= 1 << ((column.column_id - 1) & 7)
        return bytes(bits)


def pseudo_columns(table: Table) -> tuple[Column, ...]:
    """The columns of inserted and deleted: values as they are, nothing is generated in them."""
    return tuple(replace(column, identity=None) for column in table.columns)
