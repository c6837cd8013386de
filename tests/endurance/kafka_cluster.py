"""Several Kafka brokers as child processes: what one broker cannot show, as a leader that moves."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from tailrace_compose.local import ivy, jars
from tailrace_compose.local.broker import KafkaBroker, Member, new_cluster_id
from tailrace_emulator.testing.process import free_port

NODES: Final = 3


class KafkaCluster:
    """Three brokers, each a controller, too: two of them are enough to go on.

    Topics have three copies and need two (min.insync.replicas) unless whoever creates them says
    otherwise.

    Attributes:
        brokers: one per node; each may be killed and started again.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        is_short_lived: bool = False,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """Describes the cluster.

        Args:
            data_dir: gets a folder for each broker.
            is_short_lived: as of a `KafkaBroker`.
            settings: further lines of every server.properties.
        """
        cluster_id = new_cluster_id()
        controllers = {node: free_port() for node in range(1, NODES + 1)}
        self.brokers = [
            KafkaBroker(
                data_dir / f"broker-{node}",
                is_short_lived=is_short_lived,
                settings=settings,
                member=Member(node, cluster_id, controllers),
            )
            for node in controllers
        ]

    @property
    def bootstrap_servers(self) -> str:
        """The addresses for clients, comma-separated."""
        return ",".join(broker.bootstrap_servers for broker in self.brokers)

    def start(self, progress: ivy.Progress | None = None) -> str:
        """Starts all brokers, side by side: the first is ready only with a second one.

        Returns:
            The bootstrap addresses, once all of them answer.

        Raises:
            ProcessFailed: one ended or did not answer in time.
            ArtifactUnavailable, JavaMissing: what they run on is missing.
        """
        jars.ensure("kafka", progress)
        with ThreadPoolExecutor(NODES) as starting:
            for started in [starting.submit(broker.start) for broker in self.brokers]:
                started.result()
        return self.bootstrap_servers

    def kill(self) -> None:
        """Kills all of them at once."""
        for broker in self.brokers:
            broker.kill()
