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
_ATTEMPT: Final = "tailrace.attempt"


@dataclass(frozen=True, slots=True)
class Stamp:
    """The sink, the batch and the LSN of a snapshot.

    Attributes:
        log: id of the log's table, to which epochs and batches belong.
        batch: None if the snapshot has no rows of a batch: it created or took the table.
        lsn: source LSN of the cut, as text; empty without a batch.
        attempt: distinguishes what one sink staged when it applied a batch several times.
    """

    log: str
    epoch: int
    batch: int | None = None
    lsn: str = ""
    attempt: str = ""

    @property
    def summary(self) -> dict[str, str]:
        """The entries of the snapshot's summary."""
        found = {_LOG: self.log, _EPOCH: str(self.epoch)}
        if self.batch is not None:
            found |= {_BATCH: str(self.batch), _LSN: self.lsn}
        if self.attempt:
            found[_ATTEMPT] = self.attempt
        return found

    @classmethod
    def of(cls, summary: Mapping[str, str]) -> Self | None:
        """Read the entries of a summary; None if no sink wrote the snapshot."""
        # Without an entry, a map of Java returns None, whatever the default is.
        epoch, batch = summary.get(_EPOCH) or "", summary.get(_BATCH)
        if _LOG not in summary or not epoch.isdecimal():
            return None
        if batch is not None and not batch.lstrip("-").isdecimal():
            return None
        number = None if batch is None else int(batch)
        lsn, attempt = summary.get(_LSN) or "", summary.get(_ATTEMPT) or ""
        return cls(summary[_LOG], int(epoch), number, lsn, attempt)
