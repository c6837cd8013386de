"""Where pages are read: threads of their own, each with connections of its own.

Pages of several capture instances are fetched side by side, so a server that is some milliseconds
away, or one table with large pages, does not hold the others up. Their order is made later, by the
frontiers of ``merge``, so it does not matter which lane is faster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future

from tailrace_publisher.change.page import ChangePage
from tailrace_publisher.encode.rows import EncodedRows
from tailrace_publisher.ports import Connection
from tailrace_publisher.source.page_readers import BlockReading
from tailrace_publisher.source.pages import ChangePages


class Places:
    """Counts the pages in memory, so that reading ahead does not add to those that there may be.

    Used by the thread that takes the pages.

    Args:
        count: how many there may be; the first pages take theirs at once.
    """

    def __init__(self, count: int) -> None:
        self._left = count

    def take(self) -> bool:
        """Take a place for a page that is not needed yet; False where none is left."""
        if self._left <= 0:
            return False
        self._left -= 1
        return True

    def take_first(self) -> None:
        """Take the place of an instance's first page, or of one that is waited for."""
        self._left -= 1

    def give(self) -> None:
        """A page is used up."""
        self._left += 1


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
        self, pages: Callable[[], ChangePages], places: Places
    ) -> Iterator[ChangePage | EncodedRows]:
        """Pages; the first is on its way at once, from then on the next one where it has a place.

        Args:
            pages: makes what to read, on the lane's thread.
            places: of the pages of all instances that are read together.
        """
        made: list[ChangePages] = []

        def first() -> ChangePage | EncodedRows | None:
            made.append(pages())
            return following()

        def following() -> ChangePage | EncodedRows | None:
            return made[0].read()

        places.take_first()
        return self._following(self._executor.submit(first), following, places)

    def close(self) -> None:
        """End the thread, what waits in it unread, then its connections."""
        self._executor.shutdown(wait=True, cancel_futures=True)
        if self._connection is not None:
            self._connection.close()
        if self._blocks is not None:
            self._blocks.close()

    def _following(
        self,
        coming: Future[ChangePage | EncodedRows | None],
        read: Callable[[], ChangePage | EncodedRows | None],
        places: Places,
    ) -> Iterator[ChangePage | EncodedRows]:
        while (page := coming.result()) is not None:
            is_ahead = places.take()
            if is_ahead:
                coming = self._executor.submit(read)
            yield page
            if is_ahead:
                places.give()  # of the page that is used up; the next one has its own
            else:
                coming = self._executor.submit(read)
        places.give()


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
