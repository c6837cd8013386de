"""A Kafka broker as a child process: KRaft in combined mode, one node, only on 127.0.0.1."""

import base64
import socket
import struct
import uuid
from collections.abc import Mapping
from pathlib import Path

from tailrace_compose.local import ivy, jars
from tailrace_compose.local.java import QUICK_START, java_executable
from tailrace_emulator.testing.process import ChildProcess, free_port
from tailrace_emulator.testing.service import Service

READY_LIMIT_S = 120.0
_FORMAT_LIMIT_S = 60.0
_HEAP = "-Xmx512m"
# Kafka's ApiVersions request, version 0: length, API key 18, version, correlation id, no client id.
# A broker answers requests only after it has joined its cluster: an answer means that it is ready.
_API_VERSIONS_REQUEST = struct.pack(">ihhih", 10, 18, 0, 1, -1)


class KafkaBroker(Service):
    """One broker in combined mode; a restart goes on with the same topics."""

    name = "Kafka broker"
    log_name = "broker.log"

    def __init__(
        self,
        data_dir: Path,
        *,
        port: int | None = None,
        keep: bool = False,
        is_short_lived: bool = False,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """Describes the broker, as `Service` says.

        Args:
            data_dir: as there.
            port: as there.
            keep: as there.
            is_short_lived: for tests: the quick compiler only. Ready after 5 s and 4 s of processor
                time instead of 7 and 9 (measured), slower under load.
            settings: further lines of server.properties; they win over ours.
        """
        super().__init__(data_dir, port=port, keep=keep)
        self._is_short_lived = is_short_lived
        self._more_settings = dict(settings or {})
        self._controller_port: int | None = None

    @property
    def bootstrap_servers(self) -> str:
        """The address for clients, as in "127.0.0.1:23456"."""
        return f"127.0.0.1:{self.port}"

    def start(self, progress: ivy.Progress | None = None) -> str:
        """Starts the broker, after downloading its jars and formatting its directory when needed.

        Returns:
            The bootstrap address, once the broker answers requests.

        Raises:
            ProcessFailed: it ended or did not answer in time.
            ArtifactUnavailable, JavaMissing: what it runs on is missing.
        """
        self._port = self._port or free_port()
        self._controller_port = self._controller_port or free_port()
        self._data_dir.mkdir(parents=True, exist_ok=True)
        settings = self._data_dir / "server.properties"
        settings.write_text(self._settings(self._port, self._controller_port))
        command = self._java(jars.ensure("kafka", progress))
        if not (self._data_dir / "logs" / "meta.properties").exists():
            self._format(_quick(command), settings)
        if self._is_short_lived:
            command = _quick(command)
        self._process = ChildProcess(
            self.name, [*command, "kafka.Kafka", str(settings)], self.log, keep=self._keep
        ).start()
        self._process.wait_until_ready(self.answers, READY_LIMIT_S)
        return self.bootstrap_servers

    def _java(self, class_path: list[Path]) -> list[str]:
        log_settings = Path(__file__).with_name("kafka-log4j2.xml")
        return [
            java_executable(),
            _HEAP,
            f"-Dlog4j2.configurationFile={log_settings}",
            "-cp",
            ":".join(str(path) for path in class_path),
        ]

    def _settings(self, port: int, controller_port: int) -> str:
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str((self._data_dir / "logs").resolve()),
            # One node cannot hold a second replica of the brokers' own topics.
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            # A broker that was killed may register again once its old session is over: 3 s, not 9.
            "broker.session.timeout.ms": "3000",
            "broker.heartbeat.interval.ms": "500",
            # A consumer group's first member need not wait for others.
            "group.initial.rebalance.delay.ms": "0",
            # Topics get their partitions from whoever owns them, never by a misspelt name.
            "auto.create.topics.enable": "false",
            **self._more_settings,
        }
        return "".join(f"{name}={value}\n" for name, value in settings.items())

    def _format(self, command: list[str], settings: Path) -> None:
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        # With an equals sign, because an identifier may begin with a hyphen.
        arguments = ["format", f"--cluster-id={cluster_id}", f"--config={settings}"]
        tool = ChildProcess(
            "Kafka's StorageTool", [*command, "kafka.tools.StorageTool", *arguments], self.log
        ).start()
        self._process = tool  # so that `kill` reaches it
        status = tool.exited_within(_FORMAT_LIMIT_S)
        tool.kill()
        if status != 0:
            raise tool.failure(f"could not format {self._data_dir} (status {status})")

    def answers(self) -> bool:
        """As in `Service`: ApiVersions."""
        try:
            with socket.create_connection(("127.0.0.1", self._port or 0), timeout=2) as connection:
                connection.sendall(_API_VERSIONS_REQUEST)
                return len(connection.recv(4)) > 0
        except OSError:
            return False


def _quick(command: list[str]) -> list[str]:
    return [command[0], *QUICK_START, *command[1:]]
