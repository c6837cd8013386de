"""Merging the encoded pages of several capture instances by position (pure).

Theory of operation. Kafka keeps order inside a partition only, so the merge does not have to
produce one sorted list. It produces *frontiers*: a block holds every event of all instances up to
its frontier, and none after it. A Kafka transaction that ends at a frontier may report "everything
up to here is published".

The frontier of a block is the smallest last position of the current pages, among instances that
have more pages. So each block consumes at least one page, and pages are cut by bisection, never
compared row by row. Of a thousand instances, mostly one is in a block. Two heaps find it, so the
others are not visited.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

from tailrace_publisher.encode.encoded_events import EncodedRows

_COMMIT_LSN_BYTES = 10
_BEHIND = b"\xff" * 25
"""After every position."""


@dataclass(slots=True)
class Block:
    """All events with positions in (frontier of the previous block, ``frontier``].

    Attributes:
        frontier: packed position of the last event.
        parts: events by capture instance, in position order.
        ends_transaction: whether no later block continues it.
    """

    frontier: bytes
    parts: list[EncodedRows] = field(default_factory=list)
    ends_transaction: bool = False

    def __len__(self) -> int:
        """Number of events."""
        return sum(map(len, self.parts))

    def up_to(self, position: bytes) -> tuple[list[EncodedRows], list[EncodedRows]]:
        """Cut the parts after a packed position; return those up to it, and those after it."""
        before: list[EncodedRows] = []
        after: list[EncodedRows] = []
        for part in self.parts:
            cut = bisect_right(part.positions, position)
            if cut:
                before.append(part if cut == len(part) else part.slice(0, cut))
            if cut < len(part):
                after.append(part.slice(cut, len(part)) if cut else part)
        return before, after


class _Head:
    """The current page of one instance, and the iterator of the following pages."""

    def __init__(self, pages: Iterator[EncodedRows]) -> None:
        self._pages = pages
        self.page: EncodedRows | None = None
        self.advance()

    def advance(self) -> None:
        """Move to the next page that is not empty; None if there is none."""
        self.page = next((page for page in self._pages if len(page)), None)

    def take(self, frontier: bytes) -> EncodedRows | None:
        """Take the events up to the frontier; fetch the next page once this one is consumed."""
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
    """Yield blocks in position order from the pages of each instance.

    Args:
        instances: the pages per capture instance. They are in position order, within a page and
            from page to page. Empty pages are skipped.

    Yields:
        Blocks with rising frontiers; together they hold every event once.
    """
    ahead = _Ahead()
    for number, pages in enumerate(instances):
        ahead.add(number, _Head(pages))
    while (frontier := ahead.frontier()) is not None:
        parts = ahead.take(frontier)
        yield Block(
            frontier=frontier,
            parts=parts,
            ends_transaction=ahead.first()[:_COMMIT_LSN_BYTES] != frontier[:_COMMIT_LSN_BYTES],
        )


class _Ahead:
    """The heads that have a page, by its first and by its last position."""

    def __init__(self) -> None:
        self._by_first: list[tuple[bytes, int, _Head]] = []
        self._lasts: list[bytes] = []

    def add(self, number: int, head: _Head) -> None:
        """Add an instance's head, if it has a page."""
        if head.page is not None:
            heappush(self._by_first, (head.page.positions[0], number, head))
            heappush(self._lasts, head.page.positions[-1])

    def first(self) -> bytes:
        """Return the lowest position of all pages; without a page, one after every position."""
        return self._by_first[0][0] if self._by_first else _BEHIND

    def frontier(self) -> bytes | None:
        """Return the smallest last position of the pages; None if there is none."""
        return self._lasts[0] if self._lasts else None

    def take(self, frontier: bytes) -> list[EncodedRows]:
        """Take the events up to the frontier, in the order of the instances."""
        reached: list[tuple[int, _Head]] = []
        while self._by_first and self._by_first[0][0] <= frontier:
            _, number, head = heappop(self._by_first)
            reached.append((number, head))
        while self._lasts and self._lasts[0] <= frontier:
            heappop(self._lasts)
        parts: list[EncodedRows] = []
        for number, head in sorted(reached, key=lambda of: of[0]):
            is_used_up = head.page is not None and head.page.positions[-1] <= frontier
            part = head.take(frontier)
            if part is not None:
                parts.append(part)
            if is_used_up:
                self.add(number, head)
            elif head.page is not None:
                heappush(self._by_first, (head.page.positions[0], number, head))
        return parts
