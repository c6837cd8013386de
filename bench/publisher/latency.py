"""From a commit that the capture job has made visible to its committed event, under steady load.

A loop on the server inserts ten rows a transaction, about a hundred transactions a second. The
capture job scans without a pause. One thread queries ``cdc.lsn_time_mapping`` for new commits,
another reads the progress topic as any subscriber would. The reported time is from the query that
found a commit to the arrival of the record that closes it. So it includes the publisher's polls,
its reading, encoding and sending, Kafka's commit and one fetch, but not the capture job.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Final

import pyodbc
from confluent_kafka import Consumer, TopicPartition

from bench.publisher.published_orders import (
    NAMES,
    SEED_ROWS,
    PublisherProcess,
    captured_orders,
    running_publisher,
    settings_of,
)
from tailrace.demo.latency import by_closing, percentiles
from tailrace.reading.progress import decode
from tailrace_compose.local.stack import LocalStack
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.topic_names import TopicNames

_ROWS: Final = 10
_PAUSE_MS: Final = 9
_SETTLE_S: Final = 5.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of this benchmark."""
    parser.add_argument(
        "--seconds", type=float, default=30.0, help="publisher_latency: how long it is measured"
    )


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure."""
    with (
        tempfile.TemporaryDirectory(prefix="tailrace-bench-") as directory,
        LocalStack(Path(directory)) as stack,
    ):
        source = captured_orders(stack)
        with pyodbc.connect(source, autocommit=True) as connection:
            connection.execute(
                "EXEC sys.sp_cdc_change_job @job_type = N'capture', @pollinginterval = 0"
            )
            connection.execute("EXEC sys.sp_cdc_stop_job N'capture'")
            connection.execute("EXEC sys.sp_cdc_start_job N'capture'")
        with running_publisher(settings_of(stack, "latency"), Path(directory)) as publisher:
            return _measured(stack, source, publisher, arguments.seconds)


def _measured(
    stack: LocalStack, source: str, publisher: PublisherProcess, seconds: float
) -> dict[str, Any]:
    stop = threading.Event()
    commits: list[tuple[str, int]] = []
    closings: list[tuple[str, int]] = []
    threads = [
        threading.Thread(target=_write, args=(source, stop)),
        threading.Thread(target=_watch_commits, args=(source, stop, commits)),
        threading.Thread(
            target=_watch_topic, args=(stack.broker.bootstrap_servers, stop, closings)
        ),
    ]
    for thread in threads:
        thread.start()
    stop.wait(_SETTLE_S)
    begun_ms = _now_ms()
    before = {name: publisher.counted(name) for name in ("rows", "source_queries", "commits")}
    stop.wait(seconds)
    after = {name: publisher.counted(name) for name in before}
    ended_ms = _now_ms()
    stop.wait(1.0)
    stop.set()
    for thread in threads:
        thread.join()
    seen = [(lsn, at) for lsn, at in commits if begun_ms <= at <= ended_ms]
    latency = percentiles(by_closing(seen, closings))
    if latency is None:
        raise AssertionError("no commit was closed")
    return {
        "changes_per_s": round((after["rows"] - before["rows"]) / seconds),
        "commits": latency.count,
        "p50_ms": round(latency.p50_s * 1000),
        "p99_ms": round(latency.p99_s * 1000),
        "kafka_transactions_per_s": round((after["commits"] - before["commits"]) / seconds),
        "statements_per_s": round((after["source_queries"] - before["source_queries"]) / seconds),
    }


def _write(source: str, stop: threading.Event) -> None:
    """Transactions of ten rows, a second's worth per request, so that the loop can be ended."""
    number = 0
    with pyodbc.connect(source, autocommit=True) as connection:
        while not stop.is_set():
            connection.execute(
                f"SET NOCOUNT ON; DECLARE @step int = 0; WHILE @step < 100 BEGIN"
                f" INSERT INTO dbo.orders SELECT id + {number} + @step * {_ROWS},"
                f" {', '.join(NAMES[1:])} FROM dbo.seed WHERE id < {_ROWS};"
                f" WAITFOR DELAY '00:00:00.{_PAUSE_MS:03d}'; SET @step = @step + 1; END"
            )
            number += SEED_ROWS


def _watch_commits(source: str, stop: threading.Event, found: list[tuple[str, int]]) -> None:
    last = bytes(10)
    with pyodbc.connect(source, autocommit=True) as connection:
        while not stop.wait(0.005):
            asked_ms = _now_ms()
            for (lsn,) in connection.execute(
                "SELECT start_lsn FROM cdc.lsn_time_mapping WHERE start_lsn > ? ORDER BY start_lsn",
                last,
            ).fetchall():
                found.append((str(Lsn.from_bytes(lsn)), asked_ms))
                last = lsn


def _watch_topic(bootstrap: str, stop: threading.Event, found: list[tuple[str, int]]) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 5,
        }
    )
    consumer.assign([TopicPartition(TopicNames("latency").progress, 0, 0)])
    try:
        while not stop.is_set():
            message = consumer.poll(0.1)
            value = None if message is None or message.error() else message.value()
            if value is not None:
                found.append((decode(value).closed_lsn, _now_ms()))
    finally:
        consumer.close()


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
