"""The commits of the next window, read while those of this one are published."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, wait
from contextlib import contextmanager
from dataclasses import dataclass

from tailrace_publisher.errors import SourceError
from tailrace_publisher.ports import Connection
from tailrace_publisher.source.log.commit_times import Commits, commits_from
from tailrace_publisher.source.log.queries import max_lsn
from tailrace_publisher.source.pages.page_readers import BlockReading
from tailrace_schemas.position.lsn import Lsn


@dataclass(frozen=True, slots=True)
class _Read:
    first: Lsn
    zone: str | None
    commits: Commits
    is_elsewhere: bool
    """Whether another connection saw them."""


class CommitsAhead:
    """Reads entries of ``cdc.lsn_time_mapping``.

    Entries are only ever added behind the last one, so an answer with as many as were asked for
    stays what it is; one with fewer is asked for again. What else windows are planned by is not
    read ahead, and comes from one connection: another one may be at a replica that is further on,
    and what it shows of commits the plan would then not know the changes of. So what was read ahead
    in blocks, on a connection of its own, is cut where the one for the plan sees no further. Where
    there are no blocks it is that one that reads ahead, and nothing else may be asked there
    meanwhile.

    Args:
        connection: for positions and metadata.
        executor: with one thread.
        connect_blocks: makes a reader of blocks; None where there can be none.
    """

    def __init__(
        self,
        connection: Connection,
        executor: Executor,
        connect_blocks: Callable[[], BlockReading | None] = lambda: None,
    ) -> None:
        self._connection = connection
        self._executor = executor
        self._connect_blocks = connect_blocks
        self._blocks: BlockReading | None = None
        self._is_open = False
        self._sent = 0
        self._known: _Read | None = None

    @property
    def queries(self) -> int:
        """Number of statements sent in blocks so far."""
        return self._sent + (0 if self._blocks is None else self._blocks.queries)

    def take(self, first: Lsn, limit: int, zone: str | None) -> tuple[Commits, int]:
        """The next entries, and how many there are at most; what was read ahead is given once.

        Args:
            first: lowest LSN of interest.
            limit: how many are wanted at most.
            zone: see :func:`commits_from`.

        Raises:
            SourceError: the server did not answer.
        """
        known, self._known = self._known, None
        if known is None or (known.first, known.zone) != (first, zone):
            return commits_from(self._connection, first, limit, zone), limit
        limit = min(limit, len(known.commits))
        commits = known.commits[:limit]
        if known.is_elsewhere:
            commits = commits.up_to(max_lsn(self._connection) or Lsn.ZERO)
        return commits, limit

    @contextmanager
    def reading(self, first: Lsn, limit: int, zone: str | None) -> Iterator[None]:
        """Read within the block what :meth:`take` is going to be asked for.

        What goes wrong is not told: the next window asks again.
        """
        coming = self._executor.submit(self._read, first, limit, zone)
        try:
            yield
        except BaseException:
            (self._blocks or self._connection).cancel()  # nobody takes them, and they may take long
            raise
        finally:
            wait([coming])
        if coming.exception() is None and len(coming.result()) == limit:
            self._known = _Read(first, zone, coming.result(), self._blocks is not None)

    def close(self) -> None:
        """Let the connection for blocks go."""
        blocks, self._blocks = self._blocks, None
        self._is_open = False
        if blocks is not None:
            self._sent += blocks.queries
            blocks.close()

    def _read(self, first: Lsn, limit: int, zone: str | None) -> Commits:
        if not self._is_open:
            self._blocks = self._connect_blocks()
            self._is_open = True
        if self._blocks is not None:
            try:
                return self._blocks.commits(first, limit, zone)
            except SourceError:
                self.close()  # it may be broken; the next time has another one
                raise
        return commits_from(self._connection, first, limit, zone)
