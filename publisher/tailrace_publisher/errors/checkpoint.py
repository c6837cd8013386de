"""What is wrong with the checkpoint, or with how publishers share it."""

from __future__ import annotations

from collections.abc import Mapping

from tailrace_publisher.errors.base import PublisherError
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.topics.topic_names import TopicNames


class CheckpointError(PublisherError):
    """The checkpoint cannot be read or does not fit this publisher."""

    of_one_table = False


class CheckpointUnavailable(CheckpointError):
    """The checkpoint could not be read to its end in time: waiting may help."""

    retryable = True


class CheckpointRetentionTooShort(CheckpointError):
    """The checkpoint topic's settings let records expire that a later start needs.

    Attributes:
        topic: the checkpoint topic.
        settings: those that let records expire.
    """

    def __init__(self, topic: str, settings: Mapping[str, str]) -> None:
        self.topic = topic
        self.settings = dict(settings)
        found = ", ".join(f"{name}={value}" for name, value in settings.items())
        super().__init__(
            f"topic {topic} lets checkpoints expire ({found}): a table that does not change is"
            " written there once, and must be found at every later start. Fix: set its"
            f" cleanup.policy: kafka-configs --alter --entity-type topics --entity-name {topic}"
            " --add-config cleanup.policy=compact"
        )


class CheckpointLost(CheckpointError):
    """There is no checkpoint, though progress records say that the database was published.

    Attributes:
        progress_offset: offset of the newest progress record of this server and database.
        closed_lsn: its closed LSN: everything up to there is out.
    """

    def __init__(self, topics: TopicNames, database: str, offset: int, closed_lsn: Lsn) -> None:
        self.progress_offset = offset
        self.closed_lsn = closed_lsn
        super().__init__(
            f"topic {topics.offsets} holds no checkpoint of database {database}, but topic"
            f" {topics.progress} says that it was published up to {closed_lsn} (offset {offset}):"
            " the checkpoint was lost, by a disk, by deleting the topic or by its cleanup.policy."
            " Going on would leave a gap without a word. Bring the topic back, or accept the loss:"
            " tailrace accept-checkpoint-loss, which takes new snapshots of all tables"
        )


class ShardsDiffer(CheckpointError):
    """The topics are divided into shards in another way than the configuration says."""


class ReshardRefused(CheckpointError):
    """What is published cannot be divided anew, or not now; says what to do first."""


class PublisherReplaced(CheckpointError):
    """Another publisher with the same transactional id has taken over: this one must end."""
