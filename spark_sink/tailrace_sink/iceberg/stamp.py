"""What the summary of a snapshot says about the sink that wrote it. Pure.

They distinguish the snapshots of a batch from those of others, and one sink from another. With them
a reader finds the snapshot of an LSN without the sink.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

_LOG: Final = "tailrace.log"
_EPOCH: Final = "tailrace.epoch"
_BATCH: Final = "tailrace.batch"
_LSN: Final = "tailrace.lsn"


@dataclass(frozen=True, slots=True)
class Stamp:
    """The sink, the batch and the LSN of a snapshot.

    Attributes:
        log: id of the log's table, to which epochs and batches belong.
        batch: None if the snapshot has no rows of a batch: it created or took the table.
        lsn: source LSN of the cut, as text; empty without a batch.
    """

    log: str
    epoch: int
    batch: int | None = None
    lsn: str = ""

    @property
    def summary(self) -> dict[str, str]:
        """The entries of the snapshot's summary."""
        found = {_LOG: self.log, _EPOCH: str(self.epoch)}
        if self.batch is not None:
            found |= {_BATCH: str(self.batch), _LSN: self.lsn}
        return found

    @classmethod
    def of(cls, summary: Mapping[str, str]) -> Self | None:
        """Read the entries of a summary; None if no sink wrote the snapshot."""
        epoch, batch = summary.get(_EPOCH, ""), summary.get(_BATCH)
        if _LOG not in summary or not epoch.isdecimal():
            return None
        if batch is not None and not batch.lstrip("-").isdecimal():
            return None
        number = None if batch is None else int(batch)
        return cls(summary[_LOG], int(epoch), number, summary.get(_LSN, ""))
