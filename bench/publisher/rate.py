"""Change table to committed topic, compared with its two ceilings, in one run.

The changes are written to the embedded SQL Server, in transactions of ten by default, and captured
before anything is measured. Then, on the same machine at the same time of day:

- raw fetch: pyodbc reads the same change rows in order, and nothing else
- raw produce: the same events, encoded before, are produced in transactions as large as its own
- publisher: the daemon itself, from its first window to its last commit
- by row: the same with source.blocks off, the path of tables that blocks cannot read
- function: the same with source.read_mode: function, through CDC's query functions
- debezium: its connector in Kafka Connect, JSON, from its first event to its last (--debezium). It
  runs in both query modes, with its default batches and with larger ones.

They take turns, several times, and the best of each counts; Debezium's legs run once each. Broker,
SQL Server and publisher share the cores, so the time that each takes of them bounds the rate of
all. This bound is reported as ``ceiling_of_cores_rows_per_s``.
"""

from __future__ import annotations

import argparse
import itertools
import logging
import os
import resource
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyodbc
import structlog
from confluent_kafka import Producer

from bench import workload
from bench.daemon_process import cpu_s_of
from bench.publisher.change_load import ChangeLoad, Shape
from bench.publisher.debezium import MODES, DebeziumRun
from tailrace_compose.local.stack import LocalStack
from tailrace_emulator.testing.emulator_process import LOGIN, EmulatorProcess
from tailrace_publisher.daemon import run as run_publisher
from tailrace_publisher.daemon.adapters.production import kafka_at
from tailrace_publisher.deliver import TopicSpec
from tailrace_publisher.deliver.topics import TopicAdmin
from tailrace_publisher.encode.envelopes.envelope import EnvelopeEncoder
from tailrace_publisher.metrics.publisher_metrics import Metrics
from tailrace_publisher.options.publisher_config import PublisherConfig

