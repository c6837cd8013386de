"""Reading one table in chunks, in a thread of its own, with short independent statements.

Rows are encoded statement by statement, so only their bytes wait for the fence. A chunk ends with
the row that exceeds its limit of rows or bytes, so wide rows make small chunks. The next chunk
continues after the last key. A table without columns that distinguish its rows is one chunk of any
size, and refused if that is too large.

If a table has more than a few rows and the lane reads blocks, its rows arrive in blocks, encoded.
If the block reader declines a block, the reference reader continues that table row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from typing import Any, Final

import structlog

from tailrace_publisher.encode.around_bad_events import encode_images_around
from tailrace_publisher.encode.columns.column_forms import Declined
from tailrace_publisher.encode.envelopes.envelope import EnvelopeEncoder
from tailrace_publisher.encode.row_identity import RowIdentity
from tailrace_publisher.errors import (
    RepairRefused,
    SnapshotTooLarge,
    SourceBehind,
    SourceError,
)
from tailrace_publisher.options.sql_condition import shape_of
from tailrace_publisher.ports import Connection
from tailrace_publisher.runtime import DatabaseTopics
from tailrace_publisher.snapshot.chunk import Chunk
from tailrace_publisher.snapshot.keyed_rows import KeyedRows, RepairReader, identifies_rows
from tailrace_publisher.snapshot.lost_keys import LostKeys
from tailrace_publisher.snapshot.lost_rows import LostRows
from tailrace_publisher.snapshot.pending import PendingTable
from tailrace_publisher.snapshot.repair_keys import NamedKeys, RepairKeys
from tailrace_publisher.snapshot.resume_key import read_resume_key, write_resume_key
from tailrace_publisher.snapshot.statements import ChunkStatements, KeyWalk, check_reads_back
from tailrace_publisher.source.catalog.hidden_data import check_rows_visible, hidden_data
from tailrace_publisher.source.log.log_end import LogEndSource
from tailrace_publisher.source.log.queries import max_lsn
from tailrace_publisher.source.pages.page_readers import BlockReading, TableReading, TableRows
from tailrace_publisher.source.pages.page_size import FEW_ROWS, PageLimit, RowSize
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.records.signals import RowKeys

_log = structlog.get_logger(__name__)

_STATEMENT_ROWS_MAX: Final = 10_000
"""Rows in memory as Python values; a larger chunk takes several statements."""


@dataclass(frozen=True, slots=True)
class ChunkLimits:
    """The limits of chunks.

    Attributes:
        chunk: rows and bytes of one chunk; the row that exceeds the bytes is included.
        whole: bytes of a table that is not divided.
    """

    chunk: PageLimit
    whole: int


def _no_blocks() -> None:
    """Have everything read row by row."""


@dataclass(frozen=True, slots=True)
class ReadSource:
    """Where tables are read.

    Attributes:
        connection: used by the reading thread alone.
        blocks: returns the block reader of the same server, opened on first use. None if there is
            none.
        topics: have the events of a lost history. Without them only named rows are repaired.
        exempt: security policies that hide nothing from the login.
    """

    connection: Connection
    log_ends: LogEndSource
    blocks: Callable[[], BlockReading | None] = _no_blocks
    topics: DatabaseTopics | None = None
    exempt: Sequence[str] = ()


class TableReader:
    """Reads the chunks of one table in order; used by one thread at a time.

    Attributes:
        table: the table, as it was when reading started.

    Args:
        table: the table, and where to continue.
        encoder: for this thread alone.
        is_stopped: whether to give up between two statements.
    """

    def __init__(
        self,
        table: PendingTable,
        encoder: EnvelopeEncoder,
        limits: ChunkLimits,
        is_stopped: Callable[[], bool],
    ) -> None:
        self.table = table
        self._encoder = encoder
        self._limits = limits
        self._is_stopped = is_stopped
        instance = table.instance
        self._identity = RowIdentity(table.schema, instance.identity)
        self._statements = ChunkStatements(instance, table.schema, table.where)
        self._row_size = RowSize(table.schema, leading=0)
        after = None
        if table.repair is None:
            after = read_resume_key(
                table.progress.resume_key, instance.identity, instance.key, table.where
            )
        self._walk = KeyWalk(self._statements, after)
        self._repair: RepairReader | None = None
        self._has_ended = False
        self._rows_read = 0
        self._declined = False
        self._in_blocks: tuple[BlockReading, TableReading | None] | None = None

    def read(self, source: ReadSource, position: Lsn) -> Chunk | None:
        """Return the next chunk; None after the last one, and after one that could not be read.

        Args:
            source: where to read; it must see everything that is published.
            position: the closed LSN up to which everything was published before.

        Raises:
            SourceBehind: the connection does not see what is published.
            RepairRefused: the rows of a repair cannot be read by their keys.
            SnapshotTooLarge: the table is not divided into chunks, and too large.
            UnreadableKey: no statement reads what follows the last key.
            EncodeError: a value does not fit its type.
            ValuesHidden: the rows may be fewer than there are, or hold masks.
            SourceError: the server did not answer or refused.
        """
        if self._has_ended:
            return None
        self._has_ended = True  # reset below once a chunk is read that is not the last
        connection = source.connection
        self._check_sees(connection, position)
        # Before and after: rights may be granted between the rows and the question.
        self._check_visible(source)
        chunk = Chunk()
        try:
            if self.table.repair is not None:
                self._read_keyed(source, chunk, self.table.repair, position)
            elif self.table.is_cut:
                self._read_cut(source, chunk, position)
            else:
                self._read_whole(connection, chunk, position)
        except SourceError as error:
            if self.table.where is None or type(error) is not SourceError:
                raise
            shape = shape_of(self.table.where)
            reason = f"{error}; the cause may be the condition of its snapshot ({shape})"
            raise SourceError(reason, sqlstate=error.sqlstate, number=error.number) from error
        if self._is_stopped():
            return None
        self._check_visible(source)
        end = source.log_ends.read()
        chunk.log_end = None if end is None else end.lsn
        self._has_ended = chunk.is_last
        return chunk

    def _check_visible(self, source: ReadSource) -> None:
        """Refuse rows that were read while the server hid values or rows from the login.

        Raises:
            ValuesHidden: it does, at the server that was read.
        """
        instance = self.table.instance
        if instance.may_be_masked:
            hidden = hidden_data(source.connection, source.exempt, instance)
            names = [column.name for column in self.table.schema.columns]
            check_rows_visible(hidden, instance, names)

    def _check_sees(self, connection: Connection, position: Lsn) -> None:
        """Refuse a connection that lags: later changes alone are compared with the rows."""
        newest = max_lsn(connection) or Lsn.ZERO
        if newest < position:
            name = self.table.instance.name
            raise SourceBehind(name, None if newest == Lsn.ZERO else newest, position)

    def _read_whole(self, connection: Connection, chunk: Chunk, position: Lsn) -> None:
        most = self._limits.whole
        (rows, *_), is_cut = connection.query_within(
            self._statements.whole, size_of=self._row_size.of, at_most=most
        )
        if is_cut:
            raise SnapshotTooLarge(self.table.instance.table, len(rows), most)
        chunk.take(self._encoded(rows, position))
        chunk.is_last = True

    def _read_keyed(
        self, source: ReadSource, chunk: Chunk, wanted: RowKeys | LostRows, position: Lsn
    ) -> None:
        """Read the next rows of a repair, then those of their keys that have no row."""
        if self._repair is None:
            self._repair = self._repair_of(source, wanted)
        self._repair.read(source.connection, chunk, position, self._is_stopped)

    def _repair_of(self, source: ReadSource, wanted: RowKeys | LostRows) -> RepairReader:
        table = self.table
        if self._encoder.treatment.skipped:
            raise RepairRefused(table.name, "skip.operations leaves out events of it")
        keys: RepairKeys
        match wanted, source.topics:
            case LostRows(), DatabaseTopics() as topics:
                keys = LostKeys(table, wanted, self._encoder, topics)
            case RowKeys(columns), _ if identifies_rows(table.instance, columns):
                keys = NamedKeys(table, wanted)
            case _:
                raise RepairRefused(table.name, "these keys do not identify its rows")
        rows = KeyedRows(table, self._limits.whole)
        return RepairReader(rows, keys, self._limits.chunk, self._encoded, table.name)

    def _read_cut(self, source: ReadSource, chunk: Chunk, position: Lsn) -> None:
        limit = self._limits.chunk
        while not chunk.is_last and not self._is_stopped():
            left = PageLimit(
                min(limit.rows - len(chunk), _STATEMENT_ROWS_MAX), limit.size - chunk.size
            )
            if left.rows <= 0 or left.size <= 0:
                break
            asked = self._row_size.rows_of(left)
            if self._rows_read < FEW_ROWS:
                asked = min(asked, FEW_ROWS)  # a small table is read faster row by row
            rows = self._fetch(source, asked, left, position)
            self._rows_read += len(rows)
            is_full = rows.is_cut or len(rows) == asked
            chunk.is_last = self._walk.passed(rows.last, is_full=is_full)
            if rows.last is not None:
                chunk.take(rows)
            if self._walk.after is not None and not chunk.is_last:
                check_reads_back(source.connection, self.table.instance, self._walk.after)
        if self._walk.after is not None:
            identity = self.table.instance.identity
            chunk.resume_key = write_resume_key(identity, self._walk.after, self.table.where)

    def _fetch(self, source: ReadSource, asked: int, left: PageLimit, position: Lsn) -> TableRows:
        """Return the rows of the next statement."""
        statement, parameters = self._walk.next()
        bounds = PageLimit(asked, left.size)
        in_blocks = self._blocks_of(source, asked)
        if in_blocks is not None:
            try:
                return in_blocks.read(self._statement, [asked, *parameters], bounds)
            except Declined as error:
                self._declined = True
                name = str(self.table.instance.table)
                _log.info("snapshot_block_declined", table=name, reason=str(error))
        return self._fetch_by_row(
            source.connection, statement, [asked, *parameters], bounds, position
        )

    def _statement(self, as_bytes: Set[str]) -> str:
        """Return the next statement for blocks, which have the bytes of some columns."""
        table = self.table
        statements = ChunkStatements(table.instance, table.schema, table.where, as_bytes=as_bytes)
        return self._walk.next(statements)[0]

    def _fetch_by_row(
        self,
        connection: Connection,
        statement: str,
        parameters: Sequence[Any],
        bounds: PageLimit,
        position: Lsn,
    ) -> TableRows:
        """Return the rows of a statement from the reference reader."""
        is_cut = False
        if not self._row_size.needs_measuring(bounds):
            rows = connection.query(statement, *parameters)
        else:
            (rows, *_), is_cut = connection.query_within(
                statement, *parameters, size_of=self._row_size.of, at_most=bounds.size
            )
            if rows:
                self._row_size.learn(len(rows), sum(map(self._row_size.of, rows)))
        found = self._encoded(self._statements.values_of(rows), position)
        found.last = rows[-1] if rows else None
        found.is_cut = is_cut
        return found

    def _blocks_of(self, source: ReadSource, asked: int) -> TableReading | None:
        """Return the block reader of the next rows; None if the reference reads them."""
        if self._declined or self._rows_read < FEW_ROWS or asked < FEW_ROWS:
            return None
        blocks = source.blocks()
        if blocks is None:
            return None
        if self._in_blocks is None or self._in_blocks[0] is not blocks:
            reader = blocks.table_reader(
                self._encoder,
                self.table.instance.identity,
                self._statements.texts,
                self._row_size,
            )
            self._in_blocks = blocks, reader
            self._declined = reader is None
        return self._in_blocks[1]

    def _encoded(self, rows: Sequence[Sequence[Any]], position: Lsn) -> TableRows:
        if self._encoder.treatment.around:
            images, keys, letters = encode_images_around(self._encoder, rows, position)
        else:
            (images, keys), letters = self._encoder.encode_images(rows, position), {}
        return TableRows(images, keys, self._identity.of(rows) or [], letters=letters)
