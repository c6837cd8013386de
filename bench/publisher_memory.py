"""Resident memory of the publisher over one source transaction of a million rows.

The rows are inserted by one statement, captured, and published by ``tailrace publish`` as a
process of its own; the kernel tells the largest resident size that it ever had.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any, Final

import pyodbc

from bench import workload
from tailrace_compose.local.stack import LocalStack
from tailrace_emulator.testing.emulator_process import LOGIN
from tailrace_emulator.testing.process import ChildProcess, free_port

_DATABASE: Final = "shop"
_SEED_ROWS: Final = 1000
_LIMIT_S: Final = 900.0
_NAMES: Final = [column.name for column in workload.table_schema().columns]


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
        connection = pyodbc.connect(_prepare(stack), autocommit=True)
        port = free_port()
        settings = Path(directory, "tailrace.yaml")
        settings.write_text(json.dumps(_settings(stack, port)), encoding="utf-8")
        publisher = ChildProcess(
            "tailrace publish",
            [sys.executable, "-m", "tailrace", "publish", "--config", str(settings)],
            Path(directory, "publish.log"),
        )
        publisher.start()
        try:
            publisher.wait_until_ready(lambda: _counted(port, "commits") > 0, _LIMIT_S)
            idle_kb = _peak_kb(publisher.process.pid)
            _insert(connection, rows)
            started = time.perf_counter()
            publisher.wait_until_ready(lambda: _counted(port, "rows") >= rows, _LIMIT_S)
            elapsed = time.perf_counter() - started
            peak_kb = _peak_kb(publisher.process.pid)
        finally:
            publisher.stop()
            connection.close()
    return {
        "rows_in_one_transaction": rows,
        "idle_memory_mb": round(idle_kb / 1024),
        "peak_memory_mb": round(peak_kb / 1024),
        "seconds_capture_and_publish": round(elapsed, 1),
    }


def _prepare(stack: LocalStack) -> str:
    """Makes the captured table and the rows to copy; returns the connection string."""
    randomness = random.Random(7)  # noqa: S311 - the same rows in every run
    with pyodbc.connect(stack.emulator.connection_string(), autocommit=True) as master:
        master.execute(f"CREATE DATABASE [{_DATABASE}]")
        master.execute(f"USE [{_DATABASE}]")
        master.execute("EXEC sys.sp_cdc_enable_db")
        master.execute(workload.ddl())
        master.execute(workload.ddl().replace("dbo.orders", "dbo.seed"))
        master.execute(
            "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'orders',"
            " @role_name = NULL, @supports_net_changes = 0"
        )
        with master.cursor() as cursor:
            cursor.fast_executemany = True
            cursor.executemany(
                f"INSERT INTO dbo.seed VALUES ({', '.join('?' * len(_NAMES))})",
                [workload.values(number, randomness) for number in range(_SEED_ROWS)],
            )
    return stack.emulator.connection_string(_DATABASE)


def _insert(connection: pyodbc.Connection, rows: int) -> None:
    """One transaction of that many rows."""
    connection.execute(f"CREATE TABLE dbo.steps (n int); {_steps(rows // _SEED_ROWS)}")
    connection.execute(
        f"INSERT INTO dbo.orders SELECT id + n * {_SEED_ROWS}, {', '.join(_NAMES[1:])}"
        " FROM dbo.seed CROSS JOIN dbo.steps"
    )


def _steps(count: int) -> str:
    numbers = [f"({number})" for number in range(count)]
    return "; ".join(
        f"INSERT INTO dbo.steps VALUES {', '.join(numbers[start : start + 1000])}"
        for start in range(0, count, 1000)
    )


def _settings(stack: LocalStack, metrics_port: int) -> dict[str, Any]:
    return {
        "prefix": "memory",
        "kafka": {"bootstrap": stack.broker.bootstrap_servers},
        "registry": {"url": stack.registry.url},
        "publisher": {
            "source": {
                "host": "127.0.0.1",
                "port": stack.emulator.port,
                "database": _DATABASE,
                "user": LOGIN,
                "password_file": str(stack.emulator.password_file),
                "trust_server_certificate": True,
            },
            "metrics_port": metrics_port,
            "snapshot": {"mode": "no_data"},
            "heartbeat_s": 0.5,
        },
    }


def _counted(port: int, counter: str) -> float:
    """The sum of one of the publisher's counters over its labels; 0 before it answers."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=3) as answer:
            text = answer.read().decode()
    except OSError:
        return 0.0
    values = re.findall(rf"^tailrace_{counter}_total(?:{{[^}}]*}})? (\S+)$", text, re.MULTILINE)
    return sum(map(float, values))


def _peak_kb(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(status.split("VmHWM:")[1].split()[0])
