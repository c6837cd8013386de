"""The events of a page in parts, which a form joins to values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tailrace_schemas.position.lsn import Lsn


@dataclass(frozen=True, slots=True)
class PageEvents:
    """Events of change rows, in the order of their positions.

    Attributes:
        kinds: kind of each event.
        rows: index of each event's row; of an update the row of its after image.
        images: of all rows of the page.
        positions: packed position of each event.
        commits: commit LSN of each event.
        commands: command id of each event.
        seqvals: seqval of each event.
        masks: update mask of each event.
        unavailable: names of the large columns whose value each event's row does not hold; may be
            endless where no column is large.
        commit_ms: commit times in milliseconds UTC of these commits, and of no others.
        processed_ms: when the publisher makes the events; None where it does not say.
    """

    kinds: Sequence[int]
    rows: Sequence[int]
    images: list[bytes]
    positions: list[bytes]
    commits: Sequence[bytes]
    commands: Sequence[int]
    seqvals: Sequence[bytes]
    masks: Sequence[bytes | None]
    unavailable: Iterable[tuple[str, ...]]
    commit_ms: Mapping[bytes, int]
    processed_ms: int | None

    def __len__(self) -> int:
        return len(self.kinds)


class ValueForm(Protocol):
    """Makes framed values of one schema version in one form."""

    def values(self, events: PageEvents) -> list[bytes]:
        """The values of change events."""

    def snapshot_values(
        self, images: Sequence[bytes], fence: Lsn, read_ms: int, last: bool
    ) -> list[bytes]:
        """The values of snapshot rows, all at the position of their fence.

        Args:
            images: at least one.
            fence: LSN at which the rows are known to be current.
            read_ms: when they were read, milliseconds UTC.
            last: whether these end the table.
        """
