"""Reading one table in chunks, in a thread of its own; each statement is short and stands alone.

Rows are encoded as they come, statement by statement: what waits for its fence is their bytes. A
chunk ends with the row that makes it too large, in rows or in bytes, so wide rows make small
chunks, and the next chunk goes on behind the last key. A table without columns that tell its rows
apart is one chunk whatever its size, and refused where that is too large.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tailrace_publisher.encode.envelope import EnvelopeEncoder
from tailrace_publisher.encode.row_identity import RowIdentity
from tailrace_publisher.errors import SnapshotTooLarge, SourceBehind
from tailrace_publisher.ports import Connection
from tailrace_publisher.snapshot.pending import PendingTable
from tailrace_publisher.snapshot.resume_key import read_resume_key, write_resume_key
from tailrace_publisher.snapshot.statements import ChunkStatements
from tailrace_publisher.source.log_end import LogEndSource
from tailrace_publisher.source.page_size import PageLimit, RowSize
from tailrace_publisher.source.queries import max_lsn
from tailrace_schemas.lsn import Lsn

_STATEMENT_ROWS_MAX: Final = 10_000
"""Rows that are in memory as Python values; a chunk has more by several statements."""
_ROW_BYTES: Final = 140
"""Of a row's image, key and identity beside their bytes: three objects and their references."""


@dataclass(slots=True)
class Chunk:
    """Rows of a table that are consecutive in its identity, encoded.

    Attributes:
        images: encoded row images.
        keys: framed event keys.
        identities: by what the rows are told apart.
        size: bytes that it takes in memory.
        resume_key: where the next chunk begins; None for a table that is not cut.
        is_last: whether no row is behind it.
        log_end: where the log of the server that was read ended behind the reading; None where
            that cannot be asked for.
    """

    images: list[bytes] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    identities: list[bytes] = field(default_factory=list)
    size: int = 0
    resume_key: str | None = None
    is_last: bool = False
    log_end: Lsn | None = None

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.images)


@dataclass(frozen=True, slots=True)
class ChunkLimits:
    """What chunks may hold.

    Attributes:
        chunk: rows and bytes of one chunk; one row more than the bytes.
        whole: bytes of a table that is not cut.
    """

    chunk: PageLimit
    whole: int


@dataclass(frozen=True, slots=True)
class ReadSource:
    """Where tables are read.

    Attributes:
        connection: of the reading thread.
        log_ends: asks for the end of the log there.
    """

    connection: Connection
    log_ends: LogEndSource


class TableReader:
    """The chunks of one table, one behind another; used by one thread at a time.

    Attributes:
        table: the table, as it was when the reading began.

    Args:
        table: the table, and where to go on.
        encoder: of its version, for this thread alone.
        limits: what chunks may hold.
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
        self._statements = ChunkStatements(instance, table.schema)
        self._row_size = RowSize(table.schema, leading=0)
        self._behind = read_resume_key(table.progress.resume_key, instance.identity, instance.key)
        self._level = self._statements.depth - 1
        self._has_ended = False

    def read(self, source: ReadSource, position: Lsn) -> Chunk | None:
        """The next chunk; None at the end, and behind a chunk that could not be read.

        Args:
            source: where to read; it must see what is out already.
            position: the closed LSN up to which everything was out before.

        Raises:
            SourceBehind: the connection does not see what is out.
            SnapshotTooLarge: the table is not cut, and too large.
            EncodeError: a value does not fit.
            SourceError: the server did not answer or refused.
        """
        if self._has_ended:
            return None
        self._has_ended = True  # but for a chunk that is read and not the last
        connection = source.connection
        self._check_sees(connection, position)
        chunk = Chunk()
        if self.table.is_cut:
            self._read_cut(connection, chunk, position)
        else:
            self._read_whole(connection, chunk, position)
        if self._is_stopped():
            return None
        end = source.log_ends.read()
        chunk.log_end = None if end is None else end.lsn
        self._has_ended = chunk.is_last
        return chunk

    def _check_sees(self, connection: Connection, position: Lsn) -> None:
        """What was out before the reading must be in the rows: changes behind it are compared."""
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
        self._take(chunk, rows, position)
        chunk.is_last = True

    def _read_cut(self, connection: Connection, chunk: Chunk, position: Lsn) -> None:
        limit = self._limits.chunk
        while not chunk.is_last and not self._is_stopped():
            left = PageLimit(
                min(limit.rows - len(chunk), _STATEMENT_ROWS_MAX), limit.size - chunk.size
            )
            if left.rows <= 0 or left.size <= 0:
                break
            asked = self._row_size.rows_of(left)
            is_everything = self._behind is None or self._level == 0
            rows, is_cut = self._fetch(connection, asked, left)
            if rows:
                self._behind = self._statements.key_of(rows[-1])
                self._take(chunk, self._statements.values_of(rows), position)
            if is_cut or len(rows) == asked:
                self._level = self._statements.depth - 1
            elif is_everything:
                chunk.is_last = True
            else:
                self._level -= 1
        if self._behind is not None:
            chunk.resume_key = write_resume_key(self.table.instance.identity, self._behind)

    def _fetch(
        self, connection: Connection, asked: int, left: PageLimit
    ) -> tuple[list[Sequence[Any]], bool]:
        """The rows of the next statement, and whether they were cut off because of their bytes."""
        if self._behind is None:
            statement, parameters = self._statements.first(), []
        else:
            statement = self._statements.behind(self._level)
            parameters = self._behind[: self._level + 1]
        if not self._row_size.needs_measuring(PageLimit(asked, left.size)):
            return connection.query(statement, asked, *parameters), False
        (rows, *_), is_cut = connection.query_within(
            statement, asked, *parameters, size_of=self._row_size.of, at_most=left.size
        )
        if rows:
            self._row_size.learn(len(rows), sum(map(self._row_size.of, rows)))
        return rows, is_cut

    def _take(self, chunk: Chunk, rows: Sequence[Sequence[Any]], position: Lsn) -> None:
        images, keys = self._encoder.encode_images(rows, position)
        identities = self._identity.of(rows) or []
        chunk.images += images
        chunk.keys += keys
        chunk.identities += identities
        chunk.size += sum(map(len, images)) + sum(map(len, identities)) + _ROW_BYTES * len(rows)
