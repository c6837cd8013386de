"""A first load end to end: rows in SQL Server, topics, tables, all on this machine.

The table has the shape of New York's taxi trips: twenty columns, most of them numbers, 130 bytes in
a row. It is filled before it is captured, so that its snapshot brings every row. Publisher and sink
start together. The clock runs from there to the commit of the cut that has all rows, so that both
starts count.

- ``starts_s``: until the publisher's first commit
- ``publishing_s``: from there until every row is in the topics; the sink works meanwhile
- ``finishing_s``: from there until every row is in the tables
- ``processor_s``: by process, from start to end; with nothing else running, the cores bound the
  rate by ``ceiling_of_cores_rows_per_s``
- ``verify``: ``tailrace verify`` of the table afterwards; how fast the server hashed the rows, and
  Spark those of the lake; empty with ``--load-unverified``. Before it, three rows of the lake are
  damaged: one is lost, one has another value, one is not in the source. It must name them alone.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyodbc
from pyspark.sql import SparkSession

from bench.daemon_process import DaemonProcess
from bench.processor import processor_s
from bench.publisher.published_orders import settings_of
from tailrace.reading.lake_session import configured_session
from tailrace.settings.load import load
from tailrace.verify.report import verification_lines
from tailrace.verify.verify import VerifyOptions, verify
from tailrace_compose.local.jars import spark_jars
from tailrace_compose.local.stack import LocalStack
from tailrace_emulator.testing.process import free_port
from tests.hidden_damage import run_as_the_sink

_DATABASE: Final = "city"
_SEED_ROWS: Final = 1000
_STATEMENT_ROWS: Final = 100_000
_LIMIT_S: Final = 7200.0
_LOOK_S: Final = 0.25
_COLUMNS: Final = {
    "id": "bigint NOT NULL PRIMARY KEY",
    "vendor": "tinyint NULL",
    "picked_up": "datetime2(0) NOT NULL",
    "dropped_off": "datetime2(0) NULL",
    "passengers": "tinyint NULL",
    "distance": "decimal(9, 2) NULL",
    "rate_code": "smallint NULL",
    "stored": "char(1) NULL",
    "from_zone": "smallint NOT NULL",
    "to_zone": "smallint NOT NULL",
    "payment": "tinyint NULL",
    "fare": "decimal(9, 2) NULL",
    "extra": "decimal(9, 2) NULL",
    "tax": "decimal(9, 2) NULL",
    "tip": "decimal(9, 2) NULL",
    "tolls": "decimal(9, 2) NULL",
    "improvement": "decimal(9, 2) NULL",
    "total": "decimal(9, 2) NULL",
    "congestion": "decimal(9, 2) NULL",
    "airport_fee": "decimal(9, 2) NULL",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of this benchmark."""
    parser.add_argument(
        "--load-rows",
        type=int,
        default=1_000_000,
        help=f"first_load: rows of the table, a multiple of {_SEED_ROWS}",
    )
    parser.add_argument(
        "--load-unverified",
        action="store_true",
        help="first_load: end when all rows are in the tables, without tailrace verify",
    )


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure.

    Returns:
        Seconds, rows per second, and processor seconds by process.
    """
    rows = arguments.load_rows
    spark_jars()  # Downloads are no part of a load.
    with (
        tempfile.TemporaryDirectory(prefix="tailrace-bench-") as directory,
        LocalStack(Path(directory)) as stack,
    ):
        _fill(stack, rows)
        settings = _settings(stack, Path(directory))
        publisher = DaemonProcess("publisher", settings, Path(directory))
        sink = DaemonProcess("sink", settings, Path(directory))
        processes: dict[str, Callable[[], int | None]] = {
            "source": lambda: stack.emulator.pid,
            "broker": lambda: stack.broker.pid,
            "registry": lambda: stack.registry.pid,
            "publisher": lambda: publisher.pid,
            "sink": lambda: sink.pid,
        }
        before = {name: _spent(pid()) for name, pid in processes.items()}
        begun = time.perf_counter()
        try:
            publisher.start()
            sink.start()
            reached = _reached(publisher, sink, rows, begun)
            spent = {name: _spent(pid()) - before[name] for name, pid in processes.items()}
            verified = {}
            if not arguments.load_unverified:
                verified = _verified(stack, sink, settings, Path(directory), rows)
        finally:
            sink.stop()
            publisher.stop()
    total_s, cores = reached["loaded"], os.cpu_count() or 1
    return {
        "rows": rows,
        "rows_per_s": round(rows / total_s),
        "total_s": round(total_s, 1),
        "starts_s": round(reached["started"], 1),
        "publishing_s": round(reached["published"] - reached["started"], 1),
        "finishing_s": round(total_s - reached["published"], 1),
        "rows_per_s_after_starts": round(rows / (total_s - reached["started"])),
        "processor_s": {name: round(seconds, 1) for name, seconds in spent.items()},
        "processor_us_per_row": {
            name: round(seconds / rows * 1e6, 1) for name, seconds in spent.items()
        },
        "ceiling_of_cores_rows_per_s": round(rows * cores / sum(spent.values())),
        "verify": verified,
        "load_after": round(os.getloadavg()[0], 1),
    }


def _reached(
    publisher: DaemonProcess, sink: DaemonProcess, rows: int, begun: float
) -> dict[str, float]:
    """Wait until everything is in the tables.

    Returns:
        Seconds until the publisher's first commit, until all is published, and until all is loaded.

    Raises:
        ProcessFailed: a daemon ended, or it takes longer than two hours.
    """
    reached: dict[str, float] = {}
    while "loaded" not in reached:
        for daemon in (publisher, sink):
            if (status := daemon.exited_within(_LOOK_S)) is not None:
                raise daemon.failure(f"ended with status {status}")
        now = time.perf_counter() - begun
        if now > _LIMIT_S:
            raise sink.failure(f"has not loaded {rows} rows in {_LIMIT_S:g} s")
        if "published" not in reached:
            commits, published = publisher.figures("commits_total", "snapshot_rows_total")
            if commits:
                reached.setdefault("started", now)
            if published >= rows:
                reached["published"] = now
                print(f"published after {now:.1f} s", file=sys.stderr)
        elif sink.counted("sink_changes") >= rows:
            reached["loaded"] = now
            print(f"in the tables after {now:.1f} s", file=sys.stderr)
    return reached


def _verified(
    stack: LocalStack, sink: DaemonProcess, settings: dict[str, Any], folder: Path, rows: int
) -> dict[str, Any]:
    """Damage three rows of the lake, and compare the source with it.

    Returns:
        Seconds and rows per second of both sides.

    Raises:
        RuntimeError: others than these rows are said to differ.
    """
    path = folder / "verify.yaml"
    path.write_text(json.dumps(settings))
    configured = load(path, {})
    begun = time.perf_counter()
    spark = configured_session(configured.sink())
    started_s = time.perf_counter() - begun
    try:
        damage = partial(run_as_the_sink, spark, configured.sink().prefix)
        damaged = _damage(spark, damage, f"{configured.sink().lake}/{_DATABASE}/dbo/trips", rows)
        _commit_one_more(stack, sink, rows)
        found = verify(configured.publisher(), configured.sink(), spark, VerifyOptions())
    finally:
        spark.stop()
    (table,) = found.tables
    named = {str(of.kind): of.key["id"] for of in table.examples}
    if table.differing.total() != len(damaged) or named != damaged or table.unsettled:
        raise RuntimeError(f"not exactly {damaged} differ: {verification_lines(found)}")
    return {
        "session_s": round(started_s, 1),
        "seconds": round(table.seconds, 1),
        "source_rows_per_s": round(rows / table.source_s),
        "lake_rows_per_s": round(rows / table.lake_s),
        "ranges": table.ranges,
        "load_after": round(os.getloadavg()[0], 1),
    }


def _damage(
    spark: SparkSession, damage: Callable[[str], None], location: str, rows: int
) -> dict[str, str]:
    """Change the lake's table, which no commit shows.

    Returns:
        The id of the row that now differs, by how it differs.
    """
    lost, changed, surplus = rows // 3, rows // 2, rows * 2
    table = f"delta.`{location}`"
    columns = spark.table(table).columns
    others = ", ".join(f"`{name}`" for name in columns if name != "id")
    damage(f"DELETE FROM {table} WHERE id = {lost}")
    damage(f"UPDATE {table} SET from_zone = from_zone + 1 WHERE id = {changed}")
    damage(
        f"INSERT INTO {table} (id, {others}) SELECT {surplus}, {others} FROM {table}"
        f" WHERE id = {changed}"
    )
    return {"missing": str(lost), "value": str(changed), "surplus": str(surplus)}


def _commit_one_more(stack: LocalStack, sink: DaemonProcess, rows: int) -> None:
    """Let the lake's newest cut have what was done to its table."""
    names = ", ".join(list(_COLUMNS)[1:])
    with pyodbc.connect(stack.emulator.connection_string(_DATABASE), autocommit=True) as source:
        source.execute(
            f"INSERT INTO dbo.trips SELECT {rows + 1}, {names} FROM dbo.seed WHERE id = 1"
        )
    until = time.monotonic() + _LIMIT_S
    while sink.counted("sink_changes") <= rows:
        if time.monotonic() > until or sink.exited_within(_LOOK_S) is not None:
            raise sink.failure("has not committed one more row")


