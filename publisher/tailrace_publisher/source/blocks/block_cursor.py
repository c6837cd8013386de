"""A connection that reads rows in blocks, through bound columns, for one thread at a time.

The content of a block must be used, or copied, before the next but one is fetched
(``block_memory``).
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

import numpy as np

from tailrace_publisher.encode.blocks.cells import Cells
from tailrace_publisher.encode.columns.column_forms import Cell, Form
from tailrace_publisher.source.blocks.block_memory import PLACES, BlockMemory, Layout
from tailrace_publisher.source.blocks.block_parameters import bind_parameter
from tailrace_publisher.source.connection.odbc import (
    CONNECTION,
    ENVIRONMENT,
    NO_DATA,
    STATEMENT,
    DriverManager,
    OdbcError,
    wide,
)
from tailrace_service.closing import Closing

_C_BINARY: Final = -2
_C_NUMERIC: Final = 2
_C_TYPES: Final[dict[Form, int]] = {
    Form.BIT: -7,
    Form.LONG: -25,
    Form.SINGLE: 7,
    Form.DOUBLE: 8,
    Form.NUMERIC: _C_NUMERIC,
    Form.DATE: 91,
    Form.TIMESTAMP: 93,
    Form.TIME: _C_BINARY,
    Form.TIMESTAMP_OFFSET: _C_BINARY,
    Form.GUID: -11,
    Form.TEXT: -8,
    Form.ASCII: _C_BINARY,
    Form.BYTES: _C_BINARY,
}
_CHAR, _VARCHAR = 1, 12

_ATTR_ODBC_VERSION: Final = 200
_ODBC_3_80: Final = 380
_ATTR_AUTOCOMMIT: Final = 102
_ATTR_LOGIN_TIMEOUT: Final = 103
_ATTR_CONNECTION_TIMEOUT: Final = 113
_ATTR_QUERY_TIMEOUT: Final = 0
_ATTR_ROW_BIND_OFFSET_PTR: Final = 23
_ATTR_ROW_STATUS_PTR: Final = 25
_ATTR_ROWS_FETCHED_PTR: Final = 26
_ATTR_ROW_ARRAY_SIZE: Final = 27
_ATTR_APP_ROW_DESC: Final = 10010
_IS_INTEGER: Final = -6
_IS_UINTEGER: Final = -5
_IS_POINTER: Final = -4
_DESC_TYPE: Final = 1002
_DESC_PRECISION: Final = 1005
_DESC_SCALE: Final = 1006
_DESC_DATA_PTR: Final = 1010
_CLOSE: Final = 0
_UNBIND: Final = 2
_RESET_PARAMETERS: Final = 3
_ROW_SUCCESS: Final = 0
_ROW_SUCCESS_WITH_INFO: Final = 6
"""The length shows that a value was cut."""


class RowRefused(OdbcError):
    """The driver could not write a row into its cells."""


class BlockConnection(Closing):
    """A connection of its own, next to that of pyodbc.

    Attributes:
        queries: number of statements sent so far.

    Raises:
        OSError: the driver manager is not installed.
        OdbcError: the server cannot be reached, or refuses.
    """

    def __init__(self, text: str, *, login_timeout_s: int, query_timeout_s: int) -> None:
        self.queries = 0
        self._odbc = DriverManager()
        self._is_connected = False
        self._memory = BlockMemory()
        self._place = 0
        self._offset = ctypes.c_size_t()
        self._fetched = ctypes.c_size_t()
        self._status = np.empty(0, np.uint16)
        self._bound: Layout | None = None
        self._rows = 1
        self._statement: int | None = None
        self._closing = threading.Lock()
        self._connection: int | None = None
        self._environment: int | None = self._odbc.allocate(ENVIRONMENT, None)
        try:
            self._odbc.call(
                "SQLSetEnvAttr", ENVIRONMENT, self._environment, _ATTR_ODBC_VERSION, _ODBC_3_80, 0
            )
            self._connection = self._odbc.allocate(CONNECTION, self._environment)
            self._set_connection(_ATTR_LOGIN_TIMEOUT, login_timeout_s)
            connecting, length = wide(text)
            self._odbc.call(
                "SQLDriverConnectW",
                *(CONNECTION, self._connection, None, connecting, length, None, 0, None, 0),
            )
            self._is_connected = True
            self._set_connection(_ATTR_AUTOCOMMIT, 1)
            self._set_connection(_ATTR_CONNECTION_TIMEOUT, query_timeout_s)
            self._statement = self._odbc.allocate(STATEMENT, self._connection)
            self._set(_ATTR_QUERY_TIMEOUT, query_timeout_s, _IS_UINTEGER)
            self._set(_ATTR_ROWS_FETCHED_PTR, ctypes.addressof(self._fetched), _IS_POINTER)
            self._set(_ATTR_ROW_BIND_OFFSET_PTR, ctypes.addressof(self._offset), _IS_POINTER)
        except BaseException:
            self.close()
            raise

    def cancel(self) -> None:
        """Cancel the running statement, if any; called by another thread."""
        with self._closing:
            if self._statement is not None:
                with suppress(OdbcError):
                    self._odbc.call("SQLCancel", STATEMENT, self._statement)

    def close(self) -> None:
        """Close the connection; a broken one may be closed too."""
        with self._closing:
            statement, self._statement = self._statement, None
            if statement is not None:
                self._odbc.free(STATEMENT, statement)
        if self._connection is not None:
            if self._is_connected:
                with suppress(OdbcError):  # it is broken; its memory goes with the handle
                    self._odbc.call("SQLDisconnect", CONNECTION, self._connection)
            self._odbc.free(CONNECTION, self._connection)
            self._connection = None
        if self._environment is not None:
            self._odbc.free(ENVIRONMENT, self._environment)
            self._environment = None

    def execute(self, sql: str, parameters: Sequence[object] = ()) -> None:
        """Run a batch; its first result set is then the current one.

        It is run as if single rows were fetched. For more rows the driver would open a cursor at
        the server, which costs a round trip for every block.

        Args:
            sql: the batch; ``?`` for each parameter.
            parameters: bytes are bound as varbinary, str as nvarchar, int as int or bigint.

        Raises:
            OdbcError: the server or the driver refused.
        """
        self.queries += 1
        self.end()
        self._call("SQLFreeStmt", _RESET_PARAMETERS)
        self._fetch_at_once(1)
        held = [bind_parameter(self._call, n, value) for n, value in enumerate(parameters, 1)]
        text, length = wide(sql)
        self._call("SQLExecDirectW", text, length)
        del held  # the driver has read them
        self._pass_empty()

    def is_narrow_text(self, number: int) -> bool:
        """Return whether a column of the current result set, from 1, is a char or a varchar.

        Raises:
            OdbcError: the driver refused the query.
        """
        kind = ctypes.c_short()
        self._call("SQLDescribeColW", number, None, 0, None, ctypes.byref(kind), None, None, None)
        return kind.value in {_CHAR, _VARCHAR}

    def blocks(self, cells: Sequence[Cell], rows: int) -> Iterator[list[Cells]]:
        """Yield the current result set in blocks.

        Args:
            cells: how each column is read.
            rows: rows of a block at most.

        Yields:
            The columns: views of the memory, valid until the next but one block is fetched, of any
                statement.

        Raises:
            OdbcError: the server or the driver failed.
            RowRefused: a value has another form.
        """
        layout = self._bind(self._memory.for_blocks(cells, rows))
        while (count := self._fetch(layout, place := (self._place + 1) % PLACES)) is not None:
            self._place = place
            yield layout.views(place, count)

    def values(self, width: int) -> list[bytes | None]:
        """Yield the first column of the current result set, as bytes up to a width.

        Blocks in use are not changed.

        Raises:
            OdbcError: the server or the driver failed.
        """
        layout = self._bind(self._memory.for_value(Cell(Form.BYTES, width)))
        found: list[bytes | None] = []
        while (count := self._fetch(layout, 0)) is not None:
            (column,) = layout.views(0, count)
            length = int(column.lengths[0])
            found.append(None if length < 0 else column.data[0, :length].tobytes())
        return found

    def next_set(self) -> bool:
        """Move to the next result set; return False if there is none.

        Raises:
            OdbcError: the server refused a later statement of the batch.
        """
        if self._call("SQLMoreResults") == NO_DATA:
            return False
        return self._pass_empty()

    def end(self) -> None:
        """Drop what was not read of the batch."""
        self._call("SQLFreeStmt", _CLOSE)

    def _pass_empty(self) -> bool:
        """Skip results without columns."""
        columns = ctypes.c_short()
        while True:
            self._call("SQLNumResultCols", ctypes.byref(columns))
            if columns.value:
                return True
            if self._call("SQLMoreResults") == NO_DATA:
                return False

    def _fetch(self, layout: Layout, place: int) -> int | None:
        """Fetch a block to a place; return the number of its rows, None if there are no more."""
        self._offset.value = place * layout.stride
        if self._call("SQLFetch") == NO_DATA:
            return None
        count = int(self._fetched.value)
        status = self._status[:count]
        if not ((status == _ROW_SUCCESS) | (status == _ROW_SUCCESS_WITH_INFO)).all():
            raise RowRefused([("01S01", 0, "a row did not go into its cells")])
        return count

    def _bind(self, layout: Layout) -> Layout:
        """Give the driver the addresses of cells; it adds the offset of a place."""
        bound = self._bound
        if bound is not None and bound.arena is layout.arena and bound.is_like(layout):
            self._fetch_at_once(layout.rows)
            return bound
        self._bound = None
        self._call("SQLFreeStmt", _UNBIND)
        rows = layout.rows
        if len(self._status) < rows:
            self._status = np.empty(rows, np.uint16)
        self._fetch_at_once(rows)
        self._set(_ATTR_ROW_STATUS_PTR, self._status.ctypes.data, _IS_POINTER)
        base = layout.arena.ctypes.data
        for number, cell in enumerate(layout.cells, 1):
            lengths, data = (base + place for place in layout.columns[number - 1])
            self._call("SQLBindCol", number, _C_TYPES[cell.form], data, cell.width, lengths)
            if cell.form is Form.NUMERIC:
                self._describe(number, cell, data)
        self._bound = layout
        return layout

    def _fetch_at_once(self, rows: int) -> None:
        if rows != self._rows:
            self._set(_ATTR_ROW_ARRAY_SIZE, rows, _IS_UINTEGER)
            self._rows = rows

    def _describe(self, number: int, cell: Cell, data: int) -> None:
        """Set the digits of a NUMERIC, which SQLBindCol cannot; the place last, as it unbinds."""
        described = ctypes.c_void_p()
        self._call(
            "SQLGetStmtAttrW", _ATTR_APP_ROW_DESC, ctypes.byref(described), _IS_POINTER, None
        )
        for field, value, length in (
            (_DESC_TYPE, _C_NUMERIC, _IS_INTEGER),
            (_DESC_PRECISION, cell.precision, _IS_INTEGER),
            (_DESC_SCALE, cell.scale, _IS_INTEGER),
            (_DESC_DATA_PTR, data, _IS_POINTER),
        ):
            self._odbc.call(
                "SQLSetDescFieldW", 4, int(described.value or 0), number, field, value, length
            )

    def _set(self, attribute: int, value: int, length: int) -> None:
        self._call("SQLSetStmtAttrW", attribute, value, length)

    def _set_connection(self, attribute: int, value: int) -> None:
        assert self._connection is not None  # noqa: S101 - only called with one
        self._odbc.call(
            "SQLSetConnectAttrW", CONNECTION, self._connection, attribute, value, _IS_UINTEGER
        )

    def _call(self, name: str, *arguments: Any) -> int:
        if self._statement is None:
            raise OdbcError([("08003", 0, "the connection is closed")])
        return self._odbc.call(name, STATEMENT, self._statement, *arguments)
