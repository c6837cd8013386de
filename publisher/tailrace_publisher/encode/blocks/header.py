"""The fields of every change row before its values: its position and its update mask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tailrace_publisher.encode.blocks.byte_runs import Bytes
from tailrace_publisher.encode.blocks.cells import NULL_LENGTH, Cells
from tailrace_publisher.encode.columns.column_forms import Cell, Declined, Form
from tailrace_schemas.position.change_position import POSITION_BYTES
from tailrace_schemas.position.lsn import LSN_BYTES

HEADER_CELLS: Final = (
    Cell(Form.BYTES, LSN_BYTES),
    Cell(Form.LONG, 8),
    Cell(Form.BYTES, LSN_BYTES),
    Cell(Form.LONG, 8),
    Cell(Form.BYTES, 128),
)
"""Commit LSN, command id, seqval, operation, update mask (varbinary(128))."""

COMMAND_AT: Final = LSN_BYTES
"""Offset of the command id in a packed position; then of the others."""
SEQVAL_AT: Final = LSN_BYTES + 4
OPERATION_AT: Final = POSITION_BYTES - 1


@dataclass(frozen=True, slots=True)
class Header:
    """The fields of every change row before its values.

    Attributes:
        positions: packed positions, rows by bytes.
        masks: update masks, rows by bytes; zero if there is none.
    """

    positions: Bytes
    masks: Bytes

    @classmethod
    def of(cls, columns: Sequence[Cells]) -> Header:
        """Create from the five columns of a block, copied.

        Raises:
            Declined: a row has no position, or another operation.
        """
        commits, commands, seqvals, operations, masks = columns
        for cells in (commits, seqvals):
            if len(cells.lengths) and int(cells.lengths.min()) != LSN_BYTES:
                raise Declined("a row without a position")
        numbers = commands.data.view("<i8")[:, 0]
        kinds = operations.data.view("<i8")[:, 0]
        if commands.nulls is not None or operations.nulls is not None:
            raise Declined("a row without a position")
        if len(kinds) and not (1 <= int(kinds.min()) <= int(kinds.max()) <= 4):
            raise Declined("not an operation of 1 to 4")
        if len(numbers) and not (0 <= int(numbers.min()) <= int(numbers.max()) < 2**31):
            raise Declined("a command id below zero")
        positions = np.empty((len(kinds), POSITION_BYTES), np.uint8)
        positions[:, :LSN_BYTES] = commits.data
        positions[:, COMMAND_AT:SEQVAL_AT] = numbers.astype(">u4").view(np.uint8).reshape(-1, 4)
        positions[:, SEQVAL_AT:OPERATION_AT] = seqvals.data
        positions[:, OPERATION_AT] = kinds
        width = max(0, int(masks.lengths.max(initial=0)))
        kept = masks.data[:, :width].copy()
        kept[masks.lengths == NULL_LENGTH] = 0
        if not np.isin(masks.lengths, [NULL_LENGTH, width]).all():
            raise Declined("update masks of several lengths")
        return cls(positions, kept)

    def __len__(self) -> int:
        return len(self.positions)

    def position(self, row: int) -> bytes:
        """Return a row's packed position."""
        packed: bytes = self.positions[row].tobytes()
        return packed

    def first(self, rows: int) -> Header:
        """Return its first rows, so many."""
        return Header(self.positions[:rows], self.masks[:rows])
