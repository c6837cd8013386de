"""The ways from a change table to encoded events, compared with the drivers alone, in one run.

- raw pyodbc: rows as Python objects, and nothing else
- raw arrow-odbc: Arrow batches, and nothing else
- raw blocks: bound columns of our own cursor, and nothing else
- by row: pyodbc and the reference encoder, the path of every table that blocks cannot read
- arrow kernels: arrow-odbc, and the kernels of numpy and Arrow on its batches
- blocks: our own cursor and the same kernels, the publisher's path

All ways that encode write the same bytes, which is checked. They take turns, several times, and the
best of each counts, by the clock and by this process's time on a core.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import arrow_odbc
import numpy as np
import pyarrow as pa
import pyodbc

from bench import workload
from bench.emulator import _columns, _connection, _connection_string, _query, _server
from tailrace_emulator.testing.emulator_process import EmulatorProcess
from tailrace_publisher.encode.blocks.byte_runs import joined, prefixed, scalar
from tailrace_publisher.encode.blocks.cells import Cells
from tailrace_publisher.encode.blocks.envelopes import BlockEncoder, EncodedBlock
from tailrace_publisher.encode.blocks.header import HEADER_CELLS, Header
from tailrace_publisher.encode.blocks.kernels import kernel_of
from tailrace_publisher.encode.columns.column_forms import Form
from tailrace_publisher.encode.columns.varint import PRESENT
from tailrace_publisher.encode.encoded_events import EncodedRows
from tailrace_publisher.encode.envelopes.envelope import EnvelopeEncoder
from tailrace_publisher.source.blocks.block_cursor import BlockConnection
from tailrace_schemas.events.framing import frame_header

_PAGE: Final = 2000
_SERVER: Final = "bench"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of this benchmark."""
    parser.add_argument(
        "--path-rows", type=int, default=100_000, help="page_paths: change rows that are read"
    )
    parser.add_argument("--path-rounds", type=int, default=5, help="page_paths: turns of each way")
    parser.add_argument(
        "--path-transaction",
        type=int,
        default=workload.ROWS_PER_TRANSACTION,
        help="page_paths: rows of a source transaction",
    )


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure."""
    rows = arguments.path_rows
    with (
        tempfile.TemporaryDirectory(prefix="tailrace-bench-") as directory,
        _server(Path(directory)) as server,
    ):
        _load(server, rows, arguments.path_transaction)
        text = _connection_string(server)
        commit_ms = {bytes(row[0]): 1_760_000_000_000 + n for n, row in _commits(text)}
        ways = _Ways(text, commit_ms)
        sides: dict[str, Callable[[], Any]] = {
            "raw_pyodbc": lambda: sum(map(len, ways.pyodbc_pages())),
            "raw_arrow_odbc": lambda: sum(batch.num_rows for batch in ways.arrow_batches()),
            "raw_blocks": lambda: sum(len(cells[0].lengths) for cells in ways.blocks()),
            "by_row": lambda: list(ways.by_row()),
            "arrow_kernels": lambda: list(ways.arrow_kernels()),
            "blocks": lambda: list(ways.in_blocks()),
        }
        best = _turns(sides, arguments.path_rounds, rows)
    measured: dict[str, Any] = {"rows": rows, "rows_per_transaction": arguments.path_transaction}
    for name, (elapsed, on_core) in best.items():
        measured[f"{name}_rows_per_s"] = round(rows / elapsed)
        measured[f"{name}_cpu_us_per_row"] = round(on_core / rows * 1e6, 2)
        measured[f"{name}_ratio_to_raw_pyodbc"] = round(best["raw_pyodbc"][0] / elapsed, 2)
    return measured


def _load(server: EmulatorProcess, rows: int, transaction: int) -> None:
    """Rows in transactions of so many, captured."""
    with _connection(server) as connection:
        columns = ", ".join(_columns()[1:])
        connection.execute(
            f"SET NOCOUNT ON; DECLARE @base bigint = 0; WHILE @base < {rows} BEGIN"
            f" INSERT INTO dbo.orders SELECT TOP ({transaction}) s.id + n.id * 1000,"
            f" {columns.replace(', ', ', s.').replace('quantity', 's.quantity', 1)}"
            " FROM dbo.seed AS n CROSS JOIN dbo.seed AS s"
            " WHERE n.id >= @base / 1000 AND s.id + n.id * 1000 >= @base"
            f" AND s.id + n.id * 1000 < @base + {transaction}"
            f" AND n.id <= (@base + {transaction}) / 1000;"
            f" SET @base = @base + {transaction}; END"
        )
        connection.execute("EXEC sys.sp_cdc_scan @maxtrans = 5000, @maxscans = 1000")
        found = connection.execute("SELECT COUNT(*) FROM cdc.dbo_orders_CT").fetchval()
        if found != rows:
            raise RuntimeError(f"{found} change rows, not {rows}")


def _commits(text: str) -> Iterator[tuple[int, Any]]:
    connection = pyodbc.connect(text, autocommit=True)
    try:
        yield from enumerate(
            connection.execute("SELECT start_lsn FROM cdc.lsn_time_mapping ORDER BY start_lsn")
        )
    finally:
        connection.close()


def _turns(
    sides: dict[str, Callable[[], Any]], rounds: int, rows: int
) -> dict[str, tuple[float, float]]:
    """Best seconds by the clock and on a core of each side."""
    best = dict.fromkeys(sides, (float("inf"), float("inf")))
    judge: list[bytes] = []
    for turn in range(rounds):
        for name, side in sides.items():
            clock, core = time.perf_counter(), time.process_time()
            result = side()
            elapsed = (time.perf_counter() - clock, time.process_time() - core)
            best[name] = (min(best[name][0], elapsed[0]), min(best[name][1], elapsed[1]))
            if turn:
                continue
            if isinstance(result, int):
                if result != rows:
                    raise AssertionError(f"{name} read {result} rows, not {rows}")
                continue
            values = [value for page in result for value in page.values]
            judge = judge or values
            if values != judge or len(values) != rows:
                raise AssertionError(f"{name} does not give the reference's bytes")
    return best


class _Ways:
    """Reads the change table in each way."""

    def __init__(self, text: str, commit_ms: dict[bytes, int]) -> None:
        self._text = text
        self._commit_ms = commit_ms
        self._schema = workload.table_schema()

    def pyodbc_pages(self) -> Iterator[list[Any]]:
        pyodbc.native_uuid = True
        connection = pyodbc.connect(self._text, autocommit=True)
        connection.setdecoding(pyodbc.SQL_CHAR, encoding="utf-16le", ctype=pyodbc.SQL_WCHAR)
        try:
            cursor = connection.execute(_query())
            while page := cursor.fetchmany(_PAGE):
                yield page
        finally:
            connection.close()

    def arrow_batches(self) -> Iterator[pa.RecordBatch]:
        yield from arrow_odbc.read_arrow_batches_from_odbc(_query(), self._text, batch_size=_PAGE)

    def blocks(self) -> Iterator[list[Cells]]:
        cells = self._block_encoder().cells
        with BlockConnection(self._text, login_timeout_s=15, query_timeout_s=300) as connection:
            connection.execute(_query())
            yield from connection.blocks(cells, _PAGE)

    def by_row(self) -> Iterator[EncodedRows]:
        encoder = EnvelopeEncoder(_SERVER, self._schema, "topic", 1, 2)
        for page in self.pyodbc_pages():
            yield encoder.encode(page, self._commit_ms)

    def in_blocks(self) -> Iterator[EncodedRows]:
        encoder = self._block_encoder()
        for cells in self.blocks():
            yield encoder.encode([encoder.encode_columns(cells)], self._commit_ms)

    def arrow_kernels(self) -> Iterator[EncodedRows]:
        encoder = self._block_encoder()
        count = len(HEADER_CELLS)
        kernels = [
            kernel_of(column, cell)
            for column, cell in zip(self._schema.columns, encoder.cells[count:], strict=True)
        ]
        frame = scalar(frame_header(2))
        for batch in self.arrow_batches():
            header = [
                _cells_of_bytes(column, cell.width)
                if cell.form is Form.BYTES
                else _cells_of(column, cell.form, cell.width)
                for column, cell in zip(batch.columns[:count], HEADER_CELLS, strict=True)
            ]
            encoded = [
                _strings(column, cell.form)
                if cell.form in {Form.TEXT, Form.ASCII, Form.BYTES, Form.GUID}
                else kernel(_cells_of(column, cell.form, cell.width))
                for column, cell, kernel in zip(
                    batch.columns[count:], encoder.cells[count:], kernels, strict=True
                )
            ]
            images = joined([part for column in encoded for part in column])
            keys = joined([frame, *encoded[0]])
            block = EncodedBlock(Header.of(header), images, keys)
            yield encoder.encode([block], self._commit_ms)

    def _block_encoder(self) -> BlockEncoder:
        return BlockEncoder(_SERVER, self._schema, "topic", 1, 2)


def _cells_of(column: pa.Array, form: Form, width: int) -> Cells:
    """Arrow's values in the cells that the kernels take."""
    rows = len(column)
    nulls = column.is_null().to_numpy(zero_copy_only=False)
    lengths = np.where(nulls, -1, width).astype(np.int64)
    filled = column.fill_null(_ZERO[form](column.type)) if column.null_count else column
    if form is Form.BIT:
        data = filled.to_numpy(zero_copy_only=False).astype(np.uint8).reshape(rows, 1)
    elif form is Form.NUMERIC:
        raw = np.frombuffer(filled.buffers()[1], np.uint8)[: 16 * rows].reshape(rows, 16)
        negative = raw[:, 15] >= 0x80
        low, high = raw.view("<u8")[:, 0].copy(), raw.view("<u8")[:, 1].copy()
        high[negative] = ~high[negative] + (low[negative] == 0)
        low[negative] = ~low[negative] + np.uint64(1)
        data = np.zeros((rows, 19), np.uint8)
        data[:, 2] = ~negative
        data[:, 3:11] = low.view(np.uint8).reshape(rows, 8)
        data[:, 11:] = high.view(np.uint8).reshape(rows, 8)
    elif form is Form.DATE or form is Form.TIMESTAMP:
        data = _calendar(filled, form, rows)
    else:
        numbers = filled.to_numpy(zero_copy_only=False)
        kind = np.int64 if form is Form.LONG else numbers.dtype
        data = numbers.astype(kind).view(np.uint8).reshape(rows, width)
    return Cells(np.ascontiguousarray(data), lengths)


