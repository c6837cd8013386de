"""The progress of a table's initial snapshot."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tailrace_schemas.position.lsn import Lsn


class SnapshotState(StrEnum):
    """Whether a snapshot still has rows to read."""

    PENDING = "pending"
    RUNNING = "running"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class SnapshotProgress:
    """The progress of a table's initial snapshot.

    Attributes:
        fence: the LSN at which the rows published last were current.
        resume_key: where reading resumes; None before the first chunk.
        size: bytes of the published values.
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