def _spent(pid: int | None) -> float:
    return 0.0 if pid is None else processor_s([pid])


def _fill(stack: LocalStack, rows: int) -> None:
    """Create a captured table whose rows are older than its capture."""
    columns = ", ".join(f"{name} {declared}" for name, declared in _COLUMNS.items())
    others = ", ".join(list(_COLUMNS)[1:])
    with pyodbc.connect(stack.emulator.connection_string(), autocommit=True) as master:
        master.execute(f"CREATE DATABASE [{_DATABASE}]")
    with pyodbc.connect(stack.emulator.connection_string(_DATABASE), autocommit=True) as source:
        source.execute("EXEC sys.sp_cdc_enable_db")
        source.execute(f"CREATE TABLE dbo.seed ({columns})")
        source.execute(f"CREATE TABLE dbo.trips ({columns})")
        source.execute("CREATE TABLE dbo.steps (n int)")
        randomness = random.Random(7)  # noqa: S311 - the same rows in every run
        with source.cursor() as cursor:
            cursor.fast_executemany = True
            cursor.executemany(
                f"INSERT INTO dbo.seed VALUES ({', '.join('?' * len(_COLUMNS))})",
                [_trip(number, randomness) for number in range(_SEED_ROWS)],
            )
        steps = ", ".join(f"({number})" for number in range(_STATEMENT_ROWS // _SEED_ROWS))
        source.execute(f"INSERT INTO dbo.steps VALUES {steps}")
        for base in range(0, rows, _STATEMENT_ROWS):
            left = (rows - base) // _SEED_ROWS
            source.execute(
                f"INSERT INTO dbo.trips SELECT id + n * {_SEED_ROWS} + {base}, {others}"
                f" FROM dbo.seed CROSS JOIN dbo.steps WHERE n < {left}"
            )
        source.execute(
            "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'trips',"
            " @role_name = NULL, @supports_net_changes = 0"
        )


def _trip(number: int, randomness: random.Random) -> tuple[Any, ...]:
    """One row as pyodbc takes it."""
    day, minute = 1 + number % 28, randomness.randrange(60)
    cents = [f"{randomness.randrange(9_000) / 100:.2f}" for _ in range(10)]
    return (
        number,
        1 + number % 2,
        f"2024-01-{day:02} {number % 23:02}:{minute:02}:07",
        f"2024-01-{day:02} {number % 23:02}:{minute:02}:59",
        None if number % 40 == 0 else number % 5,
        cents[0],
        number % 6,
        "NY"[number % 2],
        randomness.randrange(265),
        randomness.randrange(265),
        number % 4,
        *cents[1:9],
        None if number % 3 else cents[9],
    )


def _settings(stack: LocalStack, folder: Path) -> dict[str, Any]:
    """Options as they are by default, with ports and places."""
    tables, snapshot = {"include": ["dbo.trips"]}, {"mode": "initial"}
    published = settings_of(stack, "load", _DATABASE, tables=tables, snapshot=snapshot)
    return published | {"sink": {"lake": str(folder / "lake"), "metrics_port": free_port()}}
