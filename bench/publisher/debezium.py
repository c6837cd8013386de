"""Debezium's SQL Server connector over the same change rows, as the publisher's peer.

It runs unmodified in Kafka Connect's standalone worker, with JSON without schemas. The virtual
machine has the options of Kafka's own script. It runs once with its default batch sizes and once
with larger ones. Its offsets are from before the rows, so a restart finds all of them captured. The
reported time is from its first event to its last, without its start.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, TopicPartition

from tailrace_compose.local.connect import JAVA_DEFAULTS, ConnectWorker, sqlserver_connector
from tailrace_compose.local.stack import LocalStack
from tailrace_emulator.testing.emulator_process import LOGIN

MODES: Final = ("direct", "function")
TUNED: Final = {
    "max__batch__size": "8192",
    "max__queue__size": "32768",
    "producer__override__linger__ms": "5",
    "producer__override__batch__size": "524288",
    "producer__override__compression__type": "lz4",
}
_LIMIT_S: Final = 600.0


class DebeziumRun:
    """One connector over one database.

    Args:
        folder: for the worker's files.
        mode: its query mode: ``direct`` reads change tables, ``function`` queries CDC's functions.
        is_tuned: with larger batches than its defaults.
    """

    def __init__(
        self, stack: LocalStack, database: str, folder: Path, mode: str, *, is_tuned: bool
    ) -> None:
        self._bootstrap = stack.broker.bootstrap_servers
        name = f"dbz-{mode}-{'tuned' if is_tuned else 'default'}"
        connector = sqlserver_connector(
            name,
            port=stack.emulator.port,
            user=LOGIN,
            password=stack.emulator.password,
            database=database,
            bootstrap=self._bootstrap,
            snapshot__mode="no_data",
            data__query__mode=mode,
            **(TUNED if is_tuned else {}),
        )
        self._worker = ConnectWorker(folder / name, self._bootstrap, [connector], JAVA_DEFAULTS)
        self._prefix = f"{name}.{database}.dbo"

    def take_position(self, change: Callable[[], None]) -> None:
        """Let it find its place before there are rows: it keeps an LSN once it has sent an event.

        Args:
            change: makes a change of the captured table ``dbo.marks``; called until one is sent,
                because what is captured before it streams is not.
        """
        self._worker.start()
        try:
            self._times("marks", 1, change)
        finally:
            self._worker.stop()

    def seconds(self, rows: int) -> float:
        """Seconds from its first event of ``dbo.orders`` to that of the last row.

        Raises:
            TimeoutError: they did not all come.
        """
        self._worker.start()
        try:
            times = self._times("orders", rows)
        finally:
            self._worker.stop()
        return (max(times) - min(times)) / 1000

    def _times(
        self, table: str, count: int, meanwhile: Callable[[], None] = lambda: None
    ) -> list[int]:
        """When the connector sent each of so many messages, milliseconds."""
        topic = f"{self._prefix}.{table}"
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": "bench",
                "enable.auto.commit": False,
                "allow.auto.create.topics": False,
                "topic.metadata.refresh.interval.ms": 500,
            }
        )
        times: list[int] = []
        deadline = time.monotonic() + _LIMIT_S
        try:
            consumer.assign([TopicPartition(topic, 0, 0)])
            while len(times) < count:
                found = consumer.consume(10_000, 1.0)
                if not found:
                    meanwhile()
                times += [m.timestamp()[1] for m in found if m.error() is None]
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{topic}: {len(times)} of {count}; {self._worker.log}")
        finally:
            consumer.close()
        return times
