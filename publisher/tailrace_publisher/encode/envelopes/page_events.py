"""The events of a page: the columns from which a writer takes its facts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class PageEvents:
    """Events of change rows, in the order of their positions.

    The row of an update is the one with its after image.

    Attributes:
        images: of all rows of the page, not only of events.
        unavailable: names of large columns without their value. May be endless if no column is
            large.
        commit_ms: times of these commits and of no others, in milliseconds UTC.
        processed_ms: in milliseconds UTC; None if the publisher does not say.
        snapshot: ``source.snapshot`` of all events; None for changes that are streamed.
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
    snapshot: str | None = None

    @cached_property
    def distinct_kinds(self) -> frozenset[int]:
        """The kinds that occur."""
        return frozenset(self.kinds)

    def __len__(self) -> int:
        return len(self.kinds)
