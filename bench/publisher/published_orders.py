"""The captured table of the publisher's benchmarks, and the publisher as a process of its own."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pyodbc

from bench import workload
from bench.daemon_process import DaemonProcess
from tailrace_compose.local.stack import LocalStack
from tailrace_emulator.testing.emulator_process import LOGIN
from tailrace_emulator.testing.process import free_port

DATABASE: Final = "shop"
SEED_ROWS: Final = 1000
START_LIMIT_S: Final = 120.0
NAMES: Final = [column.name for column in workload.table_schema().columns]


class PublisherProcess(DaemonProcess):
    """``tailrace publish`` as a process of its own."""

    def __init__(self, settings: Mapping[str, Any], folder: Path) -> None:
        super().__init__("publisher", settings, folder)

    def has_committed(self) -> bool:
        """Whether it has made its first commit.

        Its figures are asked for when it is ready, and not before: of a thousand tables they take
        50 ms of what is measured.
        """
        return bool(self.answer("/ready")) and self.counted("commits") > 0


@contextmanager
def running_publisher(settings: Mapping[str, Any], folder: Path) -> Iterator[PublisherProcess]:
    """A publisher that has made its first commit."""
    publisher = PublisherProcess(settings, folder)
    publisher.start()
    try:
        publisher.wait_until_ready(publisher.has_committed, START_LIMIT_S)
        yield publisher
    finally:
        publisher.stop()


def settings_of(
    stack: LocalStack, prefix: str, database: str = DATABASE, **publisher: Any
) -> dict[str, Any]:
    """Return a configuration of ``tailrace publish`` that starts with the changes from now on.

    Args:
        publisher: further options of the publisher.
    """
    return {
        "prefix": prefix,
        "kafka": {"bootstrap": stack.broker.bootstrap_servers},
        "registry": {"url": stack.registry.url},
        "publisher": {
            "source": {
                "host": "127.0.0.1",
                "port": stack.emulator.port,
                "database": database,
                "user": LOGIN,
                "password_file": str(stack.emulator.password_file),
                "trust_server_certificate": True,
            },
            "metrics_port": free_port(),
            "snapshot": {"mode": "no_data"},
            **publisher,
        },
    }


def captured_orders(stack: LocalStack) -> str:
    """Make the captured table ``dbo.orders``, and ``dbo.seed`` with rows to copy.

    Returns:
        The connection string of their database.
    """
    randomness = random.Random(7)  # noqa: S311 - the same rows in every run
    with pyodbc.connect(stack.emulator.connection_string(), autocommit=True) as master:
        master.execute(f"CREATE DATABASE [{DATABASE}]")
        master.execute(f"USE [{DATABASE}]")
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
                f"INSERT INTO dbo.seed VALUES ({', '.join('?' * len(NAMES))})",
                [workload.values(number, randomness) for number in range(SEED_ROWS)],
            )
    return stack.emulator.connection_string(DATABASE)
