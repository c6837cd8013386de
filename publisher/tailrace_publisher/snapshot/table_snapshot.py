"""The snapshot of one table: chunks are read, wait for their fences, and are published in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Final

import structlog

from tailrace_publisher.change.page import ChangePage
from tailrace_publisher.encode.envelopes.envelope import EnvelopeEncoder
from tailrace_publisher.encode.row_identity import RowIdentity
from tailrace_publisher.snapshot.changed_rows import ChangedRows
from tailrace_publisher.snapshot.chunk import Chunk
from tailrace_publisher.snapshot.fence import Fence
from tailrace_publisher.snapshot.lanes import Lane
from tailrace_publisher.snapshot.pending import PendingTable, SnapshotPart
from tailrace_publisher.snapshot.progress import SnapshotProgress, SnapshotState
from tailrace_publisher.snapshot.table_reader import ChunkLimits, TableReader
from tailrace_publisher.snapshot.unavailable_values import LatestValues
from tailrace_publisher.source.log.commit_times import milliseconds
from tailrace_schemas.position.change_position import ChangePosition
from tailrace_schemas.position.lsn import Lsn

_log = structlog.get_logger(__name__)

QUEUED_MAX: Final = 2
"""Chunks queued at once, so that the thread has work while the main loop is elsewhere."""
_POSITION_COLUMNS: Final = 5
"""Columns of a change row before its values."""
_NUMBERS: Final = 1 << 32
"""Numbers of one millisecond, so that of two repairs of a row at one LSN the later one wins. The
largest number, a time of 48 bits and this, fits the ten bytes of a position's third part."""


@dataclass(slots=True)
class Reading:
    """A requested chunk.

    Attributes:
        future: resolves to the chunk.
        requested_at: logical time of :class:`ChangedRows` at the request.
        fence: placed after the read; None until then.
        fence_lsn: where the fence is; None until it is reached.
    """

    future: Future[Chunk | None]
    requested_at: int
    fence: Fence | None = None
    fence_lsn: Lsn | None = None

    @property
    def error(self) -> BaseException | None:
        """Why the chunk could not be read; None if it was, or is not yet."""
        return self.future.exception() if self.future.done() else None

    @property
    def chunk(self) -> Chunk | None:
        """The chunk; None until it is read."""
        return self.future.result() if self.future.done() and self.error is None else None

    @property
    def is_final(self) -> bool:
        """Whether nothing can be read after it."""
        return self.future.done() and (self.chunk is None or self.chunk.is_last)


