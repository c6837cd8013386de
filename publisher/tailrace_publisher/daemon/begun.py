"""Whether the database was published before: then its configuration has been right once."""

from __future__ import annotations

from tailrace_publisher.checkpoint.reader import has_checkpoint_topic, read_checkpoints
from tailrace_publisher.config import PublisherConfig
from tailrace_schemas.registry import SchemaRegistry


def has_begun(config: PublisherConfig, registry: SchemaRegistry, deadline_s: float) -> bool:
    """Whether there is a checkpoint of the database.

    It waits for no other producer, so it may see one that is not committed yet.

    Args:
        config: the options.
        registry: knows the schemas of the records.
        deadline_s: longest time for each of the two steps.

    Raises:
        CheckpointUnavailable: no broker answered in time.
        CheckpointError: a record is not one of ours.
        RegistryError: a record's schema cannot be had.
    """
    bootstrap, options = config.kafka.bootstrap, config.kafka.librdkafka_options()
    if not has_checkpoint_topic(bootstrap, config.topics, deadline_s, options):
        return False
    return bool(
        read_checkpoints(
            bootstrap,
            config.topics,
            config.server_name,
            config.source.database,
            deadline_s,
            registry=registry,
            extra=options,
            isolation="read_uncommitted",
        )
    )
