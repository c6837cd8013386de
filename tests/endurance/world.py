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
from tailrace.reading.lake import CommitRows
from tailrace_compose.local.registry import SchemaRegistry
from tailrace_emulator.testing.process import ChildProcess, tail_of
from tests.endurance.kafka_cluster import KafkaCluster
from tests.endurance.source import DATABASE
from tests.fix_spark import SPARK_JAVA

PREFIX = "endurance"
_PAUSE_S = 0.05


_WHAT = ("publisher",) * 4 + ("broker",) * 4 + ("registry",) * 2 + ("server",) * 2


class EndedByItself(AssertionError):
    """A daemon ended though nobody killed it."""


class World:
    """Brokers, registry, server, publisher and sink, each in a process of its own.

    Args:
        data_dir: holds everything, logs included.
        has_sink: whether there is a lake.
    """

    def __init__(self, data_dir: Path, *, has_sink: bool) -> None:
        self._data_dir = data_dir
        self.cluster = KafkaCluster(data_dir / "kafka", is_short_lived=True)
        self.registry = SchemaRegistry(data_dir / "registry")
        self.server = EmulatorProcess(data_dir / "server")
        self.lake = data_dir / "lake"
        self.commits = CommitRows(str(self.lake / "_tailrace" / "commits"))
        self._has_sink = has_sink
        self._daemons: dict[str, ChildProcess] = {}
        self.kills: dict[str, int] = {}

    def start(self) -> None:
        """Start all but the daemons."""
        self._data_dir.mkdir(parents=True, exist_ok=True)
        self.cluster.start()
        self.registry.start()
        self.server.start()

    def end(self) -> None:
        """Kill everything."""
        for daemon in self._daemons.values():
            daemon.kill()
        self.cluster.kill()
        self.registry.kill()
        if self.server.process is not None:
            self.server.kill()

    def publish(self, rng: random.Random) -> None:
        """Start the publisher, with sizes at random."""
        self._run("publish", self._options(rng))

    def sink(self) -> None:
        """Start the sink, where there is a lake."""
        if self._has_sink:
            spark = {"spark.driver.memory": "1g", "spark.driver.extraJavaOptions": SPARK_JAVA}
            self._run("sink", {"sink": {"lake": str(self.lake), "spark": spark}})

    def check(self) -> None:
        """Check that the daemons run.

        Raises:
            EndedByItself: with the end of its log.
        """
        for command, daemon in self._daemons.items():
            if not daemon.is_running:
                code = daemon.process.returncode
                raise EndedByItself(f"{command} ended with {code}:\n{tail_of(daemon.log)}")

    def wait(self, seconds: float) -> None:
        """Let time pass; the daemons must live."""
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
        what = rng.choice((*_WHAT, "sink") if self._has_sink else _WHAT)
        self.kills[what] = self.kills.get(what, 0) + 1
        down_s = rng.choice((0.0, 0.5, 3.0, 10.0))
        if what == "publisher":
            self.stop_publisher()
            self.wait(down_s)
            self.publish(rng)
        elif what == "sink":
            self._kill("sink")
            self.wait(down_s)
            self.sink()
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
        self._kill("publish")

    def _kill(self, command: str) -> None:
        self.check()
        self._daemons.pop(command).kill()

    def _run(self, command: str, options: dict[str, Any]) -> None:
        common = {
            "prefix": PREFIX,
            "kafka": {"bootstrap": self.cluster.bootstrap_servers},
            "registry": {"url": self.registry.url},
        }
        file = self._data_dir / f"{command}.yaml"
        file.write_text(yaml.safe_dump(common | options))
        arguments = [sys.executable, "-m", "tailrace", command, "--config", str(file)]
        daemon = ChildProcess(command, arguments, self._data_dir / f"{command}.log")
        self._daemons[command] = daemon.start()

    def _options(self, rng: random.Random) -> dict[str, Any]:
        return {
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