class TableSnapshot:
    """The snapshot of one table, from its last published key to its end.

    Attributes:
        table: the table; its progress advances with each chunk taken.
        readings: requested chunks, oldest first.
        lane: the thread that reads it. None if no further chunk is to be read.
        has_failed: whether a chunk could not be read. Earlier ones may still be taken.
    """

    def __init__(
        self, table: PendingTable, encoder: EnvelopeEncoder, lane: Lane, limits: ChunkLimits
    ) -> None:
        self.table = table
        self.lane: Lane | None = lane
        self.readings: deque[Reading] = deque()
        self.has_failed = False
        self._limits = limits
        self._reader = TableReader(table, encoder.twin(), limits, lane.is_closing)
        self._changed = ChangedRows(limits.chunk.size)
        self._identity = RowIdentity(table.schema, table.instance.identity)
        has_large = table.is_cut and any(column.type.is_large for column in table.schema.columns)
        self._latest_values = LatestValues(table.schema) if has_large else None

    @property
    def size(self) -> int:
        """Bytes of its chunks in memory; a chunk still being read counts as full."""
        return sum(
            self._limits.chunk.size if not reading.future.done() else _size(reading)
            for reading in self.readings
        )

    @property
    def is_complete(self) -> bool:
        """Whether all changed rows are known; if not, the table is read again."""
        return self._changed.is_complete

    def may_begin(self) -> bool:
        """Return whether another chunk may be requested."""
        if self.lane is None or (self.readings and self.readings[-1].is_final):
            return False
        return sum(not reading.future.done() for reading in self.readings) < QUEUED_MAX

    def begin(self, position: Lsn) -> None:
        """Request the next chunk.

        Args:
            position: the closed LSN up to which everything is published.
        """
        if self.lane is not None:
            requested_at = self._changed.mark()
            self.readings.append(Reading(self.lane.submit(self._reader, position), requested_at))

    def observe(self, page: ChangePage) -> None:
        """Record the rows of a page of the stream as changed."""
        if not self.readings:
            return
        if self._identity.schema is not page.schema:
            self._identity = RowIdentity(page.schema, self.table.instance.identity)
        identities = self._identity.of(page.rows, _POSITION_COLUMNS)
        if identities is not None and self._latest_values is not None and self._changed.is_complete:
            is_stored = self._latest_values.add(page, identities, self._changed.now)
            if not is_stored or self._latest_values.size > self._limits.chunk.size:
                identities = None
        self._changed.add(identities)

    def newly_read(self) -> list[Reading]:
        """Return the chunks read since the last call; release the lane after the last chunk."""
        while self.readings and self.readings[-1].future.done() and self.readings[-1].chunk is None:
            if self.readings[-1].error is not None:
                break
            self.readings.pop()  # after the last chunk, or after one that was not read
        read = [r for r in self.readings if r.future.done() and r.fence is None]
        if any(r.error is not None or (r.chunk is not None and r.chunk.is_last) for r in read):
            self.lane = None
        return read

    def give_up(self, reading: Reading) -> None:
        """Drop a chunk that could not be read, and those after it."""
        self.has_failed = True
        self.lane = None
        while self.readings.pop() is not reading:
            pass

    def take(
        self, encoder: EnvelopeEncoder, position: Lsn, utc_offset_minutes: int
    ) -> SnapshotPart | None:
        """Take the oldest chunk, whose fence is passed, without the rows that the stream changed.

        Args:
            encoder: the one in force now.
            position: the closed LSN, at which the rows are current.

        Returns:
            None if the chunk must be read again.
        """
        reading = self.readings.popleft()
        chunk, fence = reading.chunk, reading.fence
        if chunk is None or fence is None:
            return None
        kept = self._changed.unchanged(chunk.identities, reading.requested_at)
        if kept is not None and not self.table.is_cut:
            return None
        read_ms = milliseconds(fence.moment, utc_offset_minutes)
        places: Sequence[int] = range(len(chunk))
        images, keys = chunk.images, chunk.keys
        if kept is not None:
            found = self._without_changed(encoder, reading, chunk, kept, position)
            places, images = list(found), list(found.values())
            keys = [chunk.keys[place] for place in places]
        if self.table.repair is None:
            rows = encoder.snapshot_events(
                images, keys, position, read_ms, chunk.is_last, self.table.kind
            )
        else:
            absent = {index for index, place in enumerate(places) if chunk.is_gone(place)}
            first = read_ms * _NUMBERS + self.table.progress.rows
            rows = encoder.repair_events(images, keys, absent, position, first, read_ms)
        letters = {
            index: chunk.letters[place].at(ChangePosition.from_bytes(rows.positions[index]))
            for index, place in enumerate(places)
            if place in chunk.letters
        }
        if letters:
            rows = rows.with_letters(letters)
        progress = SnapshotProgress(
            SnapshotState.DONE if chunk.is_last else SnapshotState.RUNNING,
            position,
            None if chunk.is_last else chunk.resume_key,
            self.table.progress.rows + len(rows),
            self.table.progress.size + rows.size,
        )
        part = SnapshotPart(self.table, rows, progress)
        self.table = replace(self.table, progress=progress)
        if self.readings:
            self._changed.forget_before(self.readings[0].requested_at)
        else:
            self._changed.clear()
        if self._latest_values is not None:
            self._latest_values.forget_others(self._changed.identities)
        _log.info(
            "snapshot_finished" if chunk.is_last else "snapshot_progress",
            table=str(self.table.name),
            rows=progress.rows,
            fence_lsn=str(position),
        )
        return part

    def _without_changed(
        self,
        encoder: EnvelopeEncoder,
        reading: Reading,
        chunk: Chunk,
        kept: list[int],
        position: Lsn,
    ) -> dict[int, bytes]:
        """Return row images by index, completed with values that no event carries.

        They are those of unchanged rows, and of changed rows with unlogged large values.
        """
        images = {index: chunk.images[index] for index in kept}
        if self._latest_values is None:
            return images
        for index, identity in enumerate(chunk.identities):
            if not (index in images or index in chunk.letters or chunk.is_gone(index)):
                image = self._latest_values.completed(
                    identity, chunk.images[index], reading.requested_at, encoder, position
                )
                if image is not None:
                    images[index] = image
        return dict(sorted(images.items()))


def _size(reading: Reading) -> int:
    return 0 if reading.chunk is None else reading.chunk.size
