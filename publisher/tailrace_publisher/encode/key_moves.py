"""Key moves of unknown order within a transaction, if rows have no command id.

A statement that changes the keys of several rows is logged as deletes first, then inserts. Each
insert has the seqval of its delete (ADR 0002). In seqval order, a key's create can come before the
delete that made room for it. But the two may also be successive changes of one row, whose order is
then right. Nothing in the rows distinguishes the two cases, so the order is not guessed.
"""

from __future__ import annotations

from typing import Final

from tailrace_publisher.encode.encoded_events import EncodedRows
from tailrace_publisher.errors import OrderUnknown
from tailrace_schemas.position.change_position import ChangePosition, Operation
from tailrace_schemas.position.lsn import LSN_BYTES

_DELETE: Final = bytes([Operation.DELETE])
_INSERT: Final = bytes([Operation.INSERT])


class KeyMoves:
    """Watches the events of one table, in order; costs nothing if nothing is deleted.

    Args:
        within: commit LSN of a transaction whose first events are not seen; None if there is none.
    """

    def __init__(self, within: bytes | None = None) -> None:
        self._within = within
        self._commit = b""
        self._made: set[bytes] = set()
        self._last: tuple[bytes, bytes | None] | None = None

    def check(self, rows: EncodedRows) -> None:
        """Check the next events.

        Raises:
            OrderUnknown: a deleted key was created, or may have been, by a key move of the same
                transaction.
        """
        positions, keys = rows.positions, rows.keys
        if not positions:
            return
        self._check_first(rows)
        for index in rows.deletes:
            key, position = keys[index], positions[index]
            if key is None or position[-1:] != _DELETE:
                continue
            self._enter(position[:LSN_BYTES])
            if key in self._made:
                raise OrderUnknown(str(rows.table), str(ChangePosition.from_bytes(position)))
            if index + 1 < len(positions):
                self._pair(rows, position, key, index + 1)
        self._last = positions[-1], keys[-1]

    def _check_first(self, rows: EncodedRows) -> None:
        if self._last is not None and self._last[0][-1:] == _DELETE:
            self._pair(rows, *self._last, 0)

    def _enter(self, commit: bytes) -> None:
        if commit != self._commit:
            self._commit = commit
            self._made.clear()

    def _pair(self, rows: EncodedRows, position: bytes, key: bytes | None, index: int) -> None:
        """Record a key move: a delete and its next event that differ only in the operation."""
        following, made = rows.positions[index], rows.keys[index]
        if following[:-1] != position[:-1] or following[-1:] != _INSERT:
            return
        if made is None or made == key:
            return
        if position[:LSN_BYTES] == self._within:
            raise OrderUnknown(str(rows.table), str(ChangePosition.from_bytes(position)))
        self._made.add(made)
