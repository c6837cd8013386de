"""The threads that read pages, each with connections of its own.

Pages of several capture instances are fetched in parallel. So a server that is some milliseconds
away, or a table with large pages, does not delay the others. The frontiers of ``merge`` restore the
order later, so it does not matter which lane is faster.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, wait
from typing import Any, Final, TypeVar

from tailrace_publisher.change.page import ChangePage
from tailrace_publisher.encode.columns.column_forms import Declined
from tailrace_publisher.encode.encoded_events import EncodedRows
from tailrace_publisher.ports import Connection
from tailrace_publisher.source.pages.page_readers import BlockReading
from tailrace_publisher.source.pages.pages import ChangePages, ComingPage

_Made = TypeVar("_Made")

_AHEAD_IN_BLOCKS: Final = 2
_LOOK_S: Final = 0.5
"""How long to wait for a page before the caller's function is called."""


class Places:
    """Counts the pages in memory, so that reading ahead does not exceed their limit.

    A page has its place from its request until it is consumed. Only the thread that consumes pages
    counts them.

    Args:
        count: the limit, at least one for each instance.
    """

    def __init__(self, count: int) -> None:
        self._left = count

    def take_if_free(self) -> bool:
        """Reserve a place for a page that is not needed yet; return False if none is free."""
        if self._left <= 0:
            return False
        self._left -= 1
        return True

    def take(self) -> None:
        """Reserve the place of a page that is needed now: each instance has one."""
        self._left -= 1

    def give(self, count: int = 1) -> None:
        """Release the places of consumed pages."""
        self._left += count


class PageLane:
    """One thread with a connection for rows, and one for blocks if those can be read.

    Both are opened when there is something to read.

    Args:
        executor: has exactly one thread.
        connect: opens the connection for rows.
        connect_blocks: opens a block reader, or returns None.
    """

    def __init__(
        self,
        executor: Executor,
        connect: Callable[[], Connection],
        connect_blocks: Callable[[], BlockReading | None],
    ) -> None:
        self._executor = executor
        self._connect = connect
        self._connect_blocks = connect_blocks
        self._connection: Connection | None = None
        self._blocks: BlockReading | None = None
        self._is_open = False

    @property
    def queries(self) -> int:
        """Number of statements sent so far."""
        rows = 0 if self._connection is None else self._connection.queries
        return rows + (0 if self._blocks is None else self._blocks.queries)

    def connection(self) -> Connection:
        """Return the connection for rows.

        Raises:
            SourceError, ConfigError: it cannot be opened.
        """
        if self._connection is None:
            self._connection = self._connect()
        return self._connection

    def blocks(self) -> BlockReading | None:
        """Return the reader of blocks; None if everything is read by row.

        Raises:
            SourceError, ConfigError: its connection cannot be opened.
        """
        if not self._is_open:
            self._blocks = self._connect_blocks()
            self._is_open = True
        return self._blocks

    def read_ahead(
        self,
        pages: Callable[[], ChangePages],
        places: Places,
        while_waiting: Callable[[], None] = lambda: None,
    ) -> Iterator[ChangePage | EncodedRows]:
        """Yield pages; the first is requested at once, the following ones as places allow.

        Two pages of blocks are read ahead: one is fetched while the other is encoded.

        Args:
            pages: creates the pages to read, on the lane's thread.
            while_waiting: called twice a second while no page is ready.
        """
        made: list[ChangePages] = []

        def first() -> ChangePage | ComingPage | None:
            made.append(pages())
            return made[0].fetch()

        places.take()
        return self._following(self._executor.submit(first), made, places, while_waiting)

    def close(self) -> None:
        """End the thread, drop what was read or waits, then close the connections."""
        if self._connection is not None:
            self._connection.cancel()
        if self._blocks is not None:
            self._blocks.cancel()
        self._executor.shutdown(wait=True, cancel_futures=True)
        if self._connection is not None:
            self._connection.close()
        if self._blocks is not None:
            self._blocks.close()

    def _following(
        self,
        first: Future[ChangePage | ComingPage | None],
        made: list[ChangePages],
        places: Places,
        while_waiting: Callable[[], None],
    ) -> Iterator[ChangePage | EncodedRows]:
        coming = deque([first])
        try:
            yield from self._pages(coming, made, places, while_waiting)
        finally:
            for ahead in coming:  # the caller left the range before its end
                ahead.cancel()

    def _pages(
        self,
        coming: deque[Future[ChangePage | ComingPage | None]],
        made: list[ChangePages],
        places: Places,
        while_waiting: Callable[[], None],
    ) -> Iterator[ChangePage | EncodedRows]:
        while (page := _awaited(coming.popleft(), while_waiting)) is not None:
            is_coming = isinstance(page, ComingPage)
            while len(coming) < (_AHEAD_IN_BLOCKS if is_coming else 1) and places.take_if_free():
                coming.append(self._executor.submit(made[0].fetch))
            if not isinstance(page, ComingPage):
                yield page
            else:
                try:
                    encoded = _awaited(page.rows, while_waiting)
                except Declined as reason:
                    for ahead in coming:  # they use the reader that is about to change
                        _wait(ahead, while_waiting)
                    places.give(len(coming))
                    coming.clear()
                    coming.append(self._executor.submit(made[0].read_again, page, reason))
                    continue
                yield encoded
            places.give()
            if not coming:
                places.take()
                coming.append(self._executor.submit(made[0].fetch))
        places.give(1 + len(coming))


def _awaited(coming: Future[_Made], while_waiting: Callable[[], None]) -> _Made:
    """Return the result of a future; call the caller's function until it is done."""
    _wait(coming, while_waiting)
    return coming.result()


def _wait(coming: Future[Any], while_waiting: Callable[[], None]) -> None:
    while not wait([coming], _LOOK_S).done:
        while_waiting()


class PageLanes:
    """All lanes of a session, at least one."""

    def __init__(self, lanes: Sequence[PageLane]) -> None:
        self._lanes = lanes

    @property
    def queries(self) -> int:
        """Number of statements sent so far."""
        return sum(lane.queries for lane in self._lanes)

    def lane(self, number: int) -> PageLane:
        """Return the lane of the instance with that number among those that are read."""
        return self._lanes[number % len(self._lanes)]
