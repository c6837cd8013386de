"""Which of the cuts at an LSN is meant: a repair, patch or snapshot closes an LSN again. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Self

from tailrace_schemas.records.progress import Progress
from tailrace_sink.log.progress_feed import ProgressLog

_AT: Final = "@"


@dataclass(frozen=True, slots=True)
class CutId:
    """A cut of a lake: the changes up to a closed LSN that the log had with a batch.

    Attributes:
        batch: batch id of a cut of the log; None: of the first one that closes the LSN.
    """

    lsn: str
    batch: int | None = None

    def __str__(self) -> str:
        return self.lsn if self.batch is None else f"{self.lsn}{_AT}{self.batch}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the text of an id, ``LSN@batch``, or an LSN alone.

        Raises:
            ValueError: what follows the LSN is no number.
        """
        lsn, at, batch = text.partition(_AT)
        return cls(lsn, int(batch) if at else None)

    @property
    def order(self) -> tuple[str, int]:
        """The order of cuts, if both have a batch."""
        return self.lsn, -1 if self.batch is None else self.batch

    def has(self, lsn: str = "lsn") -> str:
        """Return the SQL condition that a cut has an event, or all of a cut of the log.

        Args:
            lsn: the column with the LSN; ``batch`` has the batch.
        """
        return f"({lsn} <= '{self.lsn}' AND batch <= {self.batch})"

    def has_all_of(self, lsn: str, batch: int) -> bool:
        """Whether a cut has all of a cut of the log."""
        return lsn <= self.lsn and self.batch is not None and batch <= self.batch


def closes_again(cut: CutId, records: Iterable[Progress]) -> bool:
    """Whether an earlier cut of the log closed the LSN, by the records of this one."""
    return all(record.after_lsn >= cut.lsn for record in records)


def row_of_cut(batches: Iterable[int], batch: int | None) -> int | None:
    """Choose among the batches with rows at an LSN: the first one, or the last one of a cut.

    Args:
        batch: of the cut of the log; None: the first row is meant.
    """
    if batch is None:
        return min(batches, default=None)
    return max((of for of in batches if of <= batch), default=None)


def cut_id(log: ProgressLog, lsn: str, batch: int) -> CutId:
    """Return the id of a cut: with the first cut of the log that has all of it.

    Args:
        lsn: the closed LSN of the cut.
        batch: its own batch id, which is at most that of the cut of the log.

    Returns:
        The LSN alone, if the log does not have that cut any more.
    """
    mark = log.mark()
    states = [] if mark is None else log.states(batch - 1, mark.batch, 1)
    found = (of.state.batch for of in states if of.state.closed_lsn >= lsn)
    return CutId(lsn, next(found, None))
