"""Reading a change table page by page.

A page is found by the whole position (keyset), which is the change table's clustered order. So no
cursor stays open, and a page of any size, down to one row, can be the last one read before a
restart.

Threads of their own read (``page_lanes``). While a page is encoded and sent, the next page of each
instance is already being read.

A page is also bounded in bytes (``page_size``). A page that gets too large ends with the row that
exceeded the bound. The rest of the server's answer is dropped unread, and a separate statement
queries the low watermark.

Rows come from a reader (``page_readers``). If a reader encodes blocks, it returns the pages until
it declines one. The reference then reads that page and the rest of the range. The block reader
encodes a page while the next ones are fetched, so it may decline late. Pages that were fetched
after the declined one are then dropped. A page that is declined for its texts is read in blocks
again, with cells for any text. If the last range of an instance had few rows, its first pages are
also read row by row, until there are many.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from concurrent.futures import Future
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final

import structlog

from tailrace_publisher.change.instance import CaptureInstance
from tailrace_publisher.change.page import ChangePage, ChangeRow, join_carried, position_of
from tailrace_publisher.change.ranges import LsnRange, is_closed
from tailrace_publisher.encode.columns.column_forms import Declined, NotAscii
from tailrace_publisher.encode.encoded_events import EncodedRows
from tailrace_publisher.errors import SourceError
from tailrace_publisher.ports import Connection
from tailrace_publisher.source.log.queries import INVALID_COLUMN, OUT_OF_INTERVAL
from tailrace_publisher.source.pages.page_readers import EncodingReader, PageReader, RowReader, Rows
from tailrace_publisher.source.pages.page_size import FEW_ROWS, PageLimit, RowSize
from tailrace_publisher.source.pages.page_statements import PageStatements
from tailrace_publisher.source.pages.proven_rows import ProvenRows
from tailrace_schemas.events.envelope import TableSchema
from tailrace_schemas.position.change_position import ChangePosition, Operation
from tailrace_schemas.position.lsn import Lsn

ROWS_AHEAD_MAX: Final = 200_000
"""Limit of change rows in memory over all instances with news, two pages of each."""

_PAIR: Final = 2
"""Rows of an update."""


_log = structlog.get_logger(__name__)


class _Ends(Enum):
    """What ends with the last row that was read."""

    NOTHING = auto()
    TRANSACTION = auto()
    RANGE = auto()


@dataclass(frozen=True, slots=True)
class PageStart:
    """Where a page started.

    Attributes:
        after: position of the row before it.
        rows: rows of the range before it.
        is_in_large_transaction: whether the position's transaction may continue for long.
    """

    after: ChangePosition
    rows: int
    is_in_large_transaction: bool


@dataclass(frozen=True, slots=True)
class ComingPage:
    """A page that is read but not encoded yet.

    Attributes:
        rows: its events; Declined if the reference must read it.
    """

    rows: Future[EncodedRows]
    start: PageStart


class ChangePages:
    """The pages of one capture instance in a range; used by one thread at a time.

    Args:
        connection: used by the reading thread alone.
        schema: the version in force in the whole range.
        limit: of a page. A page may have up to three times as many rows, and exceed the bytes by
            one row.
        covers_from: LSN from which the instance holds the table's changes.
        row_size: updated by the rows read.
        blocks: creates the block reader once there are rows enough. It may also return None.
    """

    def __init__(
        self,
        connection: Connection,
        instance: CaptureInstance,
        schema: TableSchema,
        span: LsnRange,
        limit: PageLimit,
        covers_from: Lsn,
        row_size: RowSize,
        blocks: Callable[[], EncodingReader | None] | None = None,
    ) -> None:
        columns = [column.name for column in schema.columns]
        self._proven = ProvenRows(connection, instance, columns, span, covers_from)
        self._reader = RowReader(connection, limit, row_size)
        self._make_blocks = self._blocks_of = blocks if limit.rows >= _PAIR else None
        self._blocks: EncodingReader | None = None
        self._instance = instance
        self._schema = schema
        self._up_to = span.up_to
        self._after = span.after
        if span.after.command_id and not instance.ordered_by_command_id:
            # The position is another table's row. This table's rows of the transaction have command
            # id 0, so they are published.
            self._after = ChangePosition.end_of(span.after.commit_lsn)
        if covers_from > self._after.commit_lsn:
            # Earlier rows may be half deleted: cleanup raises the low watermark, then deletes.
            self._after = ChangePosition.end_of(covers_from.decrement())
        self._limit = limit
        self._row_size = row_size
        self._statements: dict[Set[str], PageStatements] = {}
        self._carried: ChangeRow | None = None
        self._is_for_blocks = row_size.in_last_range >= FEW_ROWS
        self._rows = 0
        self._is_in_large_transaction = False
        self._is_finished = self._after.commit_lsn >= span.up_to and is_closed(self._after)

    def read(self) -> ChangePage | EncodedRows | None:
        """Return the next page, or None at the end; it is empty if only a before image was read.

        Raises:
            PositionExpired: change rows of the range were cleaned up.
            CaptureInstanceGone: the instance was disabled meanwhile.
            SourceBehind: the connection does not see the whole range.
            SourceError: the change table is damaged, or the server did not answer.
        """
        page = self.fetch()
        while isinstance(page, ComingPage):
            try:
                return page.rows.result()
            except Declined as error:
                page = self.read_again(page, error)
        return page

    def fetch(self) -> ChangePage | ComingPage | None:
        """Return the next page without waiting until the rows of blocks are encoded.

        Further pages may be fetched meanwhile. If ``rows`` turns out to be Declined, those are
        useless. :meth:`read_again` then returns the page, and the following pages come after it.
        """
        if self._is_finished:
            return None
        while self._is_for_blocks and (blocks := self._in_blocks()) is not None:
            start = self._page_start()
            try:
                return ComingPage(self._read_encoded(blocks), start)
            except Declined as error:
                self._decline(start, error)
        page = self._read_by_row()
        may_be = self._blocks is not None or self._make_blocks is not None
        if may_be and self._rows >= FEW_ROWS and self._carried is None:
            self._is_for_blocks = True
            self._proven.change_server()
        return page

    def read_again(self, page: ComingPage, reason: Declined) -> ChangePage | ComingPage | None:
        """Read a declined page again, and all later pages, with other cells or row by row."""
        self._decline(page.start, reason)
        return self.fetch()

    def _in_blocks(self) -> EncodingReader | None:
        make, self._make_blocks = self._make_blocks, None
        if make is not None:
            self._blocks = make()
        return self._blocks

    def _page_start(self) -> PageStart:
        return PageStart(self._after, self._rows, self._is_in_large_transaction)

    def _decline(self, start: PageStart, reason: Declined) -> None:
        """Return to the start of a page; read on by row, or in blocks with other cells."""
        _log.info("page_block_declined", instance=self._instance.name, reason=str(reason))
        self._after, self._rows = start.after, start.rows
        self._is_in_large_transaction = start.is_in_large_transaction
        self._is_finished = False
        self._carried = None
        self._blocks = None
        self._make_blocks = self._blocks_of if isinstance(reason, NotAscii) else None
        self._proven.change_server()

    def _read_by_row(self) -> ChangePage:
        rows, ends = self._read_rows(self._reader)
        self._pass(rows, ends)
        try:
            whole, self._carried = join_carried(self._carried, rows)
        except ValueError as error:
            raise SourceError(f"change table of {self._instance.name}: {error}") from error
        if ends is _Ends.RANGE and self._carried is not None:
            raise SourceError(
                f"change table of {self._instance.name}: the before image at"
                f" {position_of(self._carried)} has no after image"
            )
        return ChangePage(self._schema, whole)

    def _read_encoded(self, blocks: EncodingReader) -> Future[EncodedRows]:
        """Read the next page from blocks and start encoding it.

        A before image at the end of a page is not carried over but read again with the next page.
        """
        try:
            read: tuple[Any, _Ends] = self._read_rows(blocks)
        except SourceError as error:
            if error.number not in {OUT_OF_INTERVAL, INVALID_COLUMN}:
                raise
            # Blocks have a connection of their own, perhaps to a server that lags.
            raise Declined(f"the server of the block connection refuses: {error}") from error
        rows, ends = read
        if rows and rows[-1][3] == Operation.UPDATE_BEFORE:
            if ends is not _Ends.NOTHING or len(rows) < _PAIR:
                raise Declined("a before image without its after image")
            rows = rows.without_last()
        self._pass(rows, ends)
        return blocks.encode(rows)

    def _read_rows(self, reader: PageReader[Rows]) -> tuple[Rows, _Ends]:
        """Read the rows after the position; return them and what ends with them."""
        asked = max(self._row_size.rows_of(self._limit), reader.rows_min)
        statements, fetch = self._statements_of(reader.as_bytes), self._proven.fetch
        if is_closed(self._after):
            rows, is_all = fetch(
                reader, [statements.later_of(self._after, self._up_to, asked)], asked, self._after
            )
        elif self._is_in_large_transaction or self._after.commit_lsn == self._up_to:
            rows, is_all = fetch(reader, statements.rest_of(self._after, asked), asked, self._after)
            ends = _Ends.RANGE if self._after.commit_lsn == self._up_to else _Ends.TRANSACTION
            return rows, ends if is_all else _Ends.NOTHING
        else:
            # One round trip for both; later transactions are dropped if this one is large.
            both = [
                *statements.rest_of(self._after, asked),
                statements.later_of(self._after, self._up_to, asked),
            ]
            rows, is_all = fetch(reader, both, asked, self._after)
        return rows, _Ends.RANGE if is_all else _Ends.NOTHING

    def _statements_of(self, as_bytes: Set[str]) -> PageStatements:
        found = self._statements.get(as_bytes)
        if found is None:
            found = PageStatements.of(self._instance, self._schema, as_bytes)
            self._statements[as_bytes] = found
        return found

    def _pass(self, rows: Sequence[ChangeRow], ends: _Ends) -> None:
        """Move the position past the rows."""
        self._rows += len(rows)
        if ends is _Ends.RANGE:
            self._row_size.in_last_range = self._rows
        self._is_finished = ends is _Ends.RANGE
        if ends is _Ends.TRANSACTION:
            self._after = ChangePosition.end_of(self._after.commit_lsn)
            self._is_in_large_transaction = False
        elif rows:
            self._is_in_large_transaction = rows[0][0] == rows[-1][0]
            self._after = position_of(rows[-1])
