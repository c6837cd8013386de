"""The publisher with one capture instance, two hundred and a thousand: one busy, and all busy.

The same number of change rows is published each time: by one table while the others are quiet, and
in equal parts by all. They are counted in the progress topic, as any subscriber would. With a
thousand tables, reading the publisher's own figures costs it more than a poll does.

The result has, next to the rate of one instance:

- the rate, and the time on a core per row of publisher, embedded server and broker
- the publisher's statements (each is one round trip) and polls with news
- the seconds of a start and of a restart
- the seconds until their later work is done: new partitions at the broker, schemas at the registry

Rates are measured after that work.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Final

import pyodbc

from bench import workload
from bench.daemon_process import cpu_s_of
from bench.publisher.published_orders import (
    NAMES,
    SEED_ROWS,
    PublisherProcess,
    captured_orders,
    running_publisher,
    settings_of,
)
from bench.sink.progress_count import ProgressCount, counted_progress
from tailrace_compose.local.stack import LocalStack

_LIMIT_S: Final = 900.0
_SETTLE_LIMIT_S: Final = 60.0
_LOOK_S: Final = 1.0
_IDLE_SHARE: Final = 0.15
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
    parser.add_argument(
        "--partitions",
        type=int,
        default=4,
        help="publisher_tables: of each topic (kafka.partitions)",
    )


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure."""
    figures: dict[str, Any] = {"rows": arguments.table_rows, "partitions": arguments.partitions}
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
                measured = _measured(stack, source, count, arguments, folder)
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
    stack: LocalStack,
    source: pyodbc.Connection,
    count: int,
    arguments: argparse.Namespace,
    folder: Path,
) -> dict[str, Any]:
    prefix, rows = f"tables{count}", arguments.table_rows
    settings = settings_of(stack, prefix, heartbeat_s=0.5)
    settings["kafka"]["partitions"] = arguments.partitions
    begun = time.perf_counter()
    with running_publisher(settings, folder):
        start_s = time.perf_counter() - begun
    begun = time.perf_counter()
    with (
        running_publisher(settings, folder) as publisher,
        counted_progress(stack.broker.bootstrap_servers, prefix) as progress,
    ):
        restart_s = time.perf_counter() - begun
        _settle(publisher.process.pid, stack.broker.pid)
        settled_s = time.perf_counter() - begun
        legs = _Legs(stack, source, publisher, progress)
        one = legs.run(["orders"], rows)
        names = ["orders", *(f"orders_{number}" for number in range(1, count))]
        every = legs.run(names, rows)
    return {
        "start_s": round(start_s, 1),
        "restart_s": round(restart_s, 1),
        "restart_settled_s": round(settled_s, 1),
        **{f"one_busy_{name}": value for name, value in one.items()},
        **{f"all_busy_{name}": value for name, value in every.items()},
    }


def _settle(*pids: int | None) -> None:
    """Wait until processes do next to nothing."""
    deadline = time.monotonic() + _SETTLE_LIMIT_S
    never, spent = threading.Event(), math.inf
    while spent > _IDLE_SHARE * _LOOK_S and time.monotonic() < deadline:
        before = sum(map(cpu_s_of, pids))
        never.wait(_LOOK_S)
        spent = sum(map(cpu_s_of, pids)) - before


class _Legs:
    """Publishes rows of some tables, and measures that."""

    def __init__(
        self,
        stack: LocalStack,
        source: pyodbc.Connection,
        publisher: PublisherProcess,
        progress: ProgressCount,
    ) -> None:
        self._stack = stack
        self._source = source
        self._publisher = publisher
        self._progress = progress

    def run(self, names: list[str], rows: int) -> dict[str, Any]:
        """Publish that many rows of these tables, captured before it is let to see them."""
        self._source.execute("EXEC sys.sp_cdc_stop_job N'capture'")
        sent = self._write(names, rows)
        before, out = self._figures(), self._progress.rows
        begun = time.perf_counter()
        self._source.execute("EXEC sys.sp_cdc_start_job N'capture'")
        self._progress.wait_for(out + sent, _LIMIT_S)
        elapsed = time.perf_counter() - begun
        spent = {name: value - before[name] for name, value in self._figures().items()}
        return {
            "rows_per_s_with_capture": round(sent / elapsed),
            **{
                f"{part}_us_per_row": round(spent[part] / sent * 1e6, 1)
                for part in ("cpu", "server_cpu", "broker_cpu")
            },
            "statements": round(spent["statements"]),
            "polls_with_news": round(spent["polls_with_news"]),
        }

    def _write(self, names: list[str], rows: int) -> int:
        part = min(SEED_ROWS, max(1, rows // len(names)))
        base, sent = _next_id(self._source, names[0]), 0
        while sent < rows:
            for name in names:
                self._source.execute(
                    f"INSERT INTO dbo.{name} SELECT id + {base}, {', '.join(NAMES[1:])}"
                    f" FROM dbo.seed WHERE id < {part}"
                )
                sent += part
                if sent >= rows:
                    break
            base += part
        return sent

    def _figures(self) -> dict[str, float]:
        publisher, stack = self._publisher, self._stack
        statements, polls, idle = publisher.figures(
            "source_queries_total", "queries_per_poll_count", 'queries_per_poll_bucket{le="1.0"}'
        )
        return {
            "cpu": publisher.cpu_s(),
            "server_cpu": cpu_s_of(stack.emulator.pid),
            "broker_cpu": cpu_s_of(stack.broker.pid),
            "statements": statements,
            "polls_with_news": polls - idle,
        }


def _next_id(source: pyodbc.Connection, name: str) -> int:
    return int(source.execute(f"SELECT COALESCE(MAX(id), 0) + 1 FROM dbo.{name}").fetchval())
