"""Reads the commits of the next window while those of this one are published."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, wait
from contextlib import contextmanager
from dataclasses import dataclass

from tailrace_publisher.errors import SourceError
from tailrace_publisher.ports import Connection
from tailrace_publisher.source.log.commit_times import Commits, commits_from
from tailrace_publisher.source.log.queries import complete_lsn
from tailrace_publisher.source.log.time_marks import TimeMarks
from tailrace_publisher.source.pages.page_readers import BlockReading
from tailrace_schemas.position.lsn import Lsn


@dataclass(frozen=True, slots=True)
class _Read:
    first: Lsn
    zone: str | None
    commits: Commits
    is_elsewhere: bool
    """Whether another connection read them."""


class CommitsAhead:
    """Reads entries of ``cdc.lsn_time_mapping``.

    New entries are only ever added after the last one, or below a time mark that is not proven yet
    (:class:`TimeMarks`). Such a mark is left out, and what follows it. So an answer with as many
    entries as were requested never changes; one with fewer is queried again. Nothing else that
    plans a window is read ahead; it all comes from one connection. Another connection may be at a
    replica that is further ahead, and the plan would then not know the changes of its commits. So
    commits that another connection read ahead in blocks are cut at the LSN up to which the planning
    connection sees all. If blocks cannot be read, the planning connection reads ahead, and no other
    query may use it meanwhile.

    Args:
        connection: for positions and metadata.
        executor: has exactly one thread.
        connect_blocks: opens a block reader, or returns None.

    Attributes:
        is_cut: whether the last answer lacks entries; commits after its end may be captured then.
    """

    def __init__(
        self,
        connection: Connection,
        executor: Executor,
        connect_blocks: Callable[[], BlockReading | None] = lambda: None,
    ) -> None:
        self._connection = connection
        self._marks = TimeMarks(connection)
        self._executor = executor
        self._connect_blocks = connect_blocks
        self._blocks: BlockReading | None = None
        self._is_open = False
        self._sent = 0
        self._known: _Read | None = None
        self.is_cut = False

    @property
    def queries(self) -> int:
        """Number of statements sent in blocks so far."""
        return self._sent + (0 if self._blocks is None else self._blocks.queries)

    def take(self, first: Lsn, limit: int, zone: str | None) -> tuple[Commits, int]:
        """Return the next entries, and their maximum number; entries read ahead are returned once.

        Args:
            first: lowest LSN of interest.
            limit: the highest number of entries.

        Raises:
            SourceError: the server did not answer.
        """
        self.is_cut = False
        commits, limit = self._take(first, limit, zone)
        marks = [Lsn.from_bytes(commits.lsns[i]) for i in commits.marks_after(self._marks.proven)]
        last = Lsn.from_bytes(commits.lsns[-1]) if marks else Lsn.ZERO
        # What was captured below a proven mark is in each answer from now on, not in this one.
        if any(self._marks.prove(mark, last) for mark in reversed(marks)):
            commits = commits_from(self._connection, first, limit, zone)
            self.is_cut = False
        unproven = commits.marks_after(self._marks.proven)
        self.is_cut |= bool(unproven)
        return commits[: unproven[0]] if unproven else commits, limit

    def _take(self, first: Lsn, limit: int, zone: str | None) -> tuple[Commits, int]:
        known, self._known = self._known, None
        if known is None or (known.first, known.zone) != (first, zone):
            return commits_from(self._connection, first, limit, zone), limit
        limit = min(limit, len(known.commits))
        commits = known.commits[:limit]
        if known.is_elsewhere:
            seen = commits.up_to(complete_lsn(self._connection) or Lsn.ZERO)
            self.is_cut = len(seen) < len(commits)
            commits = seen
        return commits, limit

    @contextmanager
    def reading(self, first: Lsn, limit: int, zone: str | None) -> Iterator[None]:
        """Read ahead, during the with block, what :meth:`take` will be called for.

        Errors are dropped, because the next window queries again.
        """
        coming = self._executor.submit(self._read, first, limit, zone)
        try:
            yield
        except BaseException:
            (self._blocks or self._connection).cancel()  # nobody needs them, and they may take long
            raise
        finally:
            wait([coming])
        if coming.exception() is None and len(coming.result()) == limit:
            self._known = _Read(first, zone, coming.result(), self._blocks is not None)

    def close(self) -> None:
        """Close the connection for blocks."""
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
                self.close()  # the connection may be broken; the next read opens another one
                raise
        return commits_from(self._connection, first, limit, zone)
