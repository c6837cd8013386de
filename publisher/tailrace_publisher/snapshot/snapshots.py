"""The initial snapshots next to the stream: chunks of tables, each between two fences of its own.

Theory of operation. When a chunk is requested, everything up to L0 is published. A thread reads the
chunk over its own connection with plain statements; then a fence is placed. The stream continues
meanwhile and records the identities of the rows that it changes. Once the stream has passed the
fence, at L1, each row of the chunk is decided:

- Its identity did not appear in (L0, L1]: the row was the same when it was read as at L0 and L1. It
  is published as op r at L1.
- Its identity appeared: the row is dropped, because its events carry it.

A row that the read missed, because it moved or was inserted meanwhile, also has events in (L0, L1].
So no lock is held and no transaction stays open, however large the table.

Chunks of one table follow one another by key. As many as memory allows wait at the same time, each
with its own L0 and fence, and they are published in key order. So a table waits for the capture
process once in total, not once per chunk.

A table without columns that distinguish its rows has nothing to compare. It is one chunk, which is
read again if any of its rows changed meanwhile.

A lock, a deadlock, a broken connection or a lagging replica can keep a table from being read. Such
a table is retried after a pause, while the stream and the other tables continue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import structlog

from tailrace_publisher.change.page import ChangePage
from tailrace_publisher.encode.envelopes.envelope import EnvelopeEncoder
from tailrace_publisher.errors import EncodeError, PublisherError, SourceError
from tailrace_publisher.errors.one_table import of_one_table
from tailrace_publisher.snapshot.fence import Fence, FenceSource
from tailrace_publisher.snapshot.lanes import Lane
from tailrace_publisher.snapshot.pauses import Pauses
from tailrace_publisher.snapshot.pending import PendingTable, SnapshotPart
from tailrace_publisher.snapshot.table_reader import ChunkLimits
from tailrace_publisher.snapshot.table_snapshot import QUEUED_MAX, Reading, TableSnapshot
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.topic_names import TableName

_log = structlog.get_logger(__name__)

EncoderOf = Callable[[PendingTable], EnvelopeEncoder | None]
"""Returns a table's encoder in force; None if its rows must be read in another way."""


