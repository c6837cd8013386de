"""Where pages are read: threads of their own, each with connections of its own.

Pages of several capture instances are fetched side by side, so a server that is some milliseconds
away, or one table with large pages, does not hold the others up. Their order is made later, by the
frontiers of ``merge``, so it does not matter which lane is faster.
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
"""How long a page is awaited before the caller gets a turn."""


class Places:
    """Counts the pages in memory, so that reading ahead does not add to those that there may be.

    A page has its place from when it is asked for until it is used up. Counted by the thread that
    takes the pages.

    Args:
        count: how many there may be, at least one for each instance.
    """

    def __init__(self, count: int) -> None:
        self._left = count

    def take_if_free(self) -> bool:
        """Take a place for a page that is not needed yet; False where none is left."""
        if self._left <= 0:
            return False
        self._left -= 1
        return True

    def take(self) -> None:
        """Take the place of a page that is waited for: each instance has one."""
        self._left -= 1

    def give(self, count: int = 1) -> None:
        """Pages are used up."""
        self._left += count


class PageLane:
    """One thread with a connection for rows, and one for blocks where those can be read.

    Both are opened when there is something to read.

    Args:
        executor: with the one thread.
        connect: opens the connection for rows.
        connect_blocks: makes the reader of blocks; None where there is none.
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
        """The connection for rows.

        Raises:
            SourceError, ConfigError: it cannot be opened.
        """
        if self._connection is None:
            self._connection = self._connect()
        return self._connection

    def blocks(self) -> BlockReading | None:
        """The reader of blocks; None where everything is read by row.

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
        """Pages; the first is on its way at once, from then on the next ones as they have places.

        Of blocks those are two: one is fetched while the other is encoded.

        Args:
            pages: makes what to read, on the lane's thread.
            places: of the pages of all instances that are read together.
            while_waiting: called twice a second while a page is awaited.
        """
        made: list[ChangePages] = []

        def first() -> ChangePage | ComingPage | None:
            made.append(pages())
            return made[0].fetch()

        places.take()
        return self._following(self._executor.submit(first), made, places, while_waiting)

    def close(self) -> None:
        """End the thread, what it reads and what waits unread, then its connections."""
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
            for ahead in coming:  # of a range that nobody reads to its end
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
                    for ahead in coming:  # they use what is about to change
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
    """What a future brings, with turns for the caller until it does."""
    _wait(coming, while_waiting)
    return coming.result()


def _wait(coming: Future[Any], while_waiting: Callable[[], None]) -> None:
    while not wait([coming], _LOOK_S).done:
        while_waiting()


class PageLanes:
    """All lanes of a session.

    Args:
        lanes: at least one.
    """

    def __init__(self, lanes: Sequence[PageLane]) -> None:
        self._lanes = lanes

    @property
    def queries(self) -> int:
        """Number of statements sent so far."""
        return sum(lane.queries for lane in self._lanes)

    def lane(self, number: int) -> PageLane:
        """The lane of the instance with that number among those that are read."""
        return self._lanes[number % len(self._lanes)]
