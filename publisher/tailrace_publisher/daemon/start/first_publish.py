"""Whether the database was published before, so that its configuration was once correct."""

from __future__ import annotations

from tailrace_publisher.checkpoint.reader import has_checkpoint_topic, read_checkpoints
from tailrace_publisher.options.broker_waits import PATIENCE_S
from tailrace_publisher.runtime import DatabaseTopics


def was_published_before(topics: DatabaseTopics, patience_s: float = PATIENCE_S) -> bool:
    """Return whether there is a checkpoint of the database.

    It does not wait for other producers, so it may see an uncommitted checkpoint.

    Args:
        patience_s: seconds without an answer, or without a further record, after which to give up.

    Raises:
        CheckpointUnavailable: no broker answered in time.
        CheckpointError: a record is foreign.
        RegistryError: a record's schema is not available.
    """
    if not has_checkpoint_topic(topics, patience_s):
        return False
    return not read_checkpoints(topics, patience_s, "read_uncommitted").is_empty
