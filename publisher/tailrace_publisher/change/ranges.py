"""Half-open ranges of the log: inclusive or exclusive is decided here and nowhere else."""

from __future__ import annotations

from dataclasses import dataclass

from tailrace_schemas.position.change_position import ChangePosition
from tailrace_schemas.position.lsn import Lsn


@dataclass(frozen=True, slots=True)
class LsnRange:
    """The changes after a position, up to and including a commit LSN: (after, up_to].

    Attributes:
        after: everything at or before it was read already; it may be inside a transaction.
        up_to: last LSN of the range.
        needs: LSN up to which a connection must see all commits before it reads the range; None:
            ``up_to``.

    Raises:
        ValueError: the range runs backwards.
    """

    after: ChangePosition
    up_to: Lsn
    needs: Lsn | None = None

    def __post_init__(self) -> None:
        """Check the direction."""
        if self.after.commit_lsn > self.up_to:
            raise ValueError(f"range runs backwards: ({self.after}, {self.up_to}]")

    @property
    def first_lsn(self) -> Lsn:
        """Lowest commit LSN that rows of the range may have."""
        return first_lsn_after(self.after)


def is_closed(position: ChangePosition) -> bool:
    """Return whether the position is after the last change of its transaction."""
    return position == ChangePosition.end_of(position.commit_lsn)


def first_lsn_after(position: ChangePosition) -> Lsn:
    """Return the lowest commit LSN of changes after a position.

    It is the position's own while its transaction is not finished, else the next one.
    """
    if is_closed(position):
        return position.commit_lsn.increment()
    return position.commit_lsn