class Snapshots:
    """Reads the pending tables, and yields what may be published.

    Args:
        fences: on the stream's connection, because they are compared with its progress.
        size_max: bytes of all chunks in memory.
    """

    def __init__(
        self,
        fences: FenceSource,
        lanes: Sequence[Lane],
        limits: ChunkLimits,
        size_max: int,
        pauses: Pauses,
    ) -> None:
        self._fences = fences
        self._lanes = lanes
        self._limits = limits
        self._size_max = size_max
        self._pauses = pauses
        self._active: dict[TableName, TableSnapshot] = {}
        self._waiting: list[Fence] = []

    @property
    def is_idle(self) -> bool:
        """Whether nothing is being read and no chunk waits."""
        return not self._active

    def observe(self, table: TableName, page: ChangePage) -> None:
        """Record which rows the stream changed, for tables with waiting chunks."""
        active = self._active.get(table)
        if active is not None:
            active.observe(page)

    def settle(self, pending: Sequence[PendingTable]) -> None:
        """Drop tables that are pending no more, started again, or must be read in another way."""
        tables = {table.name: table for table in pending}
        for name, active in list(self._active.items()):
            table = tables.get(name)
            if table is None or not table.resumes_from(active.table):
                del self._active[name]
            elif not table.reads_like(active.table):
                self._read_again(active, "DDL")
            elif not active.is_complete:
                self._read_again(active, "too many rows changed to compare", is_paused=True)

    def begin(self, pending: Sequence[PendingTable], position: Lsn, encoder_of: EncoderOf) -> None:
        """Request further chunks.

        Args:
            pending: the tables to read.
            position: the closed LSN up to which everything is published.
            encoder_of: returns a table's encoder in force.
        """
        self._assign(pending, encoder_of)
        for _ in range(QUEUED_MAX):  # in turn, so that no table uses all of the memory
            for active in self._active.values():
                held = sum(other.size for other in self._active.values())
                has_room = held + self._limits.chunk.size <= self._size_max or not held
                if has_room and active.may_begin():
                    active.begin(position)

    def _assign(self, pending: Sequence[PendingTable], encoder_of: EncoderOf) -> None:
        """Give free lanes to waiting tables; read one table without chunks at a time."""
        taken = {id(active.lane) for active in self._active.values()}
        free = [lane for lane in self._lanes if id(lane) not in taken]
        for table in pending:
            if not free:
                return
            if table.name in self._active or self._pauses.is_paused(table):
                continue
            if not table.is_cut and any(not a.table.is_cut for a in self._active.values()):
                continue
            encoder = encoder_of(table)
            if encoder is not None:
                lane = free.pop(0)
                self._active[table.name] = TableSnapshot(table, encoder, lane, self._limits)

    def look(self, position: Lsn) -> int:
        """Collect the chunks that were read, and check which fences are reached.

        Args:
            position: the closed LSN up to which everything is published.

        Returns:
            The number of chunks read since the last call.

        Raises:
            TableFailed: the login may not read a table, or it cannot be read.
            SourceError: the server did not answer.
        """
        read: list[Reading] = []
        for active in list(self._active.values()):
            read += self._newly_read(active)
        if read:
            ends = [r.chunk.log_end for r in read if r.chunk is not None]
            known = [end for end in ends if end is not None]
            fence = self._fences.mark(position, max(known, default=None))
            for reading in read:
                reading.fence = fence
            self._waiting.append(fence)
        self._read_fences()
        return len(read)

    def _newly_read(self, active: TableSnapshot) -> list[Reading]:
        """Return the chunks that were read, and failures that DDL not yet known may explain."""
        read = active.newly_read()
        for place, reading in enumerate(read):
            error = reading.error
            if error is not None and not _may_be_ddl(error):
                active.give_up(reading)
                self._fail_or_pause(active, error)
                return read[:place]
        return read

    def _fail_or_pause(self, active: TableSnapshot, error: BaseException) -> None:
        """Pause a table after an error that may pass; raise any other error."""
        if isinstance(error, PublisherError) and error.retryable:
            self._pauses.pause(active.table, error)
            if not active.readings:
                del self._active[active.table.name]
            return
        with _read_of(active.table):
            raise error

    def _read_fences(self) -> None:
        """Check the fences, oldest first, up to one that is not reached."""
        readings = [reading for active in self._active.values() for reading in active.readings]
        while self._waiting:
            fence = self._waiting[0]
            waiting = [reading for reading in readings if reading.fence is fence]
            lsn = self._fences.reached(fence) if waiting else Lsn.ZERO
            if lsn is None:
                return
            for reading in waiting:
                reading.fence_lsn = lsn
            del self._waiting[0]

    def take(
        self, position: Lsn, utc_offset_minutes: int, encoder_of: EncoderOf
    ) -> Iterator[SnapshotPart]:
        """Yield each table's oldest chunk if its fence is passed at a closed LSN.

        Args:
            utc_offset_minutes: how far the server's local time is ahead of UTC.
            encoder_of: called again if a table could not be read.

        Raises:
            TableFailed: a table cannot be read.
        """
        for active in list(self._active.values()):
            if not active.readings:
                continue
            reading = active.readings[0]
            if reading.fence_lsn is None or reading.fence_lsn > position:
                continue
            encoder = encoder_of(active.table)
            if encoder is None:
                self._read_again(active, "DDL")
                continue
            if reading.error is not None:
                with _read_of(active.table):
                    raise reading.error
            part = active.take(encoder, position, utc_offset_minutes)
            if part is None:
                self._read_again(
                    active,
                    "it has no unique key and rows changed during the read",
                    is_paused=True,
                )
                continue
            if not active.has_failed:
                self._pauses.end(active.table)
            if part.progress.is_over or (active.lane is None and not active.readings):
                del self._active[active.table.name]
            yield part

    def is_due(self, position: Lsn) -> bool:
        """Return whether a chunk has passed its fence."""
        return bool(self._due(position))

    def has_failed(self, position: Lsn) -> bool:
        """Return whether a table could not be read for a reason that newer metadata may explain."""
        return any(reading.error is not None for reading in self._due(position))

    def _due(self, position: Lsn) -> list[Reading]:
        oldest = [active.readings[0] for active in self._active.values() if active.readings]
        return [r for r in oldest if r.fence_lsn is not None and r.fence_lsn <= position]

    def rest(self) -> None:
        """Close the connections because nothing is pending."""
        for lane in self._lanes:
            lane.rest()

    def _read_again(self, active: TableSnapshot, reason: str, *, is_paused: bool = False) -> None:
        """Drop a table's chunks; it is read again from its last published key."""
        _log.info("snapshot_chunk_retried", table=str(active.table.name), reason=reason)
        if is_paused:
            self._pauses.pause(active.table, None)
        del self._active[active.table.name]


def _may_be_ddl(error: BaseException) -> bool:
    """Return whether an error may mean that the table's columns changed."""
    return isinstance(error, EncodeError) or type(error) is SourceError


@contextmanager
def _read_of(table: PendingTable) -> Iterator[None]:
    done = f" after {table.progress.rows} rows" if table.progress.rows else ""
    with of_one_table(table.name, f"reading its snapshot{done}"):
        yield
