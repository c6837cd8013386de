"""Pages of change rows, and the rule that the two halves of an update stay together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tailrace_schemas.events.envelope import TableSchema
from tailrace_schemas.position.change_position import ChangePosition, Operation
from tailrace_schemas.position.lsn import Lsn

ChangeRow = Sequence[Any]
"""(commit_lsn: bytes, command_id: int, seqval: bytes, operation: int, update_mask: bytes | None,
*values in the order of ``TableSchema.columns``)."""


@dataclass(frozen=True, slots=True)
class ChangePage:
    """Rows of one capture instance in clustered order.

    An operation 3 row is always followed by its operation 4 row.

    Attributes:
        schema: the version in force for all rows.
    """

    schema: TableSchema
    rows: list[ChangeRow]


def position_of(row: ChangeRow) -> ChangePosition:
    """Return the position of a change row.

    Raises:
        ValueError: a position column is NULL or malformed: no change row.
    """
    commit_lsn, command_id, seqval, operation = row[:4]
    if commit_lsn is None or seqval is None or operation is None:
        raise ValueError(f"a change row without a position: {tuple(row[:4])}")
    return ChangePosition(
        Lsn.from_bytes(commit_lsn), command_id, Lsn.from_bytes(seqval), Operation(operation)
    )


def join_carried(
    carried: ChangeRow | None, rows: list[ChangeRow]
) -> tuple[list[ChangeRow], ChangeRow | None]:
    """Prepend a carried operation 3 row to a page, and remove the page's own unpaired last row.

    Args:
        carried: the unpaired operation 3 row of the previous page.
        rows: rows of this page as they were read.

    Returns:
        The rows whose updates are complete, and the operation 3 row to carry to the next page.

    Raises:
        ValueError: the carried row's other half does not follow: the change table is damaged.
    """
    if carried is not None and rows:
        if rows[0][3] != Operation.UPDATE_AFTER or tuple(rows[0][:3]) != tuple(carried[:3]):
            raise ValueError(
                f"the row after the update's before image at {position_of(carried)} is"
                f" {position_of(rows[0])}, not its after image"
            )
        rows = [carried, *rows]
        carried = None
    if rows and rows[-1][3] == Operation.UPDATE_BEFORE:
        return rows[:-1], rows[-1]
    return rows, carried
