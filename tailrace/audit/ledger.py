"""The ledger against what the topics hold: pure parts of ``tailrace audit``.

Every progress record says for each partition which offsets its transaction filled, how many events
are there and the sum of their position hashes. A reader of a partition in
offset order sees whether each record is accounted for, once, and in the order of positions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from tailrace_schemas.position.change_position import ChangePosition, Operation
from tailrace_schemas.records.progress import PartitionProgress, Progress, position_hash, signed

PROBLEMS_MAX: Final = 20
"""Problems that are kept as text; the others are counted."""


@dataclass(slots=True)
class Problems:
    """What is wrong: the first ones in words, all of them counted."""

    texts: list[str] = field(default_factory=list)
    count: int = 0

    def add(self, text: str) -> None:
        """Note one."""
        self.count += 1
        if len(self.texts) < PROBLEMS_MAX:
            self.texts.append(text)


def check_chain(records: Iterable[Progress], problems: Problems) -> None:
    """Check that each record starts where the one before it ended, and none goes back.

    The first record that is held is where the proof begins.
    """
    known: str | None = None
    for record in records:
        if known is not None and record.after_lsn != known:
            what = "overlaps with" if record.after_lsn < known else "leaves a gap after"
            problems.add(
                f"the progress record after LSN {record.after_lsn} {what} the one that ended at"
                f" {known}"
            )
        elif record.closed_lsn < record.after_lsn:
            problems.add(
                f"the progress goes back from LSN {record.after_lsn} to {record.closed_lsn}: the"
                " source was restored or replaced"
            )
        known = record.closed_lsn


def ranges_by_partition(
    records: Iterable[Progress], topics: Iterable[str]
) -> dict[tuple[str, int], list[PartitionProgress]]:
    """The ledger's entries of some topics, in the order of their offsets.

    If a topic was deleted and created again, only the entries since then count.
    """
    wanted = set(topics)
    found: dict[tuple[str, int], list[PartitionProgress]] = {}
    for record in records:
        for entry in record.partitions:
            if entry.topic in wanted:
                entries = found.setdefault((entry.topic, entry.partition), [])
                if entries and entry.first_offset < entries[-1].next_offset:
                    entries.clear()
                entries.append(entry)
    return found


class PartitionAudit:
    """One partition, read in offset order against its entries of the ledger.

    Args:
        entries: of the ledger, in the order of their offsets.
        low: first offset that the partition still holds.

    Attributes:
        events: events that are accounted for; tombstones are not counted.
        transactions: entries that were found whole.
        removed: entries that retention removed, whole or in part.
    """

    def __init__(self, entries: Sequence[PartitionProgress], low: int, problems: Problems) -> None:
        self._entries = [entry for entry in entries if entry.first_offset >= low]
        self._from = self._entries[0].first_offset if self._entries else low
        self._problems = problems
        self._next = 0
        self._count = 0
        self._hash = 0
        self._last: ChangePosition | None = None
        self.events = 0
        self.transactions = 0
        self.removed = len(entries) - len(self._entries)
        self._where = f"topic {entries[0].topic} partition {entries[0].partition}"

    @property
    def end(self) -> int:
        """Offset up to which the ledger knows the partition."""
        return self._entries[-1].next_offset if self._entries else 0

    @property
    def begin(self) -> int:
        """Offset from which on it is checked."""
        return self._from

    def take(self, offset: int, position: ChangePosition | None) -> None:
        """Take the next committed record.

        Args:
            position: of its event; None for a tombstone.
        """
        while self._next < len(self._entries) and offset >= self._entries[self._next].next_offset:
            self._finish_entry()
        if self._next == len(self._entries):
            return  # newer than the ledger that was read
        entry = self._entries[self._next]
        if offset < entry.first_offset:
            self._problems.add(
                f"{self._where} offset {offset}: a record that no progress record accounts for:"
                " somebody else writes to the topic"
            )
            return
        if position is None:
            return
        self._count += 1
        self._hash += position_hash(position.to_bytes())
        if position.operation is Operation.READ:
            return
        if self._last is not None and position <= self._last:
            what = "again" if position == self._last else f"follows the later {self._last}"
            self._problems.add(f"{self._where} offset {offset}: change {position} {what}")
        else:
            self._last = position

    def finish(self) -> None:
        """The partition was read up to :attr:`end`."""
        while self._next < len(self._entries):
            self._finish_entry()

    def _finish_entry(self) -> None:
        entry = self._entries[self._next]
        if self._count != entry.count or signed(self._hash) != entry.position_hash:
            held = (
                f"{self._count} events where {entry.count} were published"
                if self._count != entry.count
                else f"{entry.count} events, but others than were published"
            )
            self._problems.add(
                f"{self._where} offsets {entry.first_offset} to {entry.next_offset - 1} hold {held}"
            )
        self.events += self._count
        self.transactions += 1
        self._next += 1
        self._count = self._hash = 0
