"""Errors of the checkpoint, and of how publishers share it."""

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
        settings: those that let records expire.
    """

    def __init__(self, topic: str, settings: Mapping[str, str]) -> None:
        self.topic = topic
        self.settings = dict(settings)
        found = ", ".join(f"{name}={value}" for name, value in settings.items())
        super().__init__(
            f"topic {topic} lets checkpoints expire ({found}): the publisher writes a table without"
            " changes there once, and reads it at every later start. Fix: set its cleanup.policy:"
            f" kafka-configs --alter --entity-type topics --entity-name {topic}"
            " --add-config cleanup.policy=compact"
        )


class CheckpointLost(CheckpointError):
    """The checkpoint, or its end, is gone: progress records prove that more was published.

    Attributes:
        progress_offset: offset of the newest progress record of this server and database.
        closed_lsn: its closed LSN, up to which everything is published.
    """

    def __init__(
        self,
        topics: TopicNames,
        database: str,
        offset: int,
        closed_lsn: Lsn,
        found: Lsn | None = None,
    ) -> None:
        self.progress_offset = offset
        self.closed_lsn = closed_lsn
        up_to = f"topic {topics.progress} shows that it was published up to {closed_lsn}"
        ways_out = (
            "Fix: restore the topic, or accept the loss with tailrace accept-checkpoint-loss, which"
            " takes new snapshots of all tables"
        )
        if found is None:
            super().__init__(
                f"topic {topics.offsets} holds no checkpoint of database {database}, but {up_to}"
                f" (offset {offset}). A lost disk, a deleted topic or its cleanup.policy lost the"
                f" checkpoint, and to continue would leave a silent gap. {ways_out}"
            )
            return
        super().__init__(
            f"topic {topics.offsets} holds the checkpoint of database {database} up to {found}, but"
            f" {up_to} (offset {offset}). An unclean election of a leader or a restored disk lost"
            " the end of the topic, and to continue would publish changes a second time."
            f" {ways_out}"
        )


class LakeUnknown(CheckpointError):
    """Nobody knows how far a lake of the option lakes is.

    The publisher continues. Until the lake is known, what waits for it waits: cleanup.wait_for and
    tables.drop_after.

    Attributes:
        group: the consumer group that the option names.
    """

    def __init__(self, group: str, reason: str) -> None:
        self.group = group
        super().__init__(
            f"option lakes: how far the lake with consumer group {group} is, is not known:"
            f" {reason}. Fix: set kafka.consumer_group: {group} of its sink, and allow"
            " Describe on the group to the publisher; or remove the group from lakes"
        )


class DividedIntoShards(CheckpointError):
    """An earlier release divided the database among shards, which this release does not publish.

    Attributes:
        partitions: number of partitions of each topic that has not exactly one.
    """

    def __init__(self, prefix: str, partitions: Mapping[str, int]) -> None:
        self.partitions = dict(partitions)
        found = ", ".join(f"{topic} has {count}" for topic, count in sorted(partitions.items()))
        super().__init__(
            f"prefix {prefix} is divided into shards: {found} partitions, and this release reads"
            " and writes one. Kafka cannot remove partitions, so the shards cannot become one."
            " Fix: stop its publishers, and publish the database under another publisher.prefix,"
            " with new snapshots and a new lake; or continue with release 0.2"
        )


class PublisherReplaced(CheckpointError):
    """Another publisher with the same transactional id has taken over: this one must end."""
