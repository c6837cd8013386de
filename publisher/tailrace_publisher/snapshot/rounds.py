"""The initial snapshot beside the stream: one round of chunks between two fences at a time.

Theory of operation. Everything up to L0 is out when a round begins. It reads chunks of tables with
plain statements, then sets a fence behind the reads. The stream goes on meanwhile, and the keys
that it carries for those tables are kept. When the stream has passed the fence, at L1, a row whose
key did not appear in (L0, L1] is the same at L0, when it was read, and at L1: it is published as
op r at L1. A row whose key appeared is dropped: its events tell. A row that the reads missed
because it moved or was inserted meanwhile has events in (L0, L1], too. So no lock is held and no
transaction is left open, however large the table.

A table without a unique key has no keys to compare: its one chunk is read again when any of its
rows changed meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import structlog

from tailrace_publisher.change.instance import CaptureInstance
from tailrace_publisher.encode.envelope import EnvelopeEncoder
from tailrace_publisher.encode.rows import EncodedRows
from tailrace_publisher.one_table import of_one_table
from tailrace_publisher.ports import Connection
from tailrace_publisher.snapshot.chunks import Chunk, read_chunk
from tailrace_publisher.snapshot.fence import Fence, FenceSource
from tailrace_publisher.snapshot.progress import SnapshotProgress, SnapshotState
from tailrace_publisher.source.windows import milliseconds
from tailrace_schemas.envelope import TableSchema
from tailrace_schemas.lsn import Lsn

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class PendingTable:
    """A table whose snapshot is not over.

    Attributes:
        topic: where its rows go.
        instance: the capture instance that is read now.
        schema: the version in force.
        progress: how far the snapshot is.
    """

    topic: str
    instance: CaptureInstance
    schema: TableSchema
    progress: SnapshotProgress


@dataclass(frozen=True, slots=True)
class SnapshotPart:
    """What a round gives for one table: rows to publish and what is true once they are out."""

    table: PendingTable
    rows: EncodedRows
    progress: SnapshotProgress


@dataclass(slots=True)
class _Round:
    chunks: list[tuple[PendingTable, Chunk]]
    fence: Fence
    fence_lsn: Lsn | None = None
    changed: dict[str, set[bytes | None]] = field(default_factory=dict)


class Snapshots:
    """Reads the tables that are pending, a round at a time.

    Args:
        connection: where to read.
        rows_max: rows that a round reads, see snapshot.chunk_rows.
    """

    def __init__(self, connection: Connection, rows_max: int) -> None:
        self._connection = connection
        self._fences = FenceSource(connection)
        self._rows_max = rows_max
        self._round: _Round | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether a round was read and its fence is not passed yet."""
        return self._round is not None

    def begin(self, pending: Sequence[PendingTable], position: Lsn) -> None:
        """Read the next chunks and set the fence behind them.

        Args:
            pending: the tables.
            position: the closed LSN at which the stream is.

        Raises:
            TableFailed: a table may not be read any more, or cannot be.
            SourceError: the server did not answer or refused.
        """
        chunks: list[tuple[PendingTable, Chunk]] = []
        room = self._rows_max
        for table in pending:
            resume_key = table.progress.resume_key
            behind = "" if resume_key is None else f" behind key {resume_key}"
            with of_one_table(table.instance.table, f"reading its snapshot{behind}"):
                chunk = read_chunk(self._connection, table.instance, table.schema, resume_key, room)
            chunks.append((table, chunk))
            room -= len(chunk.rows)
            if room <= 0:
                break
        self._round = _Round(
            chunks,
            self._fences.mark(position),
            changed={table.topic: set() for table, _ in chunks},
        )
        _log.debug("snapshot_round_read", tables=len(chunks), rows=self._rows_max - room)

    def observe(self, parts: Iterable[EncodedRows]) -> None:
        """Keep the keys that the stream carries for the tables of the round."""
        if self._round is None:
            return
        for part in parts:
            keys = self._round.changed.get(part.topic)
            if keys is not None:
                keys.update(part.keys)

    def has_passed(self, position: Lsn) -> bool:
        """Whether the stream, at a closed LSN, has passed the fence.

        Raises:
            SourceError: the server did not answer or refused.
        """
        if self._round is None:
            return False
        if self._round.fence_lsn is None:
            self._round.fence_lsn = self._fences.reached(self._round.fence)
        return self._round.fence_lsn is not None and self._round.fence_lsn <= position

    def finish(
        self,
        position: Lsn,
        utc_offset_minutes: int,
        current_encoder: Callable[[PendingTable], EnvelopeEncoder | None],
    ) -> list[SnapshotPart]:
        """End the round at a closed LSN that has passed the fence.

        Args:
            position: the LSN.
            utc_offset_minutes: how far the server's local time is ahead of UTC.
            current_encoder: the encoder in force now; None when the table is gone.

        Raises:
            TableFailed: a value does not fit.
        """
        if self._round is None:
            return []
        finished, self._round = self._round, None
        read_ms = milliseconds(finished.fence.moment, utc_offset_minutes)
        parts: list[SnapshotPart] = []
        for table, chunk in finished.chunks:
            with of_one_table(table.instance.table, "encoding its snapshot"):
                part = self._part(finished, table, chunk, position, read_ms, current_encoder)
            if part is not None:
                parts.append(part)
        return parts

    def _part(
        self,
        finished: _Round,
        table: PendingTable,
        chunk: Chunk,
        position: Lsn,
        read_ms: int,
        current_encoder: Callable[[PendingTable], EnvelopeEncoder | None],
    ) -> SnapshotPart | None:
        """What a chunk gives; None to read it again, or when its table is gone."""
        encoder = current_encoder(table)
        if encoder is None:
            return None
        if encoder.schema != table.schema:
            _log.info("snapshot_chunk_retried", table=str(table.instance.table), reason="DDL")
            return None
        rows = _keep(table, chunk, encoder, finished.changed[table.topic], position, read_ms)
        if rows is None:
            return None
        progress = SnapshotProgress(
            SnapshotState.DONE if chunk.is_last else SnapshotState.RUNNING,
            position,
            None if chunk.is_last else chunk.resume_key,
            table.progress.rows + len(rows),
        )
        _log.info(
            "snapshot_finished" if chunk.is_last else "snapshot_progress",
            table=str(table.instance.table),
            rows=progress.rows,
            fence_lsn=str(position),
        )
        return SnapshotPart(table, rows, progress)


def _keep(
    table: PendingTable,
    chunk: Chunk,
    encoder: EnvelopeEncoder,
    changed: set[bytes | None],
    position: Lsn,
    read_ms: int,
) -> EncodedRows | None:
    """The events of a chunk without the rows that the stream told about; None to read it again."""
    if changed and not table.instance.key_is_unique:
        _log.info(
            "snapshot_chunk_retried",
            table=str(table.instance.table),
            reason="it has no unique key and rows changed while it was read",
        )
        return None
    encoded = encoder.encode_snapshot(chunk.rows, position, read_ms, chunk.is_last)
    if not changed.intersection(encoded.keys):
        return encoded
    kept = [row for row, key in zip(chunk.rows, encoded.keys, strict=True) if key not in changed]
    return encoder.encode_snapshot(kept, position, read_ms, chunk.is_last)
