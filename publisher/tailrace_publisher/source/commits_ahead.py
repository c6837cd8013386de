"""The commits of the next window, read while those of this one are published."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor, wait
from contextlib import contextmanager
from dataclasses import dataclass

from tailrace_publisher.ports import Connection
from tailrace_publisher.source.commit_times import Commits, commits_from
from tailrace_schemas.lsn import Lsn


@dataclass(frozen=True, slots=True)
class _Read:
    first: Lsn
    zone: str | None
    commits: Commits


class CommitsAhead:
    """Reads entries of ``cdc.lsn_time_mapping``.

    Entries are only ever added behind the last one, so an answer with as many as were asked for
    stays what it is; one with fewer is asked for again. What else windows are planned by is not
    read ahead. All of it comes from one connection: another one may be at a replica that is further
    on, and what it shows of commits the plan would then not know the changes of. So while commits
    are read ahead nothing else may be asked there.

    Args:
        connection: for positions and metadata.
        executor: with one thread.
    """

    def __init__(self, connection: Connection, executor: Executor) -> None:
        self._connection = connection
        self._executor = executor
        self._known: _Read | None = None

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
        return known.commits[:limit], min(limit, len(known.commits))

    @contextmanager
    def reading(self, first: Lsn, limit: int, zone: str | None) -> Iterator[None]:
        """Read within the block what :meth:`take` is going to be asked for.

        What goes wrong is not told: the next window asks again.
        """
        coming = self._executor.submit(commits_from, self._connection, first, limit, zone)
        try:
            yield
        finally:
            wait([coming])
        if coming.exception() is None and len(coming.result()) == limit:
            self._known = _Read(first, zone, coming.result())
