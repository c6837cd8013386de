"""The captured table of the publisher's benchmarks, and the publisher as a process of its own."""

from __future__ import annotations

import json
import os
import random
import re
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pyodbc

from bench import workload
from tailrace_compose.local.stack import LocalStack
from tailrace_emulator.testing.emulator_process import LOGIN
from tailrace_emulator.testing.process import ChildProcess, free_port

DATABASE: Final = "shop"
SEED_ROWS: Final = 1000
START_LIMIT_S: Final = 120.0
NAMES: Final = [column.name for column in workload.table_schema().columns]


class PublisherProcess(ChildProcess):
    """``tailrace publish`` as a process of its own.

    Args:
        folder: where configuration and log are written.
    """

    def __init__(self, settings: Mapping[str, Any], folder: Path) -> None:
        self._port = settings["publisher"]["metrics_port"]
        path = folder / f"{settings['prefix']}.yaml"
        path.write_text(json.dumps(settings), encoding="utf-8")
        command = [sys.executable, "-m", "tailrace", "publish", "--config", str(path)]
        super().__init__("tailrace publish", command, folder / f"{settings['prefix']}.log")

    @property
    def url(self) -> str:
        """Of its endpoint."""
        return f"http://127.0.0.1:{self._port}"

    def counted(self, counter: str) -> float:
        """The sum of one of its counters over the labels; 0 before it answers."""
        return self.figures(f"{counter}_total")[0]

    def figures(self, *names: str) -> list[float]:
        """The sums of some of its figures over the labels, at one moment; 0 before it answers."""
        text = self._answer("/metrics")
        return [
            sum(
                map(
                    float,
                    re.findall(
                        rf"^tailrace_{re.escape(name)}(?:{{[^}}]*}})? (\S+)$", text, re.MULTILINE
                    ),
                )
            )
            for name in names
        ]

    def has_committed(self) -> bool:
        """Whether it has made its first commit.

        Its figures are asked for when it is ready, and not before: of a thousand tables they take
        50 ms of what is measured.
        """
        return bool(self._answer("/ready")) and self.counted("commits") > 0

    def peak_kb(self) -> int:
        """Largest resident size that it ever had, in kB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
        return int(status.split("VmHWM:")[1].split()[0])

    def cpu_s(self) -> float:
        """Seconds that it has spent on a core."""
        return cpu_s_of(self.process.pid)

    def _answer(self, path: str) -> str:
        """What it says under a path; nothing before it answers, and where it says no."""
        try:
            with urllib.request.urlopen(f"{self.url}{path}", timeout=3) as answer:  # noqa: S310 - our own
                text: str = answer.read().decode()
        except OSError:
            return ""
        return text


def cpu_s_of(pid: int | None) -> float:
    """Seconds that a process has spent on a core; 0 of none."""
    if pid is None:
        return 0.0
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    user, system = fields.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


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


def settings_of(stack: LocalStack, prefix: str, **publisher: Any) -> dict[str, Any]:
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
                "database": DATABASE,
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
