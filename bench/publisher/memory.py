"""Resident memory of the publisher over one source transaction of a million rows.

One statement inserts the rows; they are captured, and published by ``tailrace publish`` as a
process of its own. The kernel reports the largest resident size that it ever had.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import pyodbc

from bench.publisher.published_orders import (
    NAMES,
    SEED_ROWS,
    captured_orders,
    running_publisher,
    settings_of,
)
from tailrace_compose.local.stack import LocalStack

_LIMIT_S: Final = 900.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of this benchmark."""
    parser.add_argument(
        "--transaction-rows",
        type=int,
        default=1_000_000,
        help="publisher_memory: rows of the one transaction, a multiple of 1000",
    )


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure."""
    rows = arguments.transaction_rows
    with (
        tempfile.TemporaryDirectory(prefix="tailrace-bench-") as directory,
        LocalStack(Path(directory)) as stack,
    ):
        connection = pyodbc.connect(captured_orders(stack), autocommit=True)
        settings = settings_of(stack, "memory", heartbeat_s=0.5)
        with running_publisher(settings, Path(directory)) as publisher:
            idle_kb = publisher.peak_kb()
            _insert(connection, rows)
            started = time.perf_counter()
            publisher.wait_until_ready(lambda: publisher.counted("rows") >= rows, _LIMIT_S)
            elapsed = time.perf_counter() - started
            peak_kb = publisher.peak_kb()
        connection.close()
    return {
        "rows_in_one_transaction": rows,
        "idle_memory_mb": round(idle_kb / 1024),
        "peak_memory_mb": round(peak_kb / 1024),
        "seconds_capture_and_publish": round(elapsed, 1),
    }


def _insert(connection: pyodbc.Connection, rows: int) -> None:
    """One transaction of that many rows."""
    connection.execute(f"CREATE TABLE dbo.steps (n int); {_steps(rows // SEED_ROWS)}")
    connection.execute(
        f"INSERT INTO dbo.orders SELECT id + n * {SEED_ROWS}, {', '.join(NAMES[1:])}"
        " FROM dbo.seed CROSS JOIN dbo.steps"
    )


def _steps(count: int) -> str:
    numbers = [f"({number})" for number in range(count)]
    return "; ".join(
        f"INSERT INTO dbo.steps VALUES {', '.join(numbers[start : start + 1000])}"
        for start in range(0, count, 1000)
    )
