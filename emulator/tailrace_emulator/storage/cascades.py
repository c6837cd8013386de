"""What a foreign key's CASCADE, SET NULL or SET DEFAULT changed: the triggers of that table ask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tailrace_emulator.storage.model import Table
from tailrace_emulator.values.types import StorageValue

Row = tuple[StorageValue, ...]


@dataclass(frozen=True, slots=True)
class Cascade:
    """One table's share, for one parent row.

    Attributes:
        table: the table with the foreign key.
        event: either UPDATE or DELETE.
        inserted: rows after, for UPDATE.
        deleted: rows as they were before.
        column_ids: the columns of the foreign key, for UPDATE.
    """

    table: Table
    event: str
    inserted: Sequence[Row]
    deleted: Sequence[Row]
    column_ids: frozenset[int] = frozenset()


class RowRules(Protocol):
    """What T-SQL knows of a table's rows and storage does not: its expressions."""

    def defaults(self, table: Table, positions: Sequence[int]) -> dict[int, StorageValue]:
        """The defaults of the columns at those positions; NULL where there is none."""

    def completed(self, table: Table, row: Row, statement: str) -> Row:
        """A changed row with its persisted computed columns.

        Args:
            statement: INSERT, UPDATE, DELETE or MERGE, for messages.

        Raises:
            SqlError: 547 when a CHECK constraint is false.
        """
