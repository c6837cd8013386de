"""The embedded SQL Server: is it ever the slower side?

- reading: the change table in order, by pyodbc and by arrow-odbc. It is read from the server, and
  from a process that plays back the server's own bytes (replay.py), which shows the driver's limit.
- transactions: single-row transactions from several connections, committed and captured meanwhile.
- large scan: a transaction of many rows is captured while a connection commits single rows. Their
  latencies are compared with those of a quiet server. The server's peak memory is read after it.

The sides of a ratio take turns, several times, and the best of each counts.
"""

from __future__ import annotations

import argparse
import pickle
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import arrow_odbc
import pyodbc

from bench import workload
from bench.replay import Answers, record
from tailrace_emulator.testing.emulator_process import EmulatorProcess

_DATABASE: Final = "shop"
_FETCH_ROWS: Final = 10_000
_SEED_ROWS: Final = 1000
_ARROW_BATCH_ROWS: Final = 20_000
_LIMIT_S: Final = 900.0
_SCAN_PAUSE_S: Final = 0.1
_QUIET_COMMITS: Final = 500
_PARTS: Final = ("reading", "transactions", "large-scan")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of this benchmark."""
    parser.add_argument(
        "--change-rows", type=int, default=200_000, help="emulator: change rows that are read"
    )
    parser.add_argument(
        "--large-rows", type=int, default=1_000_000, help="emulator: rows of the large transaction"
    )
    parser.add_argument(
        "--transactions", type=int, default=10_000, help="emulator: single-row transactions"
    )
    parser.add_argument("--writers", type=int, default=8, help="emulator: connections for them")
    parser.add_argument("--rounds", type=int, default=3, help="emulator: turns of each side")
    parser.add_argument(
        "--parts", nargs="+", choices=_PARTS, default=_PARTS, help="emulator: what is measured"
    )


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure, each part on a server of its own."""
    measured: dict[str, Any] = {}
    measure = {"reading": _reading, "transactions": _transactions, "large-scan": _large_scan}
    for part in map(measure.__getitem__, arguments.parts):
        with (
            tempfile.TemporaryDirectory(prefix="tailrace-bench-") as directory,
            _server(Path(directory)) as server,
        ):
            measured |= part(server, Path(directory), arguments)
    return measured


@contextmanager
def _server(directory: Path) -> Iterator[EmulatorProcess]:
    server = EmulatorProcess(directory / "data", agent="manual")
    server.start()
    try:
        with _connection(server, "master") as master:
            master.execute(f"CREATE DATABASE [{_DATABASE}]")
        with _connection(server) as connection:
            connection.execute("EXEC sys.sp_cdc_enable_db")
            for table in ("seed", "orders"):
                connection.execute(workload.ddl().replace("dbo.orders", f"dbo.{table}"))
            _seed(connection)
            connection.execute(
                "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'orders',"
                " @role_name = NULL, @supports_net_changes = 0"
            )
            connection.execute("EXEC sys.sp_cdc_scan")
        yield server
    finally:
        server.stop()


@contextmanager
def _connection(
    server: EmulatorProcess, database: str = _DATABASE, port: int | None = None
) -> Iterator[pyodbc.Connection]:
    connection = pyodbc.connect(_connection_string(server, database, port), autocommit=True)
    try:
        yield connection
    finally:
        connection.close()


def _connection_string(
    server: EmulatorProcess, database: str = _DATABASE, port: int | None = None
) -> str:
    text = server.connection_string(database)
    if port is not None:
        text = text.replace(f",{server.port};", f",{port};")
    return text.replace("Encrypt=yes", "Encrypt=no")


def _seed(connection: pyodbc.Connection) -> None:
    randomness = random.Random(7)  # noqa: S311 - the same rows in every run
    rows = [workload.values(number, randomness) for number in range(_SEED_ROWS)]
    marks = ", ".join("?" * len(rows[0]))
    with connection.cursor() as cursor:
        cursor.fast_executemany = True
        cursor.executemany(f"INSERT INTO dbo.seed VALUES ({marks})", rows)


def _columns() -> list[str]:
    return [column.name for column in workload.table_schema().columns]


