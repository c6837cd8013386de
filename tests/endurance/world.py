"""The parts of a run, and how each is killed and started again."""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from emulator.tests.fix_emulator import EmulatorProcess
from tailrace_compose.local.cluster import KafkaCluster
from tailrace_compose.local.registry import SchemaRegistry
from tailrace_emulator.testing.process import ChildProcess, tail_of
from tests.endurance.source import DATABASE

PREFIX = "endurance"
_PAUSE_S = 0.05


class EndedByItself(AssertionError):
    """The publisher ended though nobody killed it."""


class World:
    """Brokers, registry, server and publisher, each in a process of its own.

    Args:
        data_dir: holds everything, logs included.
    """

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self.cluster = KafkaCluster(data_dir / "kafka", is_short_lived=True)
        self.registry = SchemaRegistry(data_dir / "registry")
        self.server = EmulatorProcess(data_dir / "server")
        self._publisher: ChildProcess | None = None
        self.kills: dict[str, int] = {}

    def start(self) -> None:
        """Start all but the publisher."""
        self._data_dir.mkdir(parents=True, exist_ok=True)
        self.cluster.start()
        self.registry.start()
        self.server.start()

    def end(self) -> None:
        """Kill everything."""
        if self._publisher is not None:
            self._publisher.kill()
        self.cluster.kill()
        self.registry.kill()
        if self.server.process is not None:
            self.server.kill()

    def publish(self, rng: random.Random) -> None:
        """Start the publisher, with sizes at random."""
        file = self._data_dir / "tailrace.yaml"
        file.write_text(yaml.safe_dump(self._options(rng)))
        command = [sys.executable, "-m", "tailrace", "publish", "--config", str(file)]
        self._publisher = ChildProcess(
            "publisher", command, self._data_dir / "publisher.log"
        ).start()

    def check(self) -> None:
        """Check that the publisher runs.

        Raises:
            EndedByItself: with the end of its log.
        """
        if self._publisher is not None and not self._publisher.is_running:
            code = self._publisher.process.returncode
            raise EndedByItself(f"the publisher ended with {code}:\n{tail_of(self._publisher.log)}")

    def wait(self, seconds: float) -> None:
        """Let time pass; the publisher must live."""
        self.until(lambda: False, seconds)

    def until(self, reached: Callable[[], bool], seconds: float) -> bool:
        """Wait for a condition; whether it was reached within the time."""
        deadline = time.monotonic() + seconds
        pause = threading.Event()
        while not reached():
            self.check()
            if time.monotonic() > deadline:
                return False
            pause.wait(_PAUSE_S)
        return True

    def kill_one(self, rng: random.Random) -> None:
        """Kill a part; after some seconds it is started again."""
        what = rng.choice(("publisher", "publisher", "broker", "broker", "registry", "server"))
        self.kills[what] = self.kills.get(what, 0) + 1
        down_s = rng.choice((0.0, 0.5, 3.0, 10.0))
        if what == "publisher":
            self.stop_publisher()
            threading.Event().wait(down_s)
            self.publish(rng)
        elif what == "broker":
            broker = rng.choice(self.cluster.brokers)
            broker.kill()
            self.wait(down_s)
            broker.start()
        elif what == "registry":
            self.registry.kill()
            self.wait(down_s)
            self.registry.start()
        else:
            self.server.kill()
            self.wait(down_s)
            self.server.start()

    def stop_publisher(self) -> None:
        """Kill the publisher."""
        assert self._publisher is not None
        self.check()
        self._publisher.kill()
        self._publisher = None

    def _options(self, rng: random.Random) -> dict[str, Any]:
        return {
            "prefix": PREFIX,
            "kafka": {"bootstrap": self.cluster.bootstrap_servers},
            "registry": {"url": self.registry.url},
            "publisher": {
                "source": {
                    "host": "127.0.0.1",
                    "port": self.server.port,
                    "database": DATABASE,
                    "user": self.server.user,
                    "password": self.server.password,
                    "trust_server_certificate": True,
                    "login_timeout_s": 5,
                },
                "kafka": {"partitions": 3},
                "poll_interval_ms": 50,
                "heartbeat_s": 1,
                "retry_backoff_max_s": 2,
                "page_rows": rng.choice((1, 7, 1000)),
                "rows_per_transaction": rng.choice((5, 1000, 10_000)),
                "window_transactions": rng.choice((3, 1000)),
                "snapshot": {"chunk_rows": rng.choice((3, 50_000)), "on_gap": "snapshot"},
            },
        }
