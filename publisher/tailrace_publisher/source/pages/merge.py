"""Merging the encoded pages of several capture instances by position (pure).

Theory of operation. Kafka keeps order inside a partition only, so what the merge owes is not one
sorted list but *frontiers*: a block holds every event up to its frontier, of all instances, and
nothing behind it. A Kafka transaction that ends at a frontier may say "everything up to here is
out". The frontier of a block is the smallest last position of the pages at hand (of instances that
have more pages), so each block uses up at least one page, and pages are cut by bisection, never
compared row by row. Of a thousand instances a block has mostly one: two heaps say which, so that
the others are not looked at.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

from tailrace_publisher.encode.encoded_events import EncodedRows

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
        """Take in the page of an instance's head, if it has one."""
        if head.page is not None:
            heappush(self._by_first, (head.page.positions[0], number, head))
            heappush(self._lasts, head.page.positions[-1])

    def first(self) -> bytes:
        """The lowest position of all pages; behind every position where there is none."""
        return self._by_first[0][0] if self._by_first else _BEHIND

    def frontier(self) -> bytes | None:
        """The smallest last position of the pages; None where there is none."""
        return self._lasts[0] if self._lasts else None

    def take(self, frontier: bytes) -> list[EncodedRows]:
        """Events up to the frontier, each instance's, in the order of the instances."""
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
