"""Where the driver writes blocks of rows: cells of fixed width, column by column.

Theory of operation. One arena serves all statements of a connection and is divided again for each.
It has a cell for every row and column, and the length of each value. So memory does not grow with
the number of tables, and a block has as many rows as fit. There are two places, which blocks use in
turn, so one block can be used while the next is fetched. Single values have a place of their own.
"""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tailrace_publisher.encode.blocks.byte_runs import Bytes
from tailrace_publisher.encode.blocks.cells import Cells
from tailrace_publisher.encode.columns.column_forms import Cell

ARENA_BYTES: Final = 8_000_000
"""Bytes of one block that the driver writes to."""
PLACES: Final = 2
"""Blocks that can be in use at a time."""
ROWS_MIN: Final = 64
"""Lowest number of rows of a block: with fewer, a block costs more than it saves."""
_ALIGNED: Final = 8
_LENGTH_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the cells of a block are.

    Attributes:
        cells: how each column is read.
        rows: rows of a block at most.
        stride: bytes from one place to the next; 0 if there is only one.
        columns: of each column, the offsets of its lengths and its cells in a place.
    """

    cells: tuple[Cell, ...]
    rows: int
    arena: Bytes
    stride: int
    columns: tuple[tuple[int, int], ...]

    def is_like(self, other: Layout) -> bool:
        """Return whether its cells are those of another layout."""
        return self.cells == other.cells and self.rows == other.rows

    def views(self, place: int, count: int) -> list[Cells]:
        """Return the columns of a block with so many rows in a place."""
        arena = self.arena[place * self.stride :]
        return [
            Cells(
                arena[data : data + count * cell.width].reshape(count, cell.width),
                arena[lengths : lengths + count * _LENGTH_BYTES].view(np.int64),
            )
            for cell, (lengths, data) in zip(self.cells, self.columns, strict=True)
        ]


class BlockMemory:
    """The memory of one connection; pages that are never written to occupy none."""

    def __init__(self) -> None:
        self._arena = np.empty(0, np.uint8)
        self._aside = np.empty(0, np.uint8)

    def for_blocks(self, cells: Sequence[Cell], rows: int) -> Layout:
        """Divide the arena into places of blocks; a block in use is not changed."""
        columns, size = _cut(cells, rows)
        if len(self._arena) < PLACES * size:
            self._arena = _pages(PLACES * max(size, ARENA_BYTES))
        return Layout(tuple(cells), rows, self._arena, len(self._arena) // PLACES, columns)

    def for_value(self, cell: Cell) -> Layout:
        """Reserve the place of a single value."""
        columns, size = _cut([cell], 1)
        if len(self._aside) < size:
            self._aside = np.empty(size, np.uint8)
        return Layout((cell,), 1, self._aside, 0, columns)


def _pages(size: int) -> Bytes:
    """Return memory of small pages: NumPy requests huge ones, of which a place fills few."""
    return np.frombuffer(mmap.mmap(-1, size), np.uint8)


def rows_of(cells: Sequence[Cell], arena: int = ARENA_BYTES) -> int:
    """Return how many rows of such cells a block can have."""
    row = sum(cell.width + _LENGTH_BYTES for cell in cells)
    return max(0, arena - 2 * _ALIGNED * len(cells)) // row


def _cut(cells: Sequence[Cell], rows: int) -> tuple[tuple[tuple[int, int], ...], int]:
    """Return the offsets of each column's lengths and cells, and the bytes of all."""
    columns: list[tuple[int, int]] = []
    end = 0
    for cell in cells:
        columns.append((end, end + rows * _LENGTH_BYTES))
        end += rows * (_LENGTH_BYTES + cell.width)
        end += -end % _ALIGNED
    return tuple(columns), end
