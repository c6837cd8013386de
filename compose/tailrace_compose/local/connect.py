"""Kafka Connect's standalone worker as a child process, with Debezium's connectors as plugins."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tailrace_compose.local import jars
from tailrace_compose.local.java import QUICK_START, java_executable
from tailrace_emulator.testing.process import ChildProcess, free_port

READY_LIMIT_S = 120.0
JAVA_DEFAULTS = ("-Xms256m", "-Xmx2g", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")
"""The options with which Kafka's own connect-standalone.sh starts the virtual machine."""

_LOG_SETTINGS = Path(__file__).with_name("kafka-log4j2.xml")


class ConnectWorker:
    """One worker over one folder: its offsets are a file there, from which a restart resumes.

    The connector's jars are in a folder of the plugin path, not on the class path, like those of
    Connect's users. So it runs with its own libraries and the worker's interfaces.

    Args:
        folder: for settings, offsets and log.
        connectors: settings of each, with ``name``.
        java_options: by default those that start fast.
        plugin: the connectors' jars. By default those of Debezium's SQL Server connector.
    """

    def __init__(
        self,
        folder: Path,
        bootstrap: str,
        connectors: Sequence[Mapping[str, str]],
        java_options: Sequence[str] = ("-Xmx512m", *QUICK_START),
        plugin: Sequence[Path] | None = None,
    ) -> None:
        self.folder = folder
        self.log = folder / "connect.log"
        self._port = free_port()
        self._names = [connector["name"] for connector in connectors]
        self._process: ChildProcess | None = None
        folder.mkdir(parents=True, exist_ok=True)
        plugins = folder / "plugins" / "debezium"
        plugins.mkdir(parents=True)
        for jar in jars.ensure("debezium") if plugin is None else plugin:
            (plugins / jar.name).symlink_to(jar)
        files = [self._write("worker.properties", self._settings(bootstrap))]
        files += [self._write(f"{item['name']}.properties", item) for item in connectors]
        class_path = ":".join(map(str, jars.ensure("connect")))
        self._command = [java_executable(), *java_options]
        self._command += [f"-Dlog4j2.configurationFile={_LOG_SETTINGS}", "-cp", class_path]
        self._command += ["org.apache.kafka.connect.cli.ConnectStandalone", *map(str, files)]

    def start(self) -> None:
        """Start it and wait until every connector's task runs."""
        self._process = ChildProcess("Kafka Connect", self._command, self.log)
        self._process.start().wait_until_ready(self._all_run, READY_LIMIT_S)

    def stop(self) -> None:
        """Stop it in order: tasks end, offsets are written."""
        if self._process is not None:
            self._process.stop()

    def failures(self) -> list[str]:
        """Return the traces of failed connectors and tasks; empty while everything runs."""
        traces = []
        for name in self._names:
            status = self._status(name)
            parts = [status["connector"], *status["tasks"]] if status else []
            traces += [f"{name}: {part['trace']}" for part in parts if part["state"] == "FAILED"]
        return traces

    def _all_run(self) -> bool:
        if failures := self.failures():
            raise AssertionError("\n".join(failures))
        found = [self._status(name) for name in self._names]
        return all(
            status is not None
            and status["tasks"]
            and all(task["state"] == "RUNNING" for task in status["tasks"])
            for status in found
        )

    def _status(self, name: str) -> dict[str, Any] | None:
        address = f"http://127.0.0.1:{self._port}/connectors/{name}/status"
        try:
            with urllib.request.urlopen(address, timeout=5) as answer:
                status: dict[str, Any] = json.load(answer)
                return status
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return None

    def _settings(self, bootstrap: str) -> dict[str, str]:
        json_converter = "org.apache.kafka.connect.json.JsonConverter"
        return {
            "bootstrap.servers": bootstrap,
            "listeners": f"http://127.0.0.1:{self._port}",
            "plugin.path": str(self.folder / "plugins"),
            "plugin.discovery": "service_load",
            "offset.storage.file.filename": str(self.folder / "offsets"),
            "connector.client.config.override.policy": "All",
            "key.converter": json_converter,
            "key.converter.schemas.enable": "false",
            "value.converter": json_converter,
            "value.converter.schemas.enable": "false",
        }

    def _write(self, name: str, settings: Mapping[str, str]) -> Path:
        path = self.folder / name
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        return path


def sqlserver_connector(
    name: str, *, port: int, user: str, password: str, database: str, bootstrap: str, **more: str
) -> dict[str, str]:
    """Return the settings of one SQL Server connector; its topics begin with its name.

    Args:
        bootstrap: the brokers of its schema history.
        more: further settings, with `__` for the dots in their names.
    """
    return {
        "name": name,
        "connector.class": "io.debezium.connector.sqlserver.SqlServerConnector",
        "tasks.max": "1",
        "topic.prefix": name,
        "database.hostname": "127.0.0.1",
        "database.port": str(port),
        "database.user": user,
        "database.password": password,
        "database.names": database,
        "driver.trustServerCertificate": "true",
        "schema.history.internal.kafka.bootstrap.servers": bootstrap,
        "schema.history.internal.kafka.topic": f"{name}-history",
        "topic.creation.default.replication.factor": "1",
        "topic.creation.default.partitions": "1",
        "poll.interval.ms": "50",
        "decimal.handling.mode": "string",
        "time.precision.mode": "isostring",
    } | {key.replace("__", "."): value for key, value in more.items()}
