"""The topics of a database, as a command reads or writes them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tailrace_publisher.checkpoint.reader import existing_topics
from tailrace_publisher.daemon.adapters.production import production_ports
from tailrace_publisher.deliver.topics import check_undivided
from tailrace_publisher.options.publisher_config import PublisherConfig
from tailrace_publisher.ports import Ports
from tailrace_publisher.runtime import DatabaseTopics, database_topics


@contextmanager
def open_topics(config: PublisherConfig, ports: Ports | None = None) -> Iterator[DatabaseTopics]:
    """Open the registry, and yield the topics.

    Args:
        ports: the outside world; None: the real one.

    Raises:
        CheckpointUnavailable: no broker answered in time.
        DividedIntoShards: an earlier release divided the database.
    """
    ports = ports or production_ports()
    with ports.registry(config.registry) as registry:
        topics = database_topics(config, ports, registry)
        check_undivided(topics.names, existing_topics(topics.kafka, config.kafka.start_timeout_s))
        yield topics