def _insert_many(connection: pyodbc.Connection, rows: int) -> None:
    """One transaction of that many rows, made on the server from the seed."""
    connection.execute(
        f"SET NOCOUNT ON; INSERT INTO dbo.orders"
        f" SELECT s.id + n.id * {_SEED_ROWS}, {', '.join('s.' + c for c in _columns()[1:])}"
        f" FROM dbo.seed AS n CROSS JOIN dbo.seed AS s WHERE n.id < {-(-rows // _SEED_ROWS)}"
        f" AND s.id + n.id * {_SEED_ROWS} < {rows}"
    )


# -- reading ---------------------------------------------------------------------------------------


def _reading(
    server: EmulatorProcess, directory: Path, arguments: argparse.Namespace
) -> dict[str, Any]:
    rows = arguments.change_rows
    with _connection(server) as connection:
        _insert_many(connection, rows)
        connection.execute("EXEC sys.sp_cdc_scan @maxscans = 100")
    measured: dict[str, Any] = {"change_rows": rows}
    for name, read in (("pyodbc", _read_pyodbc), ("arrow_odbc", _read_arrow)):
        answers: Answers = {}
        with record(server.port, answers) as port:
            found = read(_connection_string(server, port=port))
        if found != rows:
            raise RuntimeError(f"{name} read {found} change rows, not {rows}")
        with _replay(directory / "answers", answers) as port:
            ours, ceiling = _best_of_turns(
                arguments.rounds,
                lambda read=read: read(_connection_string(server)),  # type: ignore[misc]
                lambda read=read, port=port: read(_connection_string(server, port=port)),  # type: ignore[misc]
            )
        measured |= {
            f"{name}_rows_per_s": round(rows / ours),
            f"{name}_preencoded_rows_per_s": round(rows / ceiling),
            f"ratio_to_preencoded_{name}": round(ceiling / ours, 2),
        }
    return measured


def _query() -> str:
    names = ["__$start_lsn", "__$command_id", "__$seqval", "__$operation", "__$update_mask"]
    columns = ", ".join(f"[{name}]" for name in names + _columns())
    order = "[__$start_lsn], [__$command_id], [__$seqval], [__$operation]"
    return f"SELECT {columns} FROM cdc.dbo_orders_CT ORDER BY {order}"


def _read_pyodbc(connection_string: str) -> int:
    connection = pyodbc.connect(connection_string, autocommit=True)
    try:
        cursor = connection.execute(_query())
        count = 0
        while page := cursor.fetchmany(_FETCH_ROWS):
            count += len(page)
        return count
    finally:
        connection.close()


def _read_arrow(connection_string: str) -> int:
    reader = arrow_odbc.read_arrow_batches_from_odbc(
        _query(), connection_string, batch_size=_ARROW_BATCH_ROWS
    )
    return sum(batch.num_rows for batch in reader)