_DATABASE: Final = "shop"
_PAGE: Final = 2000
_PARTITIONS: Final = 4
_KAFKA_TRANSACTION: Final = PublisherConfig.model_fields["rows_per_transaction"].default
_LEGS: Final[dict[str, dict[str, Any]]] = {
    "blocks": {},
    "rows": {"blocks": False},
    "function": {"read_mode": "function"},
}
"""The publisher's, by options of source."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of this benchmark."""
    parser.add_argument("--rows", type=int, default=100_000, help="publisher: change rows")
    parser.add_argument("--repeats", type=int, default=3, help="publisher: runs; the best counts")
    parser.add_argument(
        "--window-transactions", type=int, help="publisher: the option of that name"
    )
    parser.add_argument("--page-rows", type=int, help="publisher: the option of that name")
    parser.add_argument(
        "--shape",
        type=Shape,
        choices=list(Shape),
        default=Shape.ORDERS,
        help="publisher: orders of 12 columns and 330 bytes; wide: 100, 2 kB; long: 11, 10 kB",
    )
    parser.add_argument("--updates", action="store_true", help="publisher: updates, not inserts")
    parser.add_argument(
        "--debezium", action="store_true", help="publisher: also run Debezium's connector"
    )
    parser.add_argument(
        "--transaction-rows",
        type=int,
        default=workload.ROWS_PER_TRANSACTION,
        help="publisher: events of a source transaction; a divisor or a multiple of 1000",
    )


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure."""
    rows, repeats = arguments.rows, arguments.repeats
    load = ChangeLoad(rows, arguments.transaction_rows, arguments.shape, arguments.updates)
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    with (
        tempfile.TemporaryDirectory(prefix="tailrace-bench-") as directory,
        LocalStack(Path(directory)) as stack,
        _source(stack.emulator, load) as source,
    ):
        given = {
            name: value
            for name in ("window_transactions", "page_rows")
            if (value := getattr(arguments, name)) is not None
        }
        configs = {
            name: [_config(stack, f"{name}{number}", given, options) for number in range(repeats)]
            for name, options in _LEGS.items()
        }
        peers = _peers(stack, Path(directory), source) if arguments.debezium else {}
        for config in itertools.chain(*configs.values()):
            _publish(config, lambda _: True)  # so that its checkpoint is before the rows
        load.make(source)
        events = _encoded(stack.emulator, load)
        bootstrap = stack.broker.bootstrap_servers
        fetches: list[float] = []
        produces: list[float] = []
        runs: dict[str, list[_Used]] = {name: [] for name in _LEGS}
        for turn in range(repeats):
            fetches.append(_fetch(stack.emulator, load))
            for name, ran in runs.items():
                ran.append(_publish(configs[name][turn], lambda sent: sent >= rows, stack))
            produces.append(_produce(bootstrap, f"raw{turn}", events))
        debezium = {name: rows / peer.seconds(rows) for name, peer in peers.items()}
    fetched, produced = rows / min(fetches), rows / min(produces)
    published, by_row, by_function = (
        rows / min(used.elapsed for used in ran) for ran in runs.values()
    )
    on_core, on_core_by_row, _ = (min(used.publisher for used in ran) for ran in runs.values())
    server = min(used.server for used in runs["blocks"])
    broker = min(used.broker for used in runs["blocks"])
    cores, size = os.cpu_count() or 1, sum(len(value) for _, value in events) / rows
    return {
        "rows": rows,
        "columns": len(load.schema().columns),
        "kind": "updates" if load.is_updates else "inserts",
        "rows_per_transaction": arguments.transaction_rows,
        "bytes_per_event": round(size),
        "publisher_mb_per_s": round(published * size / 1e6, 1),
        "publisher_rows_per_s": round(published),
        "by_row_rows_per_s": round(by_row),
        "function_rows_per_s": round(by_function),
        "raw_fetch_rows_per_s": round(fetched),
        "raw_produce_rows_per_s": round(produced),
        "ratio_to_raw_fetch": round(published / fetched, 2),
        "ratio_to_raw_produce": round(published / produced, 2),
        "by_row_ratio_to_raw_fetch": round(by_row / fetched, 2),
        "ratio_to_by_row": round(published / by_row, 2),
        "ratio_to_function": round(published / by_function, 2),
        "publisher_cpu_us_per_row": round(on_core / rows * 1e6, 1),
        "by_row_cpu_us_per_row": round(on_core_by_row / rows * 1e6, 1),
        "server_cpu_us_per_row": round(server / rows * 1e6, 1),
        "broker_cpu_us_per_row": round(broker / rows * 1e6, 1),
        "ceiling_of_cores_rows_per_s": round(rows * cores / (on_core + server + broker)),
        "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        **{f"debezium_{name}_rows_per_s": round(rate) for name, rate in debezium.items()},
        **{f"ratio_to_debezium_{name}": round(published / r, 1) for name, r in debezium.items()},
    }


def _peers(stack: LocalStack, directory: Path, source: pyodbc.Connection) -> dict[str, DebeziumRun]:
    """Debezium in each of its forms, its place kept."""
    source.execute("CREATE TABLE dbo.marks (id int IDENTITY PRIMARY KEY)")
    source.execute(
        "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'marks',"
        " @role_name = NULL, @supports_net_changes = 0"
    )
    peers = {}
    for mode in MODES:
        for is_tuned in (False, True):
            peer = DebeziumRun(stack, _DATABASE, directory, mode, is_tuned=is_tuned)
            peer.take_position(lambda: source.execute("INSERT INTO dbo.marks DEFAULT VALUES"))
            peers[f"{mode}_{'tuned' if is_tuned else 'default'}"] = peer
    return peers


@contextmanager
def _source(server: EmulatorProcess, load: ChangeLoad) -> Iterator[pyodbc.Connection]:
    """A database with the table, captured; the capture job runs when the loading says so."""
    with pyodbc.connect(server.connection_string(), autocommit=True) as master:
        master.execute(f"CREATE DATABASE [{_DATABASE}]")
    connection = pyodbc.connect(server.connection_string(_DATABASE), autocommit=True)
    try:
        connection.execute("EXEC sys.sp_cdc_enable_db")
        load.prepare(connection)
        yield connection
    finally:
        connection.close()


def _config(
    stack: LocalStack, prefix: str, given: dict[str, Any], source: dict[str, Any]
) -> PublisherConfig:
    return PublisherConfig.load(
        {
            "source": {
                "host": "127.0.0.1",
                "port": stack.emulator.port,
                "database": _DATABASE,
                "user": LOGIN,
                "password": stack.emulator.password,
                "trust_server_certificate": True,
                **source,
            },
            "kafka": {
                "bootstrap": stack.broker.bootstrap_servers,
                "partitions": _PARTITIONS,
            },
            "registry": {"url": stack.registry.url},
            "prefix": prefix,
            "snapshot": {"mode": "no_data"},
            **given,
            "poll_interval_ms": 20,
            "heartbeat_s": 0.5,
        }
    )


@dataclass(frozen=True, slots=True)
class _Used:
    """Seconds by the clock, and of each process on a core, from first window to last commit."""

    elapsed: float
    publisher: float
    server: float
    broker: float


def _publish(
    config: PublisherConfig, is_enough: Callable[[float], bool], stack: LocalStack | None = None
) -> _Used:
    """Run the daemon until enough events are committed."""
    stop = threading.Event()
    metrics = Metrics()
    others = [] if stack is None else [stack.emulator.pid, stack.broker.pid]
    times: dict[str, tuple[float, ...]] = {}

    def now() -> tuple[float, ...]:
        return (time.perf_counter(), time.process_time(), *map(cpu_s_of, others))

    def on_step(step: str) -> None:
        if step == "window":
            times.setdefault("began", now())
        elif step in {"committed", "heartbeat"} and is_enough(_sent(metrics)):
            times.setdefault("ended", now())
            stop.set()

    run_publisher(config, stop, metrics=metrics, on_step=on_step)
    began, ended = times.get("began", times["ended"]), times["ended"]
    used = [after - before for before, after in zip(began, ended, strict=True)]
    return _Used(*used, *[0.0] * (4 - len(used)))


def _sent(metrics: Metrics) -> float:
    return sum(
        sample.value
        for family in metrics.rows.collect()
        for sample in family.samples
        if sample.name.endswith("_total")
    )


def _change_rows(server: EmulatorProcess, load: ChangeLoad) -> Iterator[list[Any]]:
    columns = ", ".join(column.name for column in load.schema().columns)
    with pyodbc.connect(server.connection_string(_DATABASE), autocommit=True) as connection:
        cursor = connection.execute(
            f"SELECT [__$start_lsn], [__$command_id], [__$seqval], [__$operation],"
            f" [__$update_mask], {columns} FROM cdc.dbo_orders_CT"
            " ORDER BY [__$start_lsn], [__$command_id], [__$seqval], [__$operation]"
        )
        while page := cursor.fetchmany(_PAGE):
            yield page


def _fetch(server: EmulatorProcess, load: ChangeLoad) -> float:
    started = time.perf_counter()
    fetched = sum(map(len, _change_rows(server, load)))
    elapsed = time.perf_counter() - started
    if fetched != load.change_rows:
        raise AssertionError(f"{fetched} change rows, not {load.change_rows}")
    return elapsed


def _encoded(server: EmulatorProcess, load: ChangeLoad) -> list[tuple[bytes | None, bytes]]:
    encoder = EnvelopeEncoder("bench", load.schema(), "topic", 1, 2)
    events: list[tuple[bytes | None, bytes]] = []
    for page in _change_rows(server, load):
        encoded = encoder.encode(page, {row[0]: 1_760_000_000_000 for row in page})
        events += zip(encoded.keys, encoded.values, strict=True)
    return events


def _produce(bootstrap: str, topic: str, events: list[tuple[bytes | None, bytes]]) -> float:
    """Produce encoded events with the publisher's settings and no bookkeeping."""
    TopicAdmin(kafka_at(bootstrap), 1, 30.0).ensure([TopicSpec(topic, _PARTITIONS)])
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": topic,
            "linger.ms": 30,
            "compression.type": "lz4",
            "queue.buffering.max.messages": 100_000,
            "queue.buffering.max.kbytes": 131_072,
        }
    )
    producer.init_transactions(30)
    started = time.perf_counter()
    for start in range(0, len(events), _KAFKA_TRANSACTION):
        producer.begin_transaction()
        for index, (key, value) in enumerate(events[start : start + _KAFKA_TRANSACTION]):
            while True:
                try:
                    producer.produce(topic, value, key, index % _PARTITIONS)
                except BufferError:  # large events: the queue's bytes are used up
                    producer.poll(0.01)
                else:
                    break
            if index % _PAGE == 0:
                producer.poll(0)
        producer.commit_transaction(60)
    return time.perf_counter() - started
