"""Pages that are read in blocks and encoded on the reading thread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Self

import structlog

from tailrace_publisher.encode.blocks.envelopes import BlockEncoder, EncodedBlock
from tailrace_publisher.encode.blocks.images import ImageEncoder
from tailrace_publisher.encode.envelope import EnvelopeEncoder
from tailrace_publisher.encode.forms import Declined
from tailrace_publisher.encode.rows import EncodedRows
from tailrace_publisher.source.block_cursor import (
    ROWS_MIN,
    BlockConnection,
    RowRefused,
    rows_of,
)
from tailrace_publisher.source.connection import connection_string
from tailrace_publisher.source.driver import find_driver
from tailrace_publisher.source.odbc import DriverManager, OdbcError
from tailrace_publisher.source.page_readers import (
    LOW_WATERMARK,
    NEWEST,
    Fetched,
    Stamps,
    TableRows,
)
from tailrace_publisher.source.page_size import PageLimit, RowSize
from tailrace_publisher.source.queries import lsn_or_none
from tailrace_publisher.source.server_errors import source_error
from tailrace_publisher.source.table_blocks import (
    BLOCK_ROWS_MAX,
    VALUE_CLASS,
    TableBlocks,
)
from tailrace_publisher.source_options import SourceConfig
from tailrace_schemas.envelope import TableSchema
from tailrace_schemas.lsn import LSN_BYTES
from tailrace_schemas.position import unpack_position

_NAME_BYTES: Final = 512

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class BlockRows(Sequence[tuple[bytes, int, bytes, int]]):
    """Rows whose columns are encoded; as a sequence, the position's four fields of each.

    Attributes:
        blocks: consecutive blocks, none empty.
    """

    blocks: list[EncodedBlock] = field(default_factory=list)

    def __len__(self) -> int:
        return sum(map(len, self.blocks))

    def __getitem__(self, row: int) -> tuple[bytes, int, bytes, int]:  # type: ignore[override]
        """The first or the last row."""
        block = self.blocks[0] if row == 0 else self.blocks[-1]
        return unpack_position(block.position(row))

    def without_last(self) -> BlockRows:
        """All but the last row."""
        *blocks, last = self.blocks
        return BlockRows([*blocks, last.first(len(last) - 1)] if len(last) > 1 else blocks)


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
        # A block is looked at when it is there, so it may not be much larger than the page.
        fitting = min(rows_of(encoder.cells), max(ROWS_MIN, limit.size // width))
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
        try:
            return self._read(text, parameters, statements, with_newest=with_newest)
        except RowRefused as error:
            raise Declined(str(error)) from error
        except OdbcError as error:
            if error.records and error.records[0][0].startswith(VALUE_CLASS):
                raise Declined(str(error)) from error
            raise self._blocks.translated(error) from error

    def _read(
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
        taken = 0
        is_cut = False
        for _ in range(statements):
            rows = BlockRows()
            for cells in connection.blocks(self._encoder.cells, self._rows):
                block = self._encoder.encode_columns(cells)
                rows.blocks.append(block)
                taken += self._row_size.of_block(len(block), block.size)
                if taken >= self._limit.size:
                    is_cut = True
                    break
            sets.append(rows)
            if is_cut:
                break
            connection.next_set()
        if is_cut:
            connection.execute(LOW_WATERMARK, [name])
        minimum = lsn_or_none(connection.values(LSN_BYTES)[0])
        connection.end()
        count = sum(map(len, sets))
        if count and self._row_size.needs_measuring(self._limit):
            self._row_size.learn(count, taken)
        return Fetched(newest, sets, minimum, is_cut)

    def together(self, parts: Sequence[BlockRows]) -> BlockRows:
        """See :class:`PageReader`."""
        return BlockRows([block for part in parts for block in part.blocks])

    def encode(self, rows: BlockRows) -> EncodedRows:
        """The events of rows that it read.

        Raises:
            Declined: the reference is to read this page.
        """
        if not rows:
            return EncodedRows(self._encoder.topic, self._encoder.schema_id)
        return self._encoder.encode(rows.blocks, self._stamps.commit_ms, self._stamps.now_ms())


class BlockPaths:
    """A connection for blocks, and which versions can be read through it.

    Args:
        config: where the server is.

    Raises:
        OSError: the driver manager cannot be loaded.
    """

    def __init__(self, config: SourceConfig) -> None:
        DriverManager()
        self._config = config
        self._connection: BlockConnection | None = None
        self._encoders: dict[str, tuple[TableSchema, BlockEncoder | None]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

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
        return self._connection

    @property
    def queries(self) -> int:
        """Number of statements sent so far."""
        return 0 if self._connection is None else self._connection.queries

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()

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
        encoder = self._encoder(reference)
        return None if encoder is None else BlockReader(self, encoder, limit, row_size, stamps)

    def table_reader(
        self, reference: EnvelopeEncoder, identity: Sequence[str], texts: int, row_size: RowSize
    ) -> _TableReader | None:
        """See :class:`BlockReading`."""
        schema = reference.schema
        try:
            encoder = ImageEncoder(
                schema, reference.key_schema_id, identity, hashes=reference.treatment.hashes
            )
            blocks = TableBlocks(self.connection, encoder, texts, row_size)
        except Declined as error:
            _log.debug("table_not_in_blocks", instance=schema.capture_instance, reason=str(error))
            return None
        return _TableReader(self, blocks)

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
        """The encoder of a version; decided once for each."""
        instance = reference.schema.capture_instance
        known = self._encoders.get(instance)
        if known is not None and known[0] is reference.schema:
            return known[1]
        encoder: BlockEncoder | None = None
        try:
            encoder = BlockEncoder(
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

    def __init__(self, paths: BlockPaths, blocks: TableBlocks) -> None:
        self._paths = paths
        self._blocks = blocks

    def read(self, statement: str, parameters: Sequence[object], limit: PageLimit) -> TableRows:
        """See :class:`TableReading`."""
        try:
            return self._blocks.read(statement, parameters, limit)
        except OdbcError as error:
            raise self._paths.translated(error) from error
