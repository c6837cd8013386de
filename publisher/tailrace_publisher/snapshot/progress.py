"""How far the initial snapshot of a table is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tailrace_schemas.lsn import Lsn


class SnapshotState(StrEnum):
    """``snapshot_state`` of a checkpoint record; stopped: the table cannot go on as it is."""

    PENDING = "pending"
    RUNNING = "running"
    DONE = "done"
    SKIPPED = "skipped"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class SnapshotProgress:
    """How far the initial snapshot of a table is.

    Attributes:
        state: whether rows are still to be read.
        fence: LSN at which the last published rows were current.
        resume_key: JSON array of the last key published, or None.
        rows: rows published.
        size: bytes of their values.
        reason: what a stopped table cannot go on for: the error's class, a colon, and its text.
    """

    state: SnapshotState
    fence: Lsn | None = None
    resume_key: str | None = None
    rows: int = 0
    size: int = 0
    reason: str | None = None

    @property
    def is_over(self) -> bool:
        """Whether the table is part of the cut."""
        return self.state in {SnapshotState.DONE, SnapshotState.SKIPPED}
