"""Whether the database was published before: then its configuration has been right once."""

from __future__ import annotations

from tailrace_publisher.checkpoint.partition import PATIENCE_S
from tailrace_publisher.checkpoint.reader import has_checkpoint_topic, read_checkpoints
from tailrace_publisher.runtime import DatabaseTopics


def has_begun(topics: DatabaseTopics, patience_s: float = PATIENCE_S) -> bool:
    """Look whether there is a checkpoint of the database.

    It waits for no other producer, so it may see one that is not committed yet.

    Args:
        topics: of the database.
        patience_s: seconds without an answer, or a further record, after which to give up.

    Raises:
        CheckpointUnavailable: no broker answered in time.
        CheckpointError: a record is not one of ours.
        RegistryError: a record's schema cannot be had.
    """
    if not has_checkpoint_topic(topics, patience_s):
        return False
    return not read_checkpoints(topics, patience_s, "read_uncommitted").is_empty
