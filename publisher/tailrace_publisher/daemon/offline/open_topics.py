"""The topics of a database, as a command reads or writes them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tailrace_publisher.daemon.adapters.production import production_ports
from tailrace_publisher.daemon.shards.agreed_map import all_shards
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_publisher.ports import Ports
from tailrace_publisher.runtime import DatabaseTopics, database_topics


@contextmanager
def open_topics(
    config: PublisherConfig, ports: Ports | None = None
) -> Iterator[list[DatabaseTopics]]:
    """Open the registry, and yield the topics of each shard; at least one shard.

    Args:
        ports: the outside world; None: the real one.

    Raises:
        ConfigError, ShardsDiffer, CheckpointError, DeliveryError: as :func:`all_shards`.
    """
    ports = ports or production_ports()
    with ports.registry(config.registry) as registry:
        yield [database_topics(config, ports, registry, s) for s in all_shards(config, ports)]
