"""The publisher with one capture instance, two hundred and a thousand: one busy, and all busy.

The same number of change rows is published each time: by one table while the others are quiet, and
in equal parts by all. What is told is the rate beside that of one instance, the publisher's time on
a core per row, its statements, and the seconds of a start and of a restart.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import pyodbc

from bench import workload
from bench.published_orders import (
    NAMES,
    SEED_ROWS,
    PublisherProcess,
    captured_orders,
    running_publisher,
    settings_of,
)
from tailrace_compose.local.stack import LocalStack

_LIMIT_S: Final = 900.0
_COUNTS: Final = (1, 200, 1000)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of this benchmark."""
    parser.add_argument(
        "--instances",
        type=lambda text: [int(part) for part in text.split(",")],
        default=list(_COUNTS),
        help="publisher_tables: numbers of capture instances, default 1,200,1000",
    )
    parser.add_argument(
        "--table-rows", type=int, default=50_000, help="publisher_tables: change rows of a leg"
    )


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure."""
    figures: dict[str, Any] = {"rows": arguments.table_rows}
    with (
        tempfile.TemporaryDirectory(prefix="tailrace-bench-") as directory,
        LocalStack(Path(directory)) as stack,
    ):
        captured_orders(stack)
        with pyodbc.connect(stack.emulator.connection_string("shop"), autocommit=True) as source:
            present = 1
            for count in sorted(arguments.instances):
                _capture_more(source, range(present, count))
                present = max(present, count)
                folder = Path(directory, str(count))
                folder.mkdir()
                measured = _measured(stack, source, count, arguments.table_rows, folder)
                figures |= {f"{name}_of_{count}": value for name, value in measured.items()}
    return figures


def _capture_more(source: pyodbc.Connection, numbers: range) -> None:
    for number in numbers:
        name = f"orders_{number}"
        source.execute(workload.ddl().replace("dbo.orders", f"dbo.{name}"))
        source.execute(
            "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = ?,"
            " @role_name = NULL, @supports_net_changes = 0",
            name,
        )


def _measured(
    stack: LocalStack, source: pyodbc.Connection, count: int, rows: int, folder: Path
) -> dict[str, Any]:
    settings = settings_of(stack, f"tables{count}", heartbeat_s=0.5)
    begun = time.perf_counter()
    with running_publisher(settings, folder):
        start_s = time.perf_counter() - begun
    begun = time.perf_counter()
    with running_publisher(settings, folder) as publisher:
        restart_s = time.perf_counter() - begun
        one = _leg(source, publisher, ["orders"], rows)
        names = ["orders", *(f"orders_{number}" for number in range(1, count))]
        every = _leg(source, publisher, names, rows)
    return {
        "start_s": round(start_s, 1),
        "restart_s": round(restart_s, 1),
        **{f"one_busy_{name}": value for name, value in one.items()},
        **{f"all_busy_{name}": value for name, value in every.items()},
    }


def _leg(
    source: pyodbc.Connection, publisher: PublisherProcess, names: list[str], rows: int
) -> dict[str, Any]:
    """Publish that many rows of these tables, which are captured before it is let to see them."""
    source.execute("EXEC sys.sp_cdc_stop_job N'capture'")
    before = publisher.counted("rows"), publisher.counted("source_queries"), publisher.cpu_s()
    part = min(SEED_ROWS, max(1, rows // len(names)))
    sent = 0
    base = _next_id(source, names[0])
    while sent < rows:
        for name in names:
            source.execute(
                f"INSERT INTO dbo.{name} SELECT id + {base}, {', '.join(NAMES[1:])}"
                f" FROM dbo.seed WHERE id < {part}"
            )
            sent += part
            if sent >= rows:
                break
        base += part
    begun = time.perf_counter()
    source.execute("EXEC sys.sp_cdc_start_job N'capture'")
    publisher.wait_until_ready(lambda: publisher.counted("rows") >= before[0] + sent, _LIMIT_S)
    elapsed = time.perf_counter() - begun
    return {
        "rows_per_s_with_capture": round(sent / elapsed),
        "cpu_us_per_row": round((publisher.cpu_s() - before[2]) / sent * 1e6, 1),
        "statements": round(publisher.counted("source_queries") - before[1]),
    }


def _next_id(source: pyodbc.Connection, name: str) -> int:
    return int(source.execute(f"SELECT COALESCE(MAX(id), 0) + 1 FROM dbo.{name}").fetchval())
