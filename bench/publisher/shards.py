"""One publisher or two for the same tables: the gain of a second process and a second shard.

The same change rows of two tables, captured before, are published three times, each under a prefix
of its own:

- one process: without shards
- two shards: one process that has both
- two processes: one shard each

Every publisher starts paused, with its shards assigned, and all are resumed at once. The time from
the first event to the last counts. Broker, SQL Server and publishers share the cores, so on two
cores a second process takes what the others need. Therefore the result also has the publishers'
seconds on a core per row, and how busy they were. With enough cores these bound the rate of two,
not the rate that is measured here.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import pyodbc

from bench import workload
from bench.publisher.published_orders import (
    NAMES,
    SEED_ROWS,
    START_LIMIT_S,
    PublisherProcess,
    captured_orders,
    settings_of,
)
from tailrace_compose.local.stack import LocalStack

_LIMIT_S: Final = 600.0
_TABLES: Final = ("orders", "orders2")
_LEGS: Final = {"one_process": (1, 1), "two_shards": (1, 2), "two_processes": (2, 2)}
"""Processes and shards."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of this benchmark."""
    parser.add_argument(
        "--shard-rows", type=int, default=200_000, help="publisher_shards: change rows of a table"
    )
    parser.add_argument(
        "--shard-repeats", type=int, default=2, help="publisher_shards: runs; the best counts"
    )


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure."""
    rows, repeats = arguments.shard_rows, arguments.shard_repeats
    figures: dict[str, Any] = {"rows": rows * len(_TABLES), "tables": len(_TABLES)}
    with (
        tempfile.TemporaryDirectory(prefix="tailrace-bench-") as directory,
        LocalStack(Path(directory)) as stack,
    ):
        captured_orders(stack)
        with pyodbc.connect(stack.emulator.connection_string("shop"), autocommit=True) as source:
            _second_table(source)
            turns = [(name, turn) for turn in range(repeats) for name in _LEGS]
            for name, turn in turns:
                with _paused(stack, Path(directory), f"{name}{turn}", *_LEGS[name]):
                    pass  # so that its checkpoint is before the rows
            _load(source, rows)
            best: dict[str, tuple[float, float]] = {}
            for name, turn in turns:
                prefix = f"{name}{turn}"
                with _paused(stack, Path(directory), prefix, *_LEGS[name]) as publishers:
                    found = _measured(publishers, rows * len(_TABLES))
                best[name] = min(best.get(name, found), found)
            fetched = rows * len(_TABLES) / _fetch(source)
    figures["raw_fetch_rows_per_s"] = round(fetched)
    for name, (elapsed, cpu) in best.items():
        rate = rows * len(_TABLES) / elapsed
        figures[f"{name}_rows_per_s"] = round(rate)
        figures[f"{name}_cpu_us_per_row"] = round(cpu / (rows * len(_TABLES)) * 1e6, 1)
        figures[f"{name}_cores_busy"] = round(cpu / elapsed, 2)
        figures[f"{name}_ratio_to_raw_fetch"] = round(rate / fetched, 2)
    one = figures["one_process_rows_per_s"]
    figures["ratio_of_two_shards_to_one_process"] = round(figures["two_shards_rows_per_s"] / one, 2)
    figures["ratio_of_two_processes_to_one"] = round(figures["two_processes_rows_per_s"] / one, 2)
    return figures


def _second_table(source: pyodbc.Connection) -> None:
    source.execute(workload.ddl().replace("dbo.orders", "dbo.orders2"))
    source.execute(
        "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'orders2',"
        " @role_name = NULL, @supports_net_changes = 0"
    )


def _load(source: pyodbc.Connection, rows: int) -> None:
    """Rows of both tables in transactions of ten of each, and all of them captured."""
    names = ", ".join(NAMES[1:])
    copies = " ".join(
        f"INSERT INTO dbo.{table} SELECT id - @low + @base, {names} FROM dbo.seed"
        " WHERE id >= @low AND id < @low + 10;"
        for table in _TABLES
    )
    source.execute(
        "SET NOCOUNT ON; DECLARE @base bigint = 0; DECLARE @low bigint;"
        f" WHILE @base < {rows} BEGIN SET @low = @base % {SEED_ROWS};"
        f" BEGIN TRAN; {copies} COMMIT; SET @base = @base + 10; END"
    )
    deadline = time.monotonic() + _LIMIT_S
    while any(
        source.execute(f"SELECT COUNT(*) FROM cdc.dbo_{table}_CT").fetchval() < rows
        for table in _TABLES
    ):
        if time.monotonic() > deadline:
            raise TimeoutError(f"the capture job did not capture the rows in {_LIMIT_S:g} s")
        source.execute("WAITFOR DELAY '00:00:01'")


def _fetch(source: pyodbc.Connection) -> float:
    """Seconds in which pyodbc alone reads the change rows of both tables, in order."""
    begun = time.perf_counter()
    for table in _TABLES:
        cursor = source.execute(
            f"SELECT * FROM cdc.dbo_{table}_CT"
            " ORDER BY [__$start_lsn], [__$command_id], [__$seqval], [__$operation]"
        )
        while cursor.fetchmany(2000):
            pass
    return time.perf_counter() - begun


@contextmanager
def _paused(
    stack: LocalStack, folder: Path, prefix: str, processes: int, shards: int
) -> Iterator[list[PublisherProcess]]:
    """Publishers that are paused, each with its part of the shards."""
    pinned = {f"dbo.{table}": number % shards for number, table in enumerate(_TABLES)}
    further = {"shards": {"count": shards, "pinned": pinned}} if shards > 1 else {}
    with ExitStack() as resources:
        publishers = []
        for number in range(processes):
            own = folder / f"{prefix}-{number}"
            own.mkdir(exist_ok=True)
            options: dict[str, Any] = {"window_transactions": 5000, "heartbeat_s": 0.5, **further}
            publisher = PublisherProcess(settings_of(stack, prefix, **options), own)
            publisher.start()
            resources.callback(publisher.stop)
            publishers.append(publisher)
        share = shards // processes

        def are_given() -> bool:
            told = [_asked(publisher, "/status") for publisher in publishers]
            states = {status.get("state") for status in told}
            shared = {status.get("figures", {}).get("shards_here", share) for status in told}
            return states <= {"running", "paused"} and shared == {share}

        first = publishers[0]
        first.wait_until_ready(are_given, START_LIMIT_S)
        if _asked(first, "/status").get("state") != "paused":
            _asked(first, "/pause", b"{}")
        first.wait_until_ready(
            lambda: all(_asked(p, "/status").get("state") == "paused" for p in publishers),
            START_LIMIT_S,
        )
        yield publishers


def _measured(publishers: list[PublisherProcess], rows: int) -> tuple[float, float]:
    """Seconds from the first event to the last, and seconds on a core, of all publishers."""

    def sent() -> float:
        return sum(publisher.counted("rows") for publisher in publishers)

    _asked(publishers[0], "/resume", b"{}")
    publishers[0].wait_until_ready(lambda: sent() > 0, _LIMIT_S)
    begun, before = time.perf_counter(), sent()
    cpu = sum(publisher.cpu_s() for publisher in publishers)
    publishers[0].wait_until_ready(lambda: sent() >= rows, _LIMIT_S)
    share = rows / (rows - before)  # what was out at the first look is left out
    elapsed = time.perf_counter() - begun
    return elapsed * share, (sum(p.cpu_s() for p in publishers) - cpu) * share


def _asked(publisher: PublisherProcess, path: str, body: bytes | None = None) -> dict[str, Any]:
    """What its endpoint answers; nothing while it does not."""
    request = urllib.request.Request(  # noqa: S310 - its own address
        f"{publisher.url}{path}", data=body, headers={"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:  # noqa: S310
            found: dict[str, Any] = json.loads(answer.read())
    except OSError:
        return {}
    return found
