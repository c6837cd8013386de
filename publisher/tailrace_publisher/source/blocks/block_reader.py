"""Pages that are read in blocks, and encoded while the next ones are fetched."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from concurrent.futures import Future
from functools import partial
from typing import Final

import structlog

from tailrace_publisher.encode.blocks.envelopes import BlockEncoder
from tailrace_publisher.encode.blocks.images import ImageEncoder
from tailrace_publisher.encode.columns.column_forms import Declined
from tailrace_publisher.encode.encoded_events import EncodedRows
from tailrace_publisher.encode.envelopes.envelope import EnvelopeEncoder
from tailrace_publisher.options.source import SourceConfig
from tailrace_publisher.source.blocks.block_cursor import BlockConnection, RowRefused
from tailrace_publisher.source.blocks.block_faults import BlockFaults
from tailrace_publisher.source.blocks.block_memory import PLACES, ROWS_MIN, rows_of
from tailrace_publisher.source.blocks.block_rows import BlockRows, EncodingThread, FetchedBlock
from tailrace_publisher.source.blocks.commit_columns import commits_in_blocks
from tailrace_publisher.source.blocks.table_blocks import (
    BLOCK_ROWS_MAX,
    VALUE_CLASS,
    TableBlocks,
)
from tailrace_publisher.source.connection.connection import connection_string
from tailrace_publisher.source.connection.driver import find_driver
from tailrace_publisher.source.connection.odbc import DriverManager, OdbcError
from tailrace_publisher.source.connection.server_errors import source_error
from tailrace_publisher.source.connection.session_settings import SESSION_SETTINGS
from tailrace_publisher.source.connection.tries import tried
from tailrace_publisher.source.log.commit_times import Commits
from tailrace_publisher.source.log.queries import lsn_or_none
from tailrace_publisher.source.pages.page_readers import (
    LOW_WATERMARK,
    NEWEST,
    Fetched,
    Stamps,
    TableRows,
)
from tailrace_publisher.source.pages.page_size import PageLimit, RowSize
from tailrace_schemas.events.envelope import TableSchema
from tailrace_schemas.position.lsn import LSN_BYTES, Lsn
from tailrace_service.closing import Closing

_NAME_BYTES: Final = 512

_log = structlog.get_logger(__name__)


class BlockReader:
    """Reads and encodes the pages of one capture instance in one window.

    Args:
        blocks: the connection, with what goes wrong on it.
        encoder: of the version in force.
        limit: of a page.
        row_size: what was learned of the instance's rows; it learns from these.
        stamps: commit times by commit LSN, and the clock.
    """

    rows_min = 2

    def __init__(
        self,
        blocks: BlockPaths,
        encoder: BlockEncoder,
        limit: PageLimit,
        row_size: RowSize,
        stamps: Stamps,
    ) -> None:
        self._blocks = blocks
        self._encoder = encoder
        self._limit = limit
        self._row_size = row_size
        self._stamps = stamps
        width = sum(cell.width for cell in encoder.cells)
        # One is looked at while the next is fetched, so two may not be much larger than the page.
        fitting = min(rows_of(encoder.cells), max(ROWS_MIN, limit.size // (PLACES * width)))
        self._rows = min(BLOCK_ROWS_MAX, limit.rows, fitting)

    def read(
        self, batch: str, parameters: Sequence[object], statements: int, *, with_newest: bool
    ) -> Fetched[BlockRows]:
        """See :class:`PageReader`.

        Raises:
            Declined: the reference is to read this page.
            SourceError: the typed reason of the failure.
        """
        text = f"{NEWEST if with_newest else ''}{batch} {LOW_WATERMARK}"
        return tried(partial(self._read, text, parameters, statements, with_newest=with_newest))

    def _read(
        self, text: str, parameters: Sequence[object], statements: int, *, with_newest: bool
    ) -> Fetched[BlockRows]:
        instance = self._encoder.schema.capture_instance
        try:
            with self._blocks.faults.declined(instance):
                return self._read_sets(text, parameters, statements, with_newest=with_newest)
        except RowRefused as error:
            raise Declined(str(error)) from error
        except OdbcError as error:
            if error.records and error.records[0][0].startswith(VALUE_CLASS):
                raise Declined(f"a value was refused (SQLSTATE {error.records[0][0]})") from error
            raise self._blocks.translated(error) from error

    def _read_sets(
        self, text: str, parameters: Sequence[object], statements: int, *, with_newest: bool
    ) -> Fetched[BlockRows]:
        connection = self._blocks.connection
        name = self._encoder.schema.capture_instance
        connection.execute(text, [*parameters, name])
        newest = None
        if with_newest:
            newest = lsn_or_none(connection.values(LSN_BYTES)[0])
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
            connection.execute(LOW_WATERMARK, [name])
        minimum = lsn_or_none(connection.values(LSN_BYTES)[0])
        connection.end()
        return Fetched(newest, sets, minimum, page.is_cut)

    def _fetched(self, connection: BlockConnection) -> Iterator[FetchedBlock]:
        """Blocks of the current result set, each on its way to be encoded."""
        encoder, encoding = self._encoder, self._blocks.encoding
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
        return self._blocks.encoding.submit(partial(self._encode, rows))

    def _encode(self, rows: BlockRows) -> EncodedRows:
        with self._blocks.faults.declined(self._encoder.schema.capture_instance):
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
    """What the rows of a page take, where their declared widths do not rule out that it is much."""

    def __init__(self, row_size: RowSize, limit: PageLimit) -> None:
        self.is_cut = False
        self._row_size = row_size
        self._limit = limit
        self._is_wanted = row_size.needs_measuring(limit)
        self._taken = 0
        self._last: FetchedBlock | None = None

    def is_full(self, block: FetchedBlock) -> bool:
        """Take in a fetched block; what it takes is known when the next one is fetched."""
        if self._is_wanted:
            last, self._last = self._last, block
            if last is not None:
                self._taken += self._row_size.of_block(len(last), last.size)
            self.is_cut = self._taken >= self._limit.size
        return self.is_cut


class BlockPaths(Closing):
    """A connection for blocks, and which versions can be read through it.

    Args:
        config: where the server is.

    Attributes:
        encoding: encodes what the connection fetches.
        faults: the instances that are read row by row for a fault of the block path.

    Raises:
        OSError: the driver manager cannot be loaded.
    """

    def __init__(self, config: SourceConfig) -> None:
        DriverManager()
        self._config = config
        self._connection: BlockConnection | None = None
        self.encoding = EncodingThread()
        self.faults = BlockFaults()
        self._encoders: dict[str, tuple[TableSchema, BlockEncoder | None]] = {}

    @property
    def connection(self) -> BlockConnection:
        """For the reading thread; opened when there is something to read.

        Raises:
            ConfigError: no driver.
            SourceError: no connection.
        """
        if self._connection is None:
            config = self._config
            text = connection_string(config, find_driver(config.driver))
            try:
                self._connection = BlockConnection(
                    text,
                    login_timeout_s=config.login_timeout_s,
                    query_timeout_s=config.query_timeout_s,
                )
            except OdbcError as error:
                raise self.translated(error, is_login=True) from None
            self.run(SESSION_SETTINGS)
        return self._connection

    @property
    def queries(self) -> int:
        """Number of statements sent so far."""
        return 0 if self._connection is None else self._connection.queries

    def close(self) -> None:
        """Close the connection, behind what is being encoded of its memory."""
        self.encoding.close()
        if self._connection is not None:
            self._connection.close()

    def cancel(self) -> None:
        """End the statement that runs now, if one does; for another thread."""
        connection = self._connection
        if connection is not None:
            connection.cancel()

    def reader(
        self, reference: EnvelopeEncoder, limit: PageLimit, row_size: RowSize, stamps: Stamps
    ) -> BlockReader | None:
        """Who reads the pages of a version in a window; None where the reference does.

        Args:
            reference: encoder of the version.
            limit: of a page.
            row_size: what was learned of the instance's rows.
            stamps: times of the events.
        """
        if self.faults.has(reference.schema.capture_instance):
            return None
        encoder = self._encoder(reference)
        return None if encoder is None else BlockReader(self, encoder, limit, row_size, stamps)

    def table_reader(
        self, reference: EnvelopeEncoder, identity: Sequence[str], texts: int, row_size: RowSize
    ) -> _TableReader | None:
        """See :class:`BlockReading`."""
        schema = reference.schema
        if self.faults.has(schema.capture_instance):
            return None

        def encoder_of(not_ascii: Set[str]) -> ImageEncoder:
            hashes = reference.treatment.hashes
            return ImageEncoder(schema, reference.key_schema_id, identity, hashes, not_ascii)

        try:
            blocks = TableBlocks(self.connection, encoder_of, texts, row_size)
        except Declined as error:
            _log.debug("table_not_in_blocks", instance=schema.capture_instance, reason=str(error))
            return None
        return _TableReader(self, blocks, schema.capture_instance)

    def commits(self, first: Lsn, limit: int, zone: str | None) -> Commits:
        """See :class:`BlockReading`."""
        try:
            return commits_in_blocks(self.connection, first, limit, zone)
        except OdbcError as error:
            raise self.translated(error) from error

    def run(self, statement: str) -> None:
        """See :class:`BlockReading`."""
        try:
            self.connection.execute(statement)
            self.connection.end()
        except OdbcError as error:
            raise self.translated(error) from error

    def text(self, statement: str) -> str:
        """See :class:`BlockReading`."""
        try:
            self.connection.execute(statement)
            found = self.connection.values(_NAME_BYTES)
            self.connection.end()
        except OdbcError as error:
            raise self.translated(error) from error
        return (found[0] or b"").decode("utf-16-le") if found else ""

    def _encoder(self, reference: EnvelopeEncoder) -> BlockEncoder | None:
        """The encoder of a version; decided once for each, and when its texts are known better."""
        instance = reference.schema.capture_instance
        known = self._encoders.get(instance)
        encoder: BlockEncoder | None = None
        if known is not None and known[0] is reference.schema:
            encoder = None if known[1] is None else known[1].relearned()
            if encoder is known[1]:
                return encoder
        try:
            encoder = encoder or BlockEncoder(
                reference.server_name,
                reference.schema,
                reference.topic,
                reference.schema_id,
                reference.key_schema_id,
                reference.treatment,
            )
            if rows_of(encoder.cells) < ROWS_MIN:
                raise Declined("too few rows to a block")  # noqa: TRY301 - one place to say it
        except Declined as error:
            encoder = None
            _log.debug("table_not_in_blocks", instance=instance, reason=str(error))
        self._encoders[instance] = (reference.schema, encoder)
        return encoder

    def translated(self, error: OdbcError, *, is_login: bool = False) -> Exception:
        """The typed reason of a failure of the driver's."""
        numbers = [number for _, number, _ in error.records]
        sqlstate = error.records[0][0] if error.records else ""
        return source_error(self._config, sqlstate, numbers, str(error), is_login=is_login)


class _TableReader:
    """Rows of one source table, with typed reasons of failures."""

    def __init__(self, paths: BlockPaths, blocks: TableBlocks, instance: str) -> None:
        self._instance = instance
        self._paths = paths
        self._blocks = blocks

    def read(self, statement: str, parameters: Sequence[object], limit: PageLimit) -> TableRows:
        """See :class:`TableReading`."""
        return tried(partial(self._read, statement, parameters, limit))

    def _read(self, statement: str, parameters: Sequence[object], limit: PageLimit) -> TableRows:
        try:
            with self._paths.faults.declined(self._instance):
                return self._blocks.read(statement, parameters, limit)
        except OdbcError as error:
            raise self._paths.translated(error) from error
