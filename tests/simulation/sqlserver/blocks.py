"""Rows in blocks: the driver's cells over the model's rows.

Only the driver is replaced: the connection of :class:`ModelCursor` writes cells into the
publisher's own memory (``block_memory``). The readers of pages, snapshots and commits, the kernels
and the encoders are the publisher's, and so is what happens when one of them declines.

A result set is fetched while the world goes on: a statement of a batch runs when the set before it
was read, and every block is a call.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from datetime import datetime
from typing import Any, Final, cast

from tailrace_publisher.encode.blocks.cells import NULL_LENGTH, Cells
from tailrace_publisher.encode.blocks.images import Images
from tailrace_publisher.encode.columns.column_forms import Cell, Declined, Form
from tailrace_publisher.errors import SourceError
from tailrace_publisher.options.source import SourceConfig
from tailrace_publisher.source.blocks.block_cursor import BlockConnection, RowRefused
from tailrace_publisher.source.blocks.block_faults import BlockFaults
from tailrace_publisher.source.blocks.block_memory import PLACES, BlockMemory, Layout
from tailrace_publisher.source.blocks.block_paths import BlockPaths
from tailrace_publisher.source.blocks.block_rows import EncodingThread
from tailrace_publisher.source.connection.odbc import OdbcError
from tests.simulation.inline import InlineExecutor
from tests.simulation.sqlserver.connection import Source, SourceConnection
from tests.simulation.world import SimulationError

_TIMESTAMP: Final = struct.Struct("<hHHHHHI")
_CODE_PAGE: Final = "cp1252"


class ModelCursor:
    """What the publisher uses of a ``BlockConnection``, over a connection of the model."""

    def __init__(self, source: Source, connection: SourceConnection) -> None:
        self._source = source
        self._connection = connection
        self._memory = BlockMemory()
        self._place = 0
        self._text = ""
        self._sets: Iterator[list[Any]] = iter(())
        self._rows: deque[Any] = deque()

    def cancel(self) -> None:
        """Nothing runs."""

    @property
    def queries(self) -> int:
        """Number of statements sent so far."""
        return self._connection.queries

    def execute(self, sql: str, parameters: Sequence[object] = ()) -> None:
        """Run a batch up to its first result set."""
        self.end()
        self._text = sql
        self._sets = self._connection.sets(sql, *parameters)
        self.next_set()

    def next_set(self) -> bool:
        """Run the next statement of the batch."""
        with_rows = _translated(lambda: next(self._sets, None))
        self._rows = deque(with_rows or ())
        return with_rows is not None

    def end(self) -> None:
        """Throw away what was not read of the batch."""
        self._sets = iter(())
        self._rows.clear()

    def is_narrow_text(self, number: int) -> bool:
        """Whether a column of the current result set, counted from 1, is a varchar."""
        names = self._text.partition(") ")[2].partition(" FROM ")[0].split(", ")
        table = self._text.partition("FROM [dbo].[")[2].partition("]")[0]
        kind = self._connection.type_of(f"dbo.{table}", names[number - 1].strip("[]"))
        return kind.startswith("varchar")

    def blocks(self, cells: Sequence[Cell], rows: int) -> Iterator[list[Cells]]:
        """The current result set in blocks; what is in one holds until the next but one."""
        layout = self._memory.for_blocks(cells, rows)
        while self._rows:
            _translated(self._connection.go_on)
            if self._source.refuses_row():
                raise RowRefused([("01S01", 0, "a row did not go into its cells")])
            self._place = (self._place + 1) % PLACES
            yield self._filled(layout, self._place, min(rows, len(self._rows)))

    def values(self, width: int) -> list[bytes | None]:
        """The first column of the current result set, as bytes of at most a width."""
        cell = Cell(Form.BYTES, width)
        layout = self._memory.for_value(cell)
        found: list[bytes | None] = []
        while self._rows:
            (column,) = self._filled(layout, 0, 1)
            length = int(column.lengths[0])
            found.append(None if length < 0 else column.data[0, :length].tobytes())
        return found

    def close(self) -> None:
        """Let the connection go."""
        self._connection.close()

    def _filled(self, layout: Layout, place: int, count: int) -> list[Cells]:
        """The next rows, written into a place of the memory."""
        columns = layout.views(place, count)
        for row in range(count):
            for cell, column, value in zip(
                layout.cells, columns, self._rows.popleft(), strict=False
            ):
                raw = None if value is None else _raw(cell, value)
                column.lengths[row] = NULL_LENGTH if raw is None else len(raw)
                kept = (raw or b"")[: cell.width].ljust(cell.width, b"\0")
                column.data[row] = memoryview(kept)
        return columns


def _raw(cell: Cell, value: Any) -> bytes:
    """A value as the driver converts it to the form of a cell.

    https://learn.microsoft.com/sql/odbc/reference/appendixes/c-data-types
    """
    if cell.form is Form.LONG:
        return int(value).to_bytes(8, "little", signed=True)
    if cell.form is Form.BYTES:
        return value.encode("utf-16-le") if isinstance(value, str) else bytes(value)
    if cell.form is Form.TEXT:
        return str(value).encode("utf-16-le", "surrogatepass")
    if cell.form is Form.ASCII:
        return str(value).encode(_CODE_PAGE)
    if cell.form is Form.TIMESTAMP and isinstance(value, datetime):
        parts = value.timetuple()[:6]
        return _TIMESTAMP.pack(*parts, value.microsecond * 1000)
    raise SimulationError(f"the model's driver has no {cell.form} of {value!r}")


def _translated(call: Any) -> Any:
    """Call; an error of the server comes as the driver raises it."""
    try:
        return call()
    except SourceError as error:
        raise OdbcError([(error.sqlstate, error.number, str(error))]) from error


class InlineEncoding(EncodingThread):
    """Encodes at once; now and then it declines a page when others were fetched after it."""

    def __init__(self, source: Source) -> None:
        self._executor = InlineExecutor()  # type: ignore[assignment]
        self._held = deque()
        self._source = source

    def submit_block(self, encode: Any) -> Future[Images]:
        """Encode a block, or decline it."""
        return super().submit_block(_declining if self._source.declines_block() else encode)


def _declining() -> Images:
    raise Declined("the model would have it read by row")


class ModelBlocks(BlockPaths):
    """The publisher's reader of blocks over connections of the model."""

    def __init__(self, source: Source, config: SourceConfig) -> None:
        self._config = config
        self._connection = None
        self._encoders = {}
        self.faults = BlockFaults()
        self._source = source
        self.encoding = InlineEncoding(source)

    @property
    def connection(self) -> BlockConnection:
        """A log-in of its own, perhaps to another replica."""
        if self._connection is None:
            cursor = ModelCursor(self._source, self._source.connect(self._config))
            self._connection = cast(BlockConnection, cursor)
        return self._connection
