"""Rows of a source table in blocks, for its snapshot: encoded as they are read."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import Any, Final

import structlog

from tailrace_publisher.encode.blocks.byte_runs import as_list
from tailrace_publisher.encode.blocks.images import ImageEncoder
from tailrace_publisher.encode.blocks.values import value_of
from tailrace_publisher.encode.columns.column_forms import TEXT_OF_TIME, Declined, Form, NotAscii
from tailrace_publisher.source.blocks.block_cursor import BlockConnection, RowRefused
from tailrace_publisher.source.blocks.block_memory import ROWS_MIN, rows_of
from tailrace_publisher.source.connection.odbc import OdbcError
from tailrace_publisher.source.pages.page_readers import StatementOf, TableRows
from tailrace_publisher.source.pages.page_size import PageLimit, RowSize

BLOCK_ROWS_MAX: Final = 2000
"""A page, which is encoded while the next one is fetched. More rows need more memory, for cells and
for the kernels' results; with fewer a block's fixed price counts, 0.6 ms for 12 columns."""
VALUE_CLASS: Final = "22"
"""SQLSTATE of data exceptions: a value does not fit into its cell."""

_log = structlog.get_logger(__name__)


class TableBlocks:
    """Reads and encodes rows of one table in one schema version.

    Texts of char and varchar are read as ASCII until one is not. Then the server converts that
    column, in the same statement and in all later ones.

    Args:
        encoder_of: creates the encoder of the version, given the names of columns with texts beyond
            ASCII.
        texts: how many texts of times follow the version's columns.
        row_size: learned from the table's rows, and updated by these.

    Raises:
        Declined: rows are too wide for blocks.
    """

    def __init__(
        self,
        connection: BlockConnection,
        encoder_of: Callable[[Set[str]], ImageEncoder],
        texts: int,
        row_size: RowSize,
    ) -> None:
        self._connection = connection
        self._encoder_of = encoder_of
        self._texts = texts
        self._row_size = row_size
        self._take(frozenset())

    def _take(self, not_ascii: Set[str]) -> None:
        self._encoder = self._encoder_of(not_ascii)
        self._cells = (*self._encoder.cells, *[TEXT_OF_TIME] * self._texts)
        if rows_of(self._cells) < ROWS_MIN:
            raise Declined("too few rows to a block")

    def read(
        self, statement: StatementOf, parameters: Sequence[object], limit: PageLimit
    ) -> TableRows:
        """Read the rows of a statement, up to so many bytes; the block that reaches them is last.

        Args:
            statement: selects the version's columns, then the texts.
            limit: bounds of what is read.

        Raises:
            Declined: the reference must read these rows.
            OdbcError: the server or the driver failed.
        """
        try:
            while True:
                try:
                    return self._read(statement, parameters, limit)
                except NotAscii as error:
                    _log.info("snapshot_texts_not_ascii", columns=str(error))
                    self._take(self._encoder.not_ascii)
        except RowRefused as error:
            raise Declined(str(error)) from error
        except OdbcError as error:
            if error.records and error.records[0][0].startswith(VALUE_CLASS):
                raise Declined(f"a value was refused (SQLSTATE {error.records[0][0]})") from error
            raise

    def _read(
        self, statement: StatementOf, parameters: Sequence[object], limit: PageLimit
    ) -> TableRows:
        self._connection.execute(statement(self._encoder.as_bytes), parameters)
        self._look_at_types()
        width = sum(cell.width for cell in self._cells)
        fitting = min(rows_of(self._cells), max(ROWS_MIN, limit.size // width))
        at_once = min(BLOCK_ROWS_MAX, fitting)
        count = len(self._encoder.cells)
        found = TableRows()
        taken = 0
        for columns in self._connection.blocks(self._cells, at_once):
            images = self._encoder.encode(columns[:count])
            rows = as_list(images.rows)
            found.images += rows
            found.keys += [None] * len(rows) if images.keys is None else as_list(images.keys)
            found.identities += as_list(images.identities)
            found.last = self._key_values(columns, len(rows) - 1)
            taken += self._row_size.of_block(len(rows), int(images.rows.nbytes))
            if taken >= limit.size:
                found.is_cut = True
                break
        self._connection.end()
        if found.images and self._row_size.needs_measuring(limit):
            self._row_size.learn(len(found.images), taken)
        return found

    def _look_at_types(self) -> None:
        """Use wider cells for what no longer arrives as char or varchar, because DDL altered it.

        For an nvarchar the driver would return code units, and those of some letters look like
        ASCII.
        """
        encoder = self._encoder
        others = {
            name
            for place, (name, cell) in enumerate(zip(encoder.names, encoder.cells, strict=True), 1)
            if cell.form is Form.ASCII and not self._connection.is_narrow_text(place)
        }
        if others:
            self._take(encoder.not_ascii | others)

    def _key_values(self, columns: Sequence[Any], row: int) -> list[Any]:
        """Return a row with only the columns that distinguish rows, and the texts."""
        values: list[Any] = [None] * len(columns)
        texts = range(len(self._encoder.cells), len(columns))
        for place in (*self._encoder.identity_places, *texts):
            values[place] = value_of(self._cells[place], columns[place], row)
        return values