@contextmanager
def _replay(path: Path, answers: Answers) -> Iterator[int]:
    path.write_bytes(pickle.dumps(answers))
    process = subprocess.Popen(  # noqa: S603 - this module's own neighbour
        [sys.executable, "-m", "bench.replay", str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("no pipes to the replay")
        yield int(process.stdout.readline())
        process.stdin.close()


def _best_of_turns(rounds: int, *sides: Callable[[], object]) -> list[float]:
    """The best seconds of each side; they take turns, so that a busy moment meets all of them."""
    best = [float("inf")] * len(sides)
    for _ in range(rounds):
        for number, side in enumerate(sides):
            started = time.perf_counter()
            side()
            best[number] = min(best[number], time.perf_counter() - started)
    return best


# -- transactions ----------------------------------------------------------------------------------


def _transactions(
    server: EmulatorProcess, directory: Path, arguments: argparse.Namespace
) -> dict[str, Any]:
    """Single-row transactions of several connections and of one, which take turns."""
    del directory
    several = arguments.writers
    each = -(-arguments.transactions // several)
    total = each * several
    best = dict.fromkeys((several, 1), (float("inf"), float("inf")))
    first = 0
    for _ in range(arguments.rounds):
        for writers in best:
            best[writers] = min(best[writers], _written(server, first, total, writers))
            first += total
    committed, captured = best[several]
    alone, alone_captured = best[1]
    return {
        "transactions": total,
        "writers": several,
        "transactions_committed_per_s": round(total / committed),
        "transactions_captured_per_s": round(total / captured),
        "one_writer_committed_per_s": round(total / alone),
        "one_writer_captured_per_s": round(total / alone_captured),
    }


def _written(server: EmulatorProcess, first: int, count: int, writers: int) -> tuple[float, float]:
    """Seconds until so many rows were committed, and captured by a scan ten times a second."""
    each = count // writers
    scanning = threading.Event()
    scanner = threading.Thread(target=_scan_until, args=(server, scanning), daemon=True)
    began = threading.Barrier(writers + 1)
    threads = [
        threading.Thread(target=_write, args=(server, began, start, each), daemon=True)
        for start in range(first, first + count, each)
    ]
    with _connection(server) as connection:
        for thread in (scanner, *threads):
            thread.start()
        began.wait(_LIMIT_S)
        started = time.perf_counter()
        for thread in threads:
            thread.join(_LIMIT_S)
        committed = time.perf_counter() - started
        _wait_until_captured(connection, first + count)
        captured = time.perf_counter() - started
    scanning.set()
    scanner.join(_LIMIT_S)
    return committed, captured


def _write(server: EmulatorProcess, began: threading.Barrier, first: int, count: int) -> None:
    with _connection(server) as connection, connection.cursor() as cursor:
        sql = "INSERT INTO dbo.orders (id, quantity, status) VALUES (?, ?, 'open')"
        began.wait(_LIMIT_S)
        for number in range(first, first + count):
            cursor.execute(sql, number, number % 100)


def _scan_until(server: EmulatorProcess, stop: threading.Event) -> None:
    with _connection(server) as connection:
        while not stop.is_set():
            connection.execute("EXEC sys.sp_cdc_scan @maxtrans = 1000, @maxscans = 100")
            stop.wait(_SCAN_PAUSE_S)


def _wait_until_captured(connection: pyodbc.Connection, rows: int) -> None:
    deadline = time.monotonic() + _LIMIT_S
    pause = threading.Event()
    while connection.execute("SELECT COUNT(*) FROM cdc.dbo_orders_CT").fetchval() < rows:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{rows} rows were not captured in {_LIMIT_S:g} s")
        pause.wait(0.02)


# -- large scan ------------------------------------------------------------------------------------


def _large_scan(
    server: EmulatorProcess, directory: Path, arguments: argparse.Namespace
) -> dict[str, Any]:
    del directory
    rows = arguments.large_rows
    with _connection(server) as connection:
        started = time.perf_counter()
        _insert_many(connection, rows)
        inserted = time.perf_counter() - started
        quiet = _commit_latencies(connection, _QUIET_COMMITS, lambda: False, rows)
        ended = threading.Event()
        seconds: list[float] = []

        def scan() -> None:
            with _connection(server) as other:
                began = time.perf_counter()
                other.execute("EXEC sys.sp_cdc_scan @maxtrans = 1, @maxscans = 1")
                seconds.append(time.perf_counter() - began)
            ended.set()

        thread = threading.Thread(target=scan, daemon=True)
        thread.start()
        beside = _commit_latencies(connection, 10**9, ended.is_set, rows + _QUIET_COMMITS)
        thread.join(_LIMIT_S)
    return {
        "large_rows": rows,
        "large_insert_rows_per_s": round(rows / inserted),
        "large_scan_rows_per_s": round(rows / seconds[0]),
        "commit_ms_p50_quiet": _percentile(quiet, 0.50),
        "commit_ms_p99_quiet": _percentile(quiet, 0.99),
        "commits_beside_scan": len(beside),
        "commit_ms_p50_beside_scan": _percentile(beside, 0.50),
        "commit_ms_p99_beside_scan": _percentile(beside, 0.99),
        "commit_ms_max_beside_scan": _percentile(beside, 1.0),
        "peak_memory_mb": _peak_memory_mb(server),
    }


def _commit_latencies(
    connection: pyodbc.Connection, count: int, ended: Callable[[], bool], first: int
) -> list[float]:
    """Seconds of single-row transactions, one after the other."""
    latencies: list[float] = []
    with connection.cursor() as cursor:
        sql = "INSERT INTO dbo.orders (id, quantity) VALUES (?, 1)"
        while len(latencies) < count and not ended():
            started = time.perf_counter()
            cursor.execute(sql, first + len(latencies))
            latencies.append(time.perf_counter() - started)
    return latencies


def _percentile(latencies: list[float], share: float) -> float:
    """Milliseconds."""
    if not latencies:
        return 0.0
    ordered = sorted(latencies)
    return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1000, 1)


def _peak_memory_mb(server: EmulatorProcess) -> int:
    for line in Path(f"/proc/{server.pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) // 1024
    raise RuntimeError("the system does not say how much memory a process has had")
