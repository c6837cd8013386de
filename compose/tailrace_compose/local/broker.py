"""A Kafka broker as a child process: KRaft in combined mode, only on 127.0.0.1.

One node is a whole cluster, unless `cluster` makes it a member of a larger one.
"""

import base64
import socket
import struct
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Member:
    """One node of a cluster of several.

    Attributes:
        node_id: from 1 to the number of nodes.
        controllers: each node's controller port, by node id.
    """

    node_id: int
    cluster_id: str
    controllers: Mapping[int, int]

    @classmethod
    def alone(cls) -> "Member":
        """Create the only node of a new cluster."""
        return cls(1, new_cluster_id(), {1: free_port()})

    def settings(self) -> dict[str, str]:
        """Return the node's own settings in server.properties."""
        voters = (f"{node}@127.0.0.1:{port}" for node, port in self.controllers.items())
        copies = str(min(3, len(self.controllers)))
        insync = "1" if copies == "1" else "2"
        return {
            "node.id": str(self.node_id),
            "controller.quorum.voters": ",".join(voters),
            "default.replication.factor": copies,
            "min.insync.replicas": insync,
            "offsets.topic.replication.factor": copies,
            "transaction.state.log.replication.factor": copies,
            "transaction.state.log.min.isr": insync,
            "share.coordinator.state.topic.replication.factor": copies,
        }


def new_cluster_id() -> str:
    """Return a new cluster identifier in Kafka's form: a UUID in URL-safe Base64."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()


class KafkaBroker(Service):
    """One broker in combined mode; a restart continues with the same topics."""

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
        member: Member | None = None,
    ) -> None:
        """Describe the broker, as `Service` does.

        Args:
            is_short_lived: for tests: the quick compiler only. Ready after 5 s and 4 s of processor
                time instead of 7 and 9 (measured). Slower under load.
            settings: further lines of server.properties, which override ours.
            member: the node in a cluster of several; None for the only node.
        """
        super().__init__(data_dir, port=port, keep=keep)
        self._is_short_lived = is_short_lived
        self._more_settings = dict(settings or {})
        self._member = member

    @property
    def bootstrap_servers(self) -> str:
        """The address for clients, as in "127.0.0.1:23456"."""
        return f"127.0.0.1:{self.port}"

    def start(self, progress: ivy.Progress | None = None) -> str:
        """Start the broker, after downloading its jars and formatting its directory if needed.

        Returns:
            The bootstrap address, once the broker answers requests.

        Raises:
            ProcessFailed: it ended or did not answer in time.
            ArtifactUnavailable, JavaMissing: a file or program that it needs is missing.
        """
        self._port = self._port or free_port()
        self._member = self._member or Member.alone()
        self._data_dir.mkdir(parents=True, exist_ok=True)
        settings = self._data_dir / "server.properties"
        settings.write_text(self._settings(self._port, self._member))
        command = self._java(jars.ensure("kafka", progress))
        if not (self._data_dir / "logs" / "meta.properties").exists():
            self._format(_quick(command), settings, self._member.cluster_id)
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

    def _settings(self, port: int, member: Member) -> str:
        controller_port = member.controllers[member.node_id]
        settings = {
            "process.roles": "broker,controller",
            # The brokers' own topics have as many copies as there are nodes, up to three.
            **member.settings(),
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str((self._data_dir / "logs").resolve()),
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.num.partitions": "1",
            "share.coordinator.state.topic.min.isr": "1",
            # A broker that was killed may register again once its old session is over: 3 s, not 9.
            "broker.session.timeout.ms": "3000",
            "broker.heartbeat.interval.ms": "500",
            # A consumer group's first member need not wait for others.
            "group.initial.rebalance.delay.ms": "0",
            # A large value, in a test or in a trial of Tailrace, must not stop its table.
            "message.max.bytes": str(16 << 20),
            # Only a topic's owner creates it with its partitions; a misspelt name never does.
            "auto.create.topics.enable": "false",
            # A segment's index is mapped with its full size. On file systems with large pages for
            # files, the first entry of an index of 10 MB takes 3 ms of a core, of 256 kB 0.1 ms.
            # With hundreds of new partitions this was nearly all of the broker's work (ADR 0044).
            # 256 kB have room for 87 MB of a partition; then a new segment starts.
            "log.index.size.max.bytes": "262144",
            **self._more_settings,
        }
        return "".join(f"{name}={value}\n" for name, value in settings.items())

    def _format(self, command: list[str], settings: Path, cluster_id: str) -> None:
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
        """Return whether it answers ApiVersions, as in `Service`."""
        try:
            with socket.create_connection(("127.0.0.1", self._port or 0), timeout=2) as connection:
                connection.sendall(_API_VERSIONS_REQUEST)
                return len(connection.recv(4)) > 0
        except OSError:
            return False


def _quick(command: list[str]) -> list[str]:
    return [command[0], *QUICK_START, *command[1:]]
