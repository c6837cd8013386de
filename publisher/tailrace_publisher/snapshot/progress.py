"""How far the initial snapshot of a table is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tailrace_schemas.position.lsn import Lsn


class SnapshotState(StrEnum):
    """Whether rows of a snapshot are still to be read."""

    PENDING = "pending"
    RUNNING = "running"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class SnapshotProgress:
    """How far the initial snapshot of a table is.

    Attributes:
        state: whether rows are still to be read.
        fence: LSN at which the last published rows were current.
        resume_key: JSON array of the last key published, or None.
        rows: rows published.
        size: bytes of their values.
    """

    state: SnapshotState
    fence: Lsn | None = None
    resume_key: str | None = None
    rows: int = 0
    size: int = 0

    @property
    def is_over(self) -> bool:
        """Whether the table is part of the cut."""
        return self.state is SnapshotState.DONE
