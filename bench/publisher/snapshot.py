"""The initial snapshot: in blocks and row by row, and its cost for the stream.

A table is filled before it is captured, so that only its snapshot brings its rows. The rates are
compared with pyodbc alone, which reads the same rows in the same chunks and does nothing with them.
Then change rows of another table are published alone, and again while a snapshot runs.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pyodbc

from bench import workload
from bench.publisher.published_orders import (
    NAMES,
    SEED_ROWS,
    PublisherProcess,
    captured_orders,
    running_publisher,
    settings_of,
)
from tailrace_compose.local.stack import LocalStack

_LIMIT_S: Final = 900.0
_CHUNK: Final = 10_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of this benchmark."""
    parser.add_argument(
        "--snapshot-rows", type=int, default=500_000, help="publisher_snapshot: rows of the table"
    )
    parser.add_argument(
        "--beside-rows",
        type=int,
        default=100_000,
        help="publisher_snapshot: change rows during the snapshot",
    )


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure."""
    rows, beside = arguments.snapshot_rows, arguments.beside_rows
    figures: dict[str, Any] = {"rows": rows, "change_rows": beside}
    with (
        tempfile.TemporaryDirectory(prefix="tailrace-bench-") as directory,
        LocalStack(Path(directory)) as stack,
    ):
        captured_orders(stack)
        with pyodbc.connect(stack.emulator.connection_string("shop"), autocommit=True) as source:
            _fill(source, rows)
            fetched = _fetch(source, rows)
            figures["raw_fetch_rows_per_s"] = round(fetched)
            for name, in_blocks in (("in_blocks", True), ("by_row", False)):
                prefix = name.replace("_", "")
                found = _snapshot(stack, Path(directory), prefix, rows, blocks=in_blocks)
                figures |= {f"{name}_{key}": value for key, value in found.items()}
            figures["ratio_to_raw_fetch"] = round(figures["in_blocks_rows_per_s"] / fetched, 2)
            alone = _stream(stack, source, Path(directory), "alone", beside, None)
            along = _stream(stack, source, Path(directory), "along", beside, rows)
    figures["stream_alone_rows_per_s"] = round(alone)
    figures["stream_beside_snapshot_rows_per_s"] = round(along)
    figures["stream_ratio"] = round(along / alone, 2)
    return figures


def _fill(source: pyodbc.Connection, rows: int) -> None:
    """A captured table whose rows are older than its capture."""
    source.execute(workload.ddl().replace("dbo.orders", "dbo.history"))
    for base in range(0, rows, SEED_ROWS):
        source.execute(
            f"INSERT INTO dbo.history SELECT id + {base}, {', '.join(NAMES[1:])} FROM dbo.seed"
            f" WHERE id < {min(SEED_ROWS, rows - base)}"
        )
    source.execute(
        "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'history',"
        " @role_name = NULL, @supports_net_changes = 0"
    )


def _fetch(source: pyodbc.Connection, rows: int) -> float:
    """Rows per second of pyodbc alone."""
    begun = time.perf_counter()
    last, seen = -1, 0
    while seen < rows:
        found = source.execute(
            f"SELECT TOP (?) {', '.join(NAMES)} FROM dbo.history WHERE id > ? ORDER BY id",
            _CHUNK,
            last,
        ).fetchall()
        seen += len(found)
        last = found[-1][0]
    return rows / (time.perf_counter() - begun)


def _settings(
    stack: LocalStack, prefix: str, *, blocks: bool, with_history: bool
) -> dict[str, Any]:
    settings = settings_of(stack, prefix, heartbeat_s=0.5)
    tables = ["dbo.orders", *(["dbo.history"] if with_history else [])]
    settings["publisher"] |= {"snapshot": {"mode": "initial"}, "tables": {"include": tables}}
    settings["publisher"]["source"]["blocks"] = blocks
    return settings


def _snapshot(
    stack: LocalStack, folder: Path, prefix: str, rows: int, *, blocks: bool
) -> dict[str, Any]:
    """From the publisher's first commit, which is before it reads a row, to the last row's."""
    settings = _settings(stack, prefix, blocks=blocks, with_history=True)
    with running_publisher(settings, folder) as publisher:
        begun, cpu = time.perf_counter(), publisher.cpu_s()
        elapsed = _waited(publisher, lambda: publisher.counted("snapshot_rows") >= rows) - begun
        return {
            "rows_per_s": round(rows / elapsed),
            "cpu_us_per_row": round((publisher.cpu_s() - cpu) / rows * 1e6, 1),
            "peak_mb": round(publisher.peak_kb() / 1000),
        }


def _stream(
    stack: LocalStack,
    source: pyodbc.Connection,
    folder: Path,
    prefix: str,
    rows: int,
    snapshot_rows: int | None,
) -> float:
    """Change rows per second, alone or while a snapshot of so many rows runs."""
    source.execute("EXEC sys.sp_cdc_stop_job N'capture'")
    settings = _settings(stack, prefix, blocks=True, with_history=snapshot_rows is not None)
    base = int(source.execute("SELECT COALESCE(MAX(id), 0) + 1 FROM dbo.orders").fetchval())
    with running_publisher(settings, folder) as publisher:
        before = _changes(publisher)
        for part in range(0, rows, SEED_ROWS):
            source.execute(
                f"INSERT INTO dbo.orders SELECT id + {base + part}, {', '.join(NAMES[1:])}"
                " FROM dbo.seed"
            )
        source.execute("EXEC sys.sp_cdc_start_job N'capture'")
        changes = -(-rows // SEED_ROWS) * SEED_ROWS
        begun = _waited(publisher, lambda: _changes(publisher) > before)  # the job scans in turns
        out = _changes(publisher) - before
        ended = _waited(publisher, lambda: _changes(publisher) - before >= changes)
        return max(changes - out, 1) / (ended - begun)


def _changes(publisher: PublisherProcess) -> float:
    """Change rows that it has published; never too many, as snapshot rows are asked for last."""
    return publisher.counted("rows") - publisher.counted("snapshot_rows")


def _waited(publisher: PublisherProcess, reached: Callable[[], bool]) -> float:
    publisher.wait_until_ready(reached, _LIMIT_S)
    return time.perf_counter()
