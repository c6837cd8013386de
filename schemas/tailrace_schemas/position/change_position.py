"""Where a change stands: the one order of everything."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from tailrace_schemas.position.lsn import Lsn

POSITION_BYTES: Final = 25
_LAYOUT: Final = struct.Struct(">10sI10sB")


class Operation(IntEnum):
    """``__$operation`` of a change table; READ is ours, for rows of the initial snapshot."""

    READ = 0
    DELETE = 1
    INSERT = 2
    UPDATE_BEFORE = 3
    UPDATE_AFTER = 4


@dataclass(frozen=True, slots=True, order=True)
class ChangePosition:
    """Position of a change row: the clustered order of a change table.

    The field order IS the order, the ORDER BY, the page key, the merge key, the resume predicate
    and the stored offset. Why all four: ``__$start_lsn`` with ``__$seqval`` is not unique, since a
    key update gives operations 1 and 2 with one seqval. And seqval is not monotonic inside a
    transaction with deferred updates (ADR 0002).

    Attributes:
        commit_lsn: ``__$start_lsn``, the LSN of the commit record.
        command_id: ``__$command_id``; 0 if the change table lacks the column.
        operation: ``__$operation``, or READ for a snapshot row.
    """

    commit_lsn: Lsn
    command_id: int
    seqval: Lsn
    operation: Operation

    @classmethod
    def of_snapshot(cls, fence: Lsn) -> ChangePosition:
        """Position of a snapshot row that is known to be current at ``fence``.

        It is before every change of that commit. If that transaction changed the same key, the
        snapshot has dropped its row.
        """
        return cls(fence, 0, Lsn.ZERO, Operation.READ)

    @classmethod
    def end_of(cls, commit_lsn: Lsn) -> ChangePosition:
        """The position after every change of a transaction."""
        return cls(commit_lsn, 0xFFFFFFFF, Lsn.MAX, Operation.UPDATE_AFTER)

    def to_bytes(self) -> bytes:
        """25 bytes whose unsigned byte order is the position's order."""
        return _LAYOUT.pack(
            self.commit_lsn.to_bytes(), self.command_id, self.seqval.to_bytes(), self.operation
        )

    @classmethod
    def from_bytes(cls, raw: bytes) -> ChangePosition:
        """The inverse of :meth:`to_bytes`.

        Raises:
            ValueError: wrong length or operation.
        """
        if len(raw) != POSITION_BYTES:
            raise ValueError(f"a position has {POSITION_BYTES} bytes, not {len(raw)}")
        commit, command, seqval, operation = _LAYOUT.unpack(raw)
        return cls(Lsn.from_bytes(commit), command, Lsn.from_bytes(seqval), Operation(operation))

    def __str__(self) -> str:
        """Commit LSN/command id/seqval/operation."""
        return f"{self.commit_lsn}/{self.command_id}/{self.seqval}/{int(self.operation)}"


def pack_position(commit_lsn: bytes, command_id: int, seqval: bytes, operation: int) -> bytes:
    """:meth:`ChangePosition.to_bytes` from a change table's raw columns: the hot path's way."""
    return _LAYOUT.pack(commit_lsn, command_id, seqval, operation)


def unpack_position(raw: bytes) -> tuple[bytes, int, bytes, int]:
    """The inverse of :func:`pack_position`."""
    commit_lsn, command_id, seqval, operation = _LAYOUT.unpack(raw)
    return commit_lsn, command_id, seqval, operation
