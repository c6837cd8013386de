"""Whether the database was published before: then its configuration has been right once."""

from __future__ import annotations

from tailrace_publisher.checkpoint.reader import has_checkpoint_topic, read_checkpoints
from tailrace_publisher.runtime import DatabaseTopics


def has_begun(topics: DatabaseTopics, deadline_s: float) -> bool:
    """Whether there is a checkpoint of the database.

    It waits for no other producer, so it may see one that is not committed yet.

    Args:
        topics: of the database.
        deadline_s: longest time for each of the two steps.

    Raises:
        CheckpointUnavailable: no broker answered in time.
        CheckpointError: a record is not one of ours.
        RegistryError: a record's schema cannot be had.
    """
    if not has_checkpoint_topic(topics, deadline_s):
        return False
    return not read_checkpoints(topics, deadline_s, "read_uncommitted").is_empty
