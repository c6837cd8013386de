"""Pages that are read in blocks, and encoded while the next ones are fetched."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Final

import structlog

from tailrace_publisher.encode.blocks.envelopes import BlockEncoder
from tailrace_publisher.encode.columns.column_forms import Declined
from tailrace_publisher.encode.encoded_events import EncodedRows
from tailrace_publisher.source.blocks.block_cursor import BlockConnection, RowRefused
from tailrace_publisher.source.blocks.block_memory import PLACES, ROWS_MIN, rows_of
from tailrace_publisher.source.blocks.block_rows import BlockRows, FetchedBlock
from tailrace_publisher.source.blocks.block_session import BlockSession
from tailrace_publisher.source.blocks.table_blocks import BLOCK_ROWS_MAX, VALUE_CLASS, TableBlocks
from tailrace_publisher.source.connection.odbc import OdbcError
from tailrace_publisher.source.connection.tries import tried
from tailrace_publisher.source.log.queries import lsn_or_none
from tailrace_publisher.source.pages.page_readers import (
    FIRST_BYTES,
    Fetched,
    Stamps,
    StatementOf,
    TableRows,
    seen_first,
    with_first,
)
from tailrace_publisher.source.pages.page_size import PageLimit, RowSize
from tailrace_publisher.source.pages.page_statements import Bound
from tailrace_schemas.position.lsn import LSN_BYTES

_NAME_BYTES: Final = 512

_log = structlog.get_logger(__name__)


class BlockReader:
    """Reads and encodes the pages of one capture instance in one window.

    Args:
        encoder: of the version in force.
        row_size: learned from the instance's rows, and updated by these.
        stamps: commit times by commit LSN, and the clock.
    """

    rows_min = 2

    def __init__(
        self,
        session: BlockSession,
        encoder: BlockEncoder,
        limit: PageLimit,
        row_size: RowSize,
        stamps: Stamps,
    ) -> None:
        self._session = session
        self._encoder = encoder
        self.as_bytes = encoder.as_bytes
        self._limit = limit
        self._row_size = row_size
        self._stamps = stamps
        width = sum(cell.width for cell in encoder.cells)
        # One is looked at while the next is fetched, so two may not be much larger than the page.
        fitting = min(rows_of(encoder.cells), max(ROWS_MIN, limit.size // (PLACES * width)))
        self._rows = min(BLOCK_ROWS_MAX, limit.rows, fitting)

    def read(
        self,
        batch: str,
        parameters: Sequence[object],
        statements: int,
        proof: Bound,
        first: Bound | None,
    ) -> Fetched[BlockRows]:
        """See :class:`PageReader`.

        Raises:
            Declined: the reference is to read this page.
            SourceError: the typed reason of the failure.
        """
        text, bound = with_first(first, batch, parameters)
        return tried(partial(self._read, text, bound, statements, proof, first))

    def _read(
        self,
        text: str,
        parameters: Sequence[object],
        statements: int,
        proof: Bound,
        first: Bound | None,
    ) -> Fetched[BlockRows]:
        instance = self._encoder.schema.capture_instance
        try:
            with self._session.faults.declined(instance):
                return self._read_sets(text, parameters, statements, proof, first)
        except RowRefused as error:
            raise Declined(str(error)) from error
        except OdbcError as error:
            if error.records and error.records[0][0].startswith(VALUE_CLASS):
                raise Declined(f"a value was refused (SQLSTATE {error.records[0][0]})") from error
            raise self._session.translated(error) from error

    def _read_sets(
        self,
        text: str,
        parameters: Sequence[object],
        statements: int,
        proof: Bound,
        first: Bound | None,
    ) -> Fetched[BlockRows]:
        # See: cdc.lsn_time_mapping, sys.fn_cdc_get_min_lsn: one before the rows, one after them
        connection = self._session.connection
        proving, names = proof
        connection.execute(f"{text} {proving}", [*parameters, *names])
        newest, was_masked = None, False
        if first:
            newest, was_masked = seen_first(connection.values(FIRST_BYTES)[0])
            connection.next_set()
        sets: list[BlockRows] = []
        page = _Measured(self._row_size, self._limit)
        for _ in range(statements):
            rows = BlockRows()
            sets.append(rows)
            for block in self._fetched(connection):
                rows.blocks.append(block)
                if page.is_full(block):
                    break
            if page.is_cut:
                break
            connection.next_set()
        if page.is_cut:
            connection.execute(proving, names)
        minimum = lsn_or_none(connection.values(LSN_BYTES)[0])
        connection.end()
        return Fetched(newest, sets, minimum, page.is_cut, was_masked)

    def _fetched(self, connection: BlockConnection) -> Iterator[FetchedBlock]:
        """Blocks of the current result set, each on its way to be encoded."""
        encoder, encoding = self._encoder, self._session.encoding
        blocks = connection.blocks(encoder.cells, self._rows)
        while True:
            encoding.wait_for_place()
            columns = next(blocks, None)
            if columns is None:
                return
            images = encoding.submit_block(partial(encoder.encode_values, columns))
            yield FetchedBlock(encoder.header_of(columns), images)

    def together(self, parts: Sequence[BlockRows]) -> BlockRows:
        """See :class:`PageReader`."""
        return BlockRows([block for part in parts for block in part.blocks])

    def encode(self, rows: BlockRows) -> Future[EncodedRows]:
        """See :class:`EncodingReader`."""
        return self._session.encoding.submit(partial(self._encode, rows))

    def _encode(self, rows: BlockRows) -> EncodedRows:
        with self._session.faults.declined(self._encoder.schema.capture_instance):
            return self._encoded(rows)

    def _encoded(self, rows: BlockRows) -> EncodedRows:
        if not rows:
            return EncodedRows(self._encoder.topic, self._encoder.schema_id)
        blocks = [block.encoded() for block in rows.blocks]
        if self._row_size.needs_measuring(self._limit):
            # Here, since the reading thread would have to wait; it may ask for a page meanwhile.
            size = sum(int(block.images.nbytes) for block in blocks)
            self._row_size.learn(len(rows), self._row_size.of_block(len(rows), size))
        return self._encoder.encode(blocks, self._stamps.commit_ms, self._stamps.now_ms())


class _Measured:
    """The bytes of a page's rows, if their declared widths allow a large page."""

    def __init__(self, row_size: RowSize, limit: PageLimit) -> None:
        self.is_cut = False
        self._row_size = row_size
        self._limit = limit
        self._is_wanted = row_size.needs_measuring(limit)
        self._taken = 0
        self._last: FetchedBlock | None = None

    def is_full(self, block: FetchedBlock) -> bool:
        """Count a fetched block; its size is known when the next one is fetched."""
        if self._is_wanted:
            last, self._last = self._last, block
            if last is not None:
                self._taken += self._row_size.of_block(len(last), last.size)
            self.is_cut = self._taken >= self._limit.size
        return self.is_cut


class TableReader:
    """Rows of one source table, with typed reasons of failures."""

    def __init__(self, session: BlockSession, blocks: TableBlocks, instance: str) -> None:
        self._instance = instance
        self._session = session
        self._blocks = blocks

    def read(
        self, statement: StatementOf, parameters: Sequence[object], limit: PageLimit
    ) -> TableRows:
        """See :class:`TableReading`."""
        return tried(partial(self._read, statement, parameters, limit))

    def _read(
        self, statement: StatementOf, parameters: Sequence[object], limit: PageLimit
    ) -> TableRows:
        try:
            with self._session.faults.declined(self._instance):
                return self._blocks.read(statement, parameters, limit)
        except OdbcError as error:
            raise self._session.translated(error) from error