_ZERO: Final[dict[Form, Callable[[Any], Any]]] = {
    Form.BIT: lambda _: False,
    Form.LONG: lambda _: 0,
    Form.DOUBLE: lambda _: 0.0,
    Form.SINGLE: lambda _: 0.0,
    Form.NUMERIC: lambda kind: pa.scalar(0, kind),
    Form.DATE: lambda kind: pa.scalar(0, pa.int32()).cast(kind),
    Form.TIMESTAMP: lambda kind: pa.scalar(0, pa.int64()).cast(kind),
}


def _calendar(column: pa.Array, form: Form, rows: int) -> Any:
    """Return year to day, and the time, as in the driver's structures."""
    moments = column.to_numpy(zero_copy_only=False)
    days = moments.astype("M8[D]")
    months = days.astype("M8[M]")
    data = np.zeros((rows, 6 if form is Form.DATE else 16), np.uint8)
    parts = data[:, : len(data[0]) // 2 * 2].view("<i2")
    parts[:, 0] = months.astype("M8[Y]").astype(np.int64) + 1970
    parts[:, 1] = months.astype(np.int64) % 12 + 1
    parts[:, 2] = (days - months.astype("M8[D]")).astype(np.int64) + 1
    if form is Form.TIMESTAMP:
        micros = (moments.astype("M8[us]") - days.astype("M8[us]")).astype(np.int64)
        seconds = micros // 1_000_000
        parts[:, 3], parts[:, 4], parts[:, 5] = seconds // 3600, seconds // 60 % 60, seconds % 60
        data.view("<u4")[:, 3] = micros % 1_000_000 * 1000
    return data


def _bytes_of(column: pa.Array) -> tuple[Any, Any]:
    """The bytes of all values, and the length of each."""
    whole = column.cast(pa.binary())
    _, offsets, data = whole.buffers()
    ends = np.frombuffer(offsets, np.int32)[whole.offset : whole.offset + len(whole) + 1]
    return np.frombuffer(data, np.uint8)[ends[0] : ends[-1]], np.diff(ends).astype(np.int64)


def _cells_of_bytes(column: pa.Array, width: int) -> Cells:
    """Byte strings of one length."""
    data, lengths = _bytes_of(column)
    size = int(lengths[0])
    cells = np.zeros((len(column), width), np.uint8)
    cells[:, :size] = data.reshape(-1, size)
    return Cells(cells, lengths)


def _strings(column: pa.Array, form: Form) -> tuple[Any, ...]:
    """Arrow has strings as Avro wants them; a uniqueidentifier's text in small letters."""
    nulls = column.is_null().to_numpy(zero_copy_only=False)
    data, lengths = _bytes_of(column)
    if form is Form.GUID:
        data = data | np.uint8(0x20)
    return prefixed(data, lengths, nulls if column.null_count else None, PRESENT)
