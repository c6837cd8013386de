"""The initial snapshots beside the stream: chunks of tables, each between two fences of its own.

Theory of operation. Everything up to L0 is out when a chunk is asked for. It is read in a thread
and over a connection of its own, by plain statements, and a fence is set behind the reading. The
stream goes on meanwhile, and the identities of the rows that it tells about are kept. When the
stream has passed the fence, at L1, a row of the chunk whose identity did not appear in (L0, L1] is
the same at L0, when it was read, and at L1: it is published as op r at L1. A row whose identity
appeared is dropped: its events tell. A row that the reading missed because it moved or was inserted
meanwhile has events in (L0, L1], too. So no lock is kept and no transaction is left open, however
large the table.

Chunks of one table follow one another by key, and several wait side by side, as many as memory
allows: each has its own L0 and its own fence, and they are published in their order. So the time
that the capture process takes is waited for once, not once for each chunk.

A table without columns that tell its rows apart has nothing to compare: its one chunk is read again
when any of its rows changed meanwhile.

What keeps a table from being read now (a lock, a deadlock, a broken connection, a replica that is
behind) has it tried again later, behind a pause; the stream and the other tables go on.
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

_log = structlog.get_logger(__name__)

EncoderOf = Callable[[PendingTable], EnvelopeEncoder | None]
"""The encoder of a table in force now; None when its rows are to be read in another way."""


class Snapshots:
    """Reads the tables that are pending, and gives what may be published.

    Args:
        fences: on the connection of the stream: what that has passed is asked there.
        lanes: where tables are read.
        limits: what chunks may hold.
        size_max: bytes of all chunks in memory.
        pauses: when to try a table again.
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
        self._active: dict[str, TableSnapshot] = {}
        self._waiting: list[Fence] = []

    @property
    def is_idle(self) -> bool:
        """Whether nothing is read and nothing waits."""
        return not self._active

    def observe(self, topic: str, page: ChangePage) -> None:
        """Keep which rows the stream tells about, for the tables whose chunks wait."""
        active = self._active.get(topic)
        if active is not None:
            active.tell(page)

    def settle(self, pending: Sequence[PendingTable]) -> None:
        """Forget tables that are not pending any more, begin anew, or are read in another way."""
        tables = {table.topic: table for table in pending}
        for topic, active in list(self._active.items()):
            table = tables.get(topic)
            if table is None or not table.goes_on_from(active.table):
                del self._active[topic]
            elif not table.reads_like(active.table):
                self._read_again(active, "DDL")
            elif not active.is_complete:
                self._read_again(active, "more rows changed than are kept", is_paused=True)

    def begin(self, pending: Sequence[PendingTable], position: Lsn, encoder_of: EncoderOf) -> None:
        """Have further chunks read.

        Args:
            pending: the tables.
            position: the closed LSN up to which everything is out.
            encoder_of: see there.
        """
        self._assign(pending, encoder_of)
        for _ in range(QUEUED_MAX):  # in turn: no table takes all of the memory
            for active in self._active.values():
                held = sum(other.size for other in self._active.values())
                has_room = held + self._limits.chunk.size <= self._size_max or not held
                if has_room and active.may_begin():
                    active.begin(position)

    def _assign(self, pending: Sequence[PendingTable], encoder_of: EncoderOf) -> None:
        """Give free lanes to tables that wait for one; one table that is not cut at a time."""
        taken = {id(active.lane) for active in self._active.values()}
        free = [lane for lane in self._lanes if id(lane) not in taken]
        for table in pending:
            if not free:
                return
            if table.topic in self._active or self._pauses.is_paused(table.topic):
                continue
            if not table.is_cut and any(not a.table.is_cut for a in self._active.values()):
                continue
            encoder = encoder_of(table)
            if encoder is not None:
                lane = free.pop(0)
                self._active[table.topic] = TableSnapshot(table, encoder, lane, self._limits)

    def look(self, position: Lsn) -> int:
        """See what was read and which fences are reached.

        Args:
            position: the closed LSN up to which everything is out.

        Returns:
            How many chunks were read since the last look.

        Raises:
            TableFailed: a table may not be read, or cannot be.
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
        self._look_for_fences()
        return len(read)

    def _newly_read(self, active: TableSnapshot) -> list[Reading]:
        """Chunks that were read, and failures that may be DDL which is not known yet."""
        read = active.newly_read()
        for place, reading in enumerate(read):
            error = reading.error
            if error is not None and not _may_be_ddl(error):
                active.give_up(reading)
                self._fail_or_pause(active, error)
                return read[:place]
        return read

    def _fail_or_pause(self, active: TableSnapshot, error: BaseException) -> None:
        """A table that cannot be read now is tried again later; what it is for good is raised."""
        if isinstance(error, PublisherError) and error.retryable:
            self._pauses.pause(active.table, error)
            if not active.readings:
                del self._active[active.table.topic]
            return
        with _read_of(active.table):
            raise error

    def _look_for_fences(self) -> None:
        """Ask for the oldest fences, until one is not reached."""
        readings = [reading for active in self._active.values() for reading in active.readings]
        while self._waiting:
            fence = self._waiting[0]
            behind = [reading for reading in readings if reading.fence is fence]
            lsn = self._fences.reached(fence) if behind else Lsn.ZERO
            if lsn is None:
                return
            for reading in behind:
                reading.fence_lsn = lsn
            del self._waiting[0]

    def take(
        self, position: Lsn, utc_offset_minutes: int, encoder_of: EncoderOf
    ) -> Iterator[SnapshotPart]:
        """What may be published at a closed LSN: of each table the oldest chunk, if it has passed.

        Args:
            position: the LSN.
            utc_offset_minutes: how far the server's local time is ahead of UTC.
            encoder_of: see there; asked again for a table that could not be read.

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
                    "it has no unique key and rows changed while it was read",
                    is_paused=True,
                )
                continue
            if not active.has_failed:
                self._pauses.end(active.table)
            if part.progress.is_over or (active.lane is None and not active.readings):
                del self._active[active.table.topic]
            yield part

    def is_due(self, position: Lsn) -> bool:
        """Whether a chunk has passed its fence."""
        return bool(self._due(position))

    def has_failed(self, position: Lsn) -> bool:
        """Whether a table could not be read for a reason that newer metadata may explain."""
        return any(reading.error is not None for reading in self._due(position))

    def _due(self, position: Lsn) -> list[Reading]:
        oldest = [active.readings[0] for active in self._active.values() if active.readings]
        return [r for r in oldest if r.fence_lsn is not None and r.fence_lsn <= position]

    def rest(self) -> None:
        """Nothing is pending: close the connections."""
        for lane in self._lanes:
            lane.rest()

    def _read_again(self, active: TableSnapshot, reason: str, *, is_paused: bool = False) -> None:
        """Forget a table's chunks; it is read again from where it was published."""
        _log.info("snapshot_chunk_retried", table=str(active.table.instance.table), reason=reason)
        if is_paused:
            self._pauses.pause(active.table, None)
        del self._active[active.table.topic]


def _may_be_ddl(error: BaseException) -> bool:
    """Whether the table may have other columns than those that are known of it."""
    return isinstance(error, EncodeError) or type(error) is SourceError


@contextmanager
def _read_of(table: PendingTable) -> Iterator[None]:
    done = f" after {table.progress.rows} rows" if table.progress.rows else ""
    with of_one_table(table.instance.table, f"reading its snapshot{done}"):
        yield
