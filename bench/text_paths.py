"""Who converts char and varchar: the driver, the server, or we, side by side in one run.

- driver: the column as it is, converted by the driver (on Linux by its own tables: not right)
- ascii: the column's bytes, while they are ASCII (blocks only; half as many bytes)
- server: ``CAST(column AS nvarchar(n))``
- server_max: ``CAST(column AS nvarchar(max))``
- bytes: ``CAST(column AS varbinary(n))``, decoded here (what a table of ours would cost)

Each is read in blocks by our own cursor and row by row by pyodbc. Sides take turns, the best of
each counts, by the clock and by this process's time on a core. The server is the embedded one.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pyodbc

from bench.emulator import _connection, _connection_string, _server
from tailrace_publisher.encode.blocks.text_kernels import ascii_texts, texts
from tailrace_publisher.encode.columns.column_forms import Cell, Form
from tailrace_publisher.source.blocks.block_cursor import BlockConnection
from tailrace_publisher.source.connection.converters import add_converters

_PAGE: Final = 2000
_BRANCH: Final = b"\x02"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of this benchmark."""
    parser.add_argument("--text-rows", type=int, default=20_000, help="text_paths: rows")
    parser.add_argument("--text-columns", type=int, default=10, help="text_paths: columns")
    parser.add_argument("--text-length", type=int, default=40, help="text_paths: characters")
    parser.add_argument("--text-rounds", type=int, default=5, help="text_paths: turns of each way")


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure."""
    rows, columns, length = arguments.text_rows, arguments.text_columns, arguments.text_length
    declared = 2 * length
    with (
        tempfile.TemporaryDirectory(prefix="tailrace-bench-") as directory,
        _server(Path(directory)) as server,
    ):
        with _connection(server) as connection:
            names = [f"c{n}" for n in range(columns)]
            types = ", ".join(f"{name} varchar({declared})" for name in names)
            connection.execute(f"CREATE TABLE dbo.texts (id int PRIMARY KEY, {types})")
            values = ", ".join(f"REPLICATE('abcdefghij', {length // 10})" for _ in names)
            connection.execute(
                f"INSERT dbo.texts SELECT value, {values} FROM GENERATE_SERIES(1, {rows})"
            )
        sides = _Sides(_connection_string(server), names, declared).all()
        best = dict.fromkeys(sides, (float("inf"), float("inf")))
        for _ in range(arguments.text_rounds):
            for name, side in sides.items():
                clock, core = time.perf_counter(), time.process_time()
                if side() != rows:
                    raise AssertionError(f"{name} did not read all rows")
                found = (time.perf_counter() - clock, time.process_time() - core)
                best[name] = (min(best[name][0], found[0]), min(best[name][1], found[1]))
    measured: dict[str, Any] = {"rows": rows, "columns": columns, "characters": length}
    for name, (elapsed, on_core) in best.items():
        way = name.partition("_")[0]
        measured[f"{name}_rows_per_s"] = round(rows / elapsed)
        measured[f"{name}_cpu_us_per_row"] = round(on_core / rows * 1e6, 2)
        measured[f"{name}_ratio_to_driver"] = round(best[f"{way}_driver"][0] / elapsed, 2)
    return measured


class _Sides:
    """The ways to read the texts."""

    def __init__(self, text: str, names: list[str], declared: int) -> None:
        self._text = text
        self._names = names
        self._declared = declared

    def all(self) -> dict[str, Callable[[], int]]:
        """Return each side: it reads and encodes all rows, and returns their number."""
        n = self._declared
        wide, narrow = Cell(Form.TEXT, 2 * (n + 1)), Cell(Form.ASCII, n)
        plain, server = "[{}]", f"CAST([{{}}] AS nvarchar({n}))"
        most, raw = "CAST([{}] AS nvarchar(max))", f"CAST([{{}}] AS varbinary({n}))"
        return {
            "blocks_driver": lambda: self._blocks(plain, wide),
            "blocks_ascii": lambda: self._blocks(plain, narrow),
            "blocks_server": lambda: self._blocks(server, wide),
            "blocks_server_max": lambda: self._blocks(most, wide),
            "blocks_bytes": lambda: self._blocks(raw, Cell(Form.BYTES, n)),
            "rows_driver": lambda: self._rows(plain),
            "rows_server": lambda: self._rows(server),
            "rows_server_max": lambda: self._rows(most),
            "rows_bytes": lambda: self._rows(raw, "cp1252"),
        }

    def _query(self, expression: str) -> str:
        return f"SELECT {', '.join(map(expression.format, self._names))} FROM dbo.texts ORDER BY id"

    def _blocks(self, expression: str, cell: Cell) -> int:
        make = texts if cell.form is Form.TEXT else ascii_texts
        kernel, count = make(cell, _BRANCH), 0
        with BlockConnection(self._text, login_timeout_s=15, query_timeout_s=300) as connection:
            connection.execute(self._query(expression))
            for block in connection.blocks([cell] * len(self._names), _PAGE):
                for column in block:
                    kernel(column)
                count += len(block[0].lengths)
        return count

    def _rows(self, expression: str, code_page: str = "") -> int:
        connection = pyodbc.connect(self._text, autocommit=True)
        add_converters(connection)
        try:
            cursor, count = connection.execute(self._query(expression)), 0
            while page := cursor.fetchmany(_PAGE):
                for column in zip(*page, strict=True):
                    if code_page:
                        [value.decode(code_page).encode() for value in column]
                    else:
                        [value.encode() for value in column]
                count += len(page)
            return count
        finally:
            connection.close()
