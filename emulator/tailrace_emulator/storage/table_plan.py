"""What writing to a table needs to know, worked out once per version of the table."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Final

from tailrace_emulator.storage.collation import ordering_of, value_key
from tailrace_emulator.storage.index_filter import row_filter
from tailrace_emulator.storage.model import ForeignKey, Identity, Index, Table
from tailrace_emulator.values.types import MAX, StorageValue

Row = tuple[StorageValue, ...]

CHUNK_ROWS: Final = 256
CHUNK_LARGE_ROWS: Final = 8
"""Where a row may hold values of megabytes."""


ForeignKeys = tuple[
    tuple[object, int],
    list[tuple[ForeignKey, tuple[int, ...]]],
    list[tuple[Table, ForeignKey, tuple[int, ...]]],
]


class UniqueKey:
    """A unique index, with what checking it needs at hand."""

    __slots__ = ("collations", "column_ids", "filter", "index", "nullable", "positions")

    def __init__(self, table: Table, index: Index) -> None:
        self.index = index
        self.column_ids = index.column_ids
        self.positions = positions_of(table, index.column_ids)
        columns = [table.columns[position] for position in self.positions]
        self.nullable = any(column.nullable for column in columns)
        self.collations = tuple(ordering_of(c.type) or "" for c in columns)

        self.filter = row_filter(table, index.filter) if index.filter else None

    def covers(self, row: Row) -> bool:
        """Whether the index has the row: one with a filter may not."""
        return self.filter is None or self.filter.covers(row)

    def covered(self, rows: Iterable[Row]) -> Iterable[Row]:
        """Those rows that the index has."""
        return rows if self.filter is None else filter(self.filter.covers, rows)

    def values(self, row: Row) -> Row:
        """The key's values in a row."""
        return tuple([row[position] for position in self.positions])

    def resource(self, row: Row) -> Hashable:
        """The key as something to lock: equal for equal keys."""
        return (
            self.index.index_id,
            *[
                value_key(value, collation) if isinstance(value, str) else value
                for value, collation in zip(self.values(row), self.collations, strict=True)
            ],
        )


class TablePlan:
    """What writing to a table needs to know, worked out once per version of the table."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.column_ids = tuple(column.column_id for column in table.columns)
        self.required = tuple(
            position
            for position, column in enumerate(table.columns)
            if not column.nullable and column.computed is None
        )
        self.all_required = len(self.required) == len(table.columns)
        self.identity_position = -1
        self.identity = Identity()
        self.row_version_position = -1
        for position, column in enumerate(table.columns):
            if column.identity is not None:
                self.identity_position = position
                self.identity = column.identity
            if column.type.name == "timestamp":
                self.row_version_position = position
        kept = table.kept_indexes
        self.unique = tuple(UniqueKey(table, index) for index in kept if index.unique)
        self.ignoring = tuple(key for key in self.unique if key.index.ignore_dup_key)
        """Those whose duplicates an INSERT leaves out."""
        moved = {c for index in kept if index.unique or index.clustered
                 for c in index.column_ids}  # fmt: skip
        self.key_positions = tuple(
            position for position, column_id in enumerate(self.column_ids) if column_id in moved
        )
        self.keys = frozenset(self.key_positions)
        indexed = {c for index in kept for c in index.column_ids}
        self.indexed_positions = tuple(
            position for position, column_id in enumerate(self.column_ids) if column_id in indexed
        )
        large = any(c.type.length == MAX or c.type.name in {"text", "ntext", "image", "xml"}
                    for c in table.columns)  # fmt: skip
        self.chunk_rows = CHUNK_LARGE_ROWS if large else CHUNK_ROWS
        self.foreign_keys: ForeignKeys | None = None
        """Set by the foreign keys' checks: whose schema they are of, those out and those in."""

    def resources(self, rids: Iterable[int], rows: Iterable[Row]) -> list[Hashable]:
        """Everything that new rows lock: their ids and their unique keys."""
        resources: list[Hashable] = list(rids)
        for key in self.unique:
            resources += [key.resource(row) for row in key.covered(rows)]
        return resources

    def found_elsewhere(self, old: Row, new: Row) -> bool:
        """Whether an update changes an indexed column."""
        return any(old[position] != new[position] for position in self.indexed_positions)

    def key_changed(self, old: Row, new: Row) -> bool:
        """Whether an update moves the row: a unique or clustered key has another value."""
        return any(old[position] != new[position] for position in self.key_positions)


def positions_of(table: Table, column_ids: Sequence[int]) -> tuple[int, ...]:
    """Where these columns are in a row."""
    at = {column.column_id: position for position, column in enumerate(table.columns)}
    return tuple(at[column_id] for column_id in column_ids)
