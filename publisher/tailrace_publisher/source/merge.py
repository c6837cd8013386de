"""Merging the encoded pages of several capture instances by position (pure).

Theory of operation. Kafka keeps order inside a partition only, so what the merge owes is not one
sorted list but *frontiers*: a block holds every event up to its frontier, of all instances, and
nothing behind it. A Kafka transaction that ends at a frontier may say "everything up to here is
out". The frontier of a block is the smallest last position of the pages at hand (of instances that
have more pages), so each block uses up at least one page, and pages are cut by bisection, never
compared row by row.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tailrace_publisher.encode.rows import EncodedRows

_COMMIT_LSN_BYTES = 10
_BEHIND = b"\xff" * 25
"""Behind every position."""


@dataclass(slots=True)
class Block:
    """All events with positions in (frontier of the block before, ``frontier``].

    Attributes:
        frontier: packed position of the last event.
        parts: its events by capture instance, each in position order, none empty.
        ends_transaction: whether no later block has an event of the frontier's transaction.
    """

    frontier: bytes
    parts: list[EncodedRows] = field(default_factory=list)
    ends_transaction: bool = False

    def __len__(self) -> int:
        """Number of events."""
        return sum(map(len, self.parts))

    def up_to(self, position: bytes) -> tuple[list[EncodedRows], list[EncodedRows]]:
        """Cut the parts behind a packed position: those at or before it, those behind it."""
        before: list[EncodedRows] = []
        behind: list[EncodedRows] = []
        for part in self.parts:
            cut = bisect_right(part.positions, position)
            if cut:
                before.append(part if cut == len(part) else part.slice(0, cut))
            if cut < len(part):
                behind.append(part.slice(cut, len(part)) if cut else part)
        return before, behind


class _Head:
    """The page at hand of one instance and the iterator of those that follow."""

    def __init__(self, pages: Iterator[EncodedRows]) -> None:
        self._pages = pages
        self.page: EncodedRows | None = None
        self.advance()

    def advance(self) -> None:
        """Take the next page that is not empty; None when there is none."""
        self.page = next((page for page in self._pages if len(page)), None)

    def take(self, frontier: bytes) -> EncodedRows | None:
        """Events up to the frontier; asks for the next page when this one is used up."""
        if self.page is None:
            return None
        cut = bisect_right(self.page.positions, frontier)
        if cut == 0:
            return None
        if cut < len(self.page):
            taken = self.page.slice(0, cut)
            self.page = self.page.slice(cut, len(self.page))
            return taken
        taken = self.page
        self.advance()
        return taken


def merge(instances: Sequence[Iterator[EncodedRows]]) -> Iterator[Block]:
    """Blocks in position order from the pages of each instance.

    Args:
        instances: per capture instance its pages, each page in position order and behind the page
            before; empty pages are passed over.

    Yields:
        Blocks whose frontiers rise; together they hold every event once.
    """
    heads = [_Head(pages) for pages in instances]
    while True:
        heads = [head for head in heads if head.page is not None]
        if not heads:
            return
        frontier = min(head.page.positions[-1] for head in heads if head.page is not None)
        parts = [part for head in heads if (part := head.take(frontier)) is not None]
        following = min(
            (head.page.positions[0] for head in heads if head.page is not None), default=_BEHIND
        )
        yield Block(
            frontier=frontier,
            parts=parts,
            ends_transaction=following[:_COMMIT_LSN_BYTES] != frontier[:_COMMIT_LSN_BYTES],
        )
