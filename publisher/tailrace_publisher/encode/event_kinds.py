"""The kinds of events, and the images that each carries."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, Final

from tailrace_schemas.position.change_position import Operation

RawRow = Sequence[Any]
"""(commit_lsn, command_id, seqval, operation, update_mask, *values in the schema's order)."""


class Kind(IntEnum):
    """The event of a row: by its operation, except if an update changes the event key."""

    READ = 0
    DELETE = 1
    INSERT = 2
    UPDATE = 4
    KEY_DELETE = 5  # operation 3 row of an update that changes the key
    KEY_INSERT = 6  # its operation 4 row
    PATCH = 7  # a row that was read again, for columns that its changes lack

    @property
    def operation(self) -> Operation:
        """Operation of the row that the event comes from."""
        if self is Kind.KEY_DELETE:
            return Operation.UPDATE_BEFORE
        if self is Kind.PATCH:
            return Operation.READ
        return Operation.UPDATE_AFTER if self is Kind.KEY_INSERT else Operation(self)


OP: Final = {
    Kind.READ: "r",
    Kind.DELETE: "d",
    Kind.INSERT: "c",
    Kind.UPDATE: "u",
    Kind.KEY_DELETE: "d",
    Kind.KEY_INSERT: "c",
    Kind.PATCH: "u",
}
DELETES: Final = frozenset({Kind.DELETE, Kind.KEY_DELETE})
HAS_BEFORE: Final = frozenset({Kind.DELETE, Kind.UPDATE, Kind.KEY_DELETE})
READS: Final = frozenset({Kind.READ, Kind.PATCH})
HAS_AFTER: Final = READS | {Kind.INSERT, Kind.UPDATE, Kind.KEY_INSERT}


class UnpairedUpdate(ValueError):
    """The operation 4 row of a change does not directly follow its operation 3 row.

    Attributes:
        row: the index of the row.
    """

    def __init__(self, row: int) -> None:
        super().__init__(
            "an update's operation 3 row is not directly followed by its operation 4 row"
        )
        self.row = row


def events_of(
    rows: Sequence[RawRow], operations: Sequence[int], keys: Sequence[bytes | None]
) -> tuple[Sequence[int], Sequence[int]]:
    """Return row index and kind of every event of a page.

    Args:
        operations: the operation of each row, 1 to 4.
        keys: the encoded event key of every row. An update whose two keys differ becomes two
            events.

    Raises:
        UnpairedUpdate: the page has only half of an update.
    """
    if Operation.UPDATE_BEFORE not in operations and Operation.UPDATE_AFTER not in operations:
        return range(len(rows)), operations
    events: list[int] = []
    kinds: list[int] = []
    before = -1
    for row, operation in enumerate(operations):
        if before >= 0:
            if operation != Operation.UPDATE_AFTER or rows[before][:3] != rows[row][:3]:
                raise UnpairedUpdate(before)
            if keys[before] == keys[row]:
                events.append(row)
                kinds.append(Kind.UPDATE)
            else:
                events += (before, row)
                kinds += (Kind.KEY_DELETE, Kind.KEY_INSERT)
            before = -1
        elif operation == Operation.UPDATE_BEFORE:
            before = row
        elif operation == Operation.UPDATE_AFTER:
            raise UnpairedUpdate(row)
        else:
            events.append(row)
            kinds.append(operation)
    if before >= 0:
        raise UnpairedUpdate(before)
    return events, kinds
