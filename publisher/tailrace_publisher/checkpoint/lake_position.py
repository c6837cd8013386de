"""How far a lake's log is, by the offsets that its sink commits to a consumer group.

The sink commits them for the progress topic, after the commits of its log (sink option
``kafka.consumer_group``; ADR 0087). The newest progress record before such an offset names the
closed LSN up to which the lake has everything.

https://kafka.apache.org/documentation/#design_consumerposition
"""

from __future__ import annotations

from typing import Final

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition

from tailrace_publisher.checkpoint.partition import end_of
from tailrace_publisher.checkpoint.published import Published, newest_published
from tailrace_publisher.errors import CheckpointUnavailable, LakeUnknown
from tailrace_publisher.options.broker_waits import MARGIN_S
from tailrace_publisher.runtime import DatabaseTopics

_FEW: Final = 20
"""Progress records that are read at once: the newest one is enough."""
_REFUSED: Final = frozenset(
    {KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED}
)


def lake_position(topics: DatabaseTopics, group: str, patience_s: float) -> Published:
    """Return the newest progress record that a lake has.

    Args:
        group: under which the lake's sink commits.
        patience_s: seconds without an answer or a further record until it gives up.

    Raises:
        LakeUnknown: the group shows no position in the progress topic.
        CheckpointUnavailable: the brokers did not answer in time.
        CheckpointError: a record is not one of ours.
        RegistryError: a record's schema is not available.
    """
    progress = topics.names.progress
    offset = _committed(topics, group, patience_s)
    if offset is None:
        raise LakeUnknown(group, f"it has no committed offset of topic {progress}")
    end = end_of(topics.kafka, progress, patience_s)
    if offset > end:
        raise LakeUnknown(group, f"its offset {offset} is after the end of {progress} ({end})")
    published = newest_published(topics, patience_s, before=offset, block=_FEW)
    if published is None:
        raise LakeUnknown(group, f"topic {progress} has no record before its offset {offset}")
    return published


def _committed(topics: DatabaseTopics, group: str, patience_s: float) -> int | None:
    """Return the offset that a group has committed in the progress topic; None if it has none."""
    where = TopicPartition(topics.names.progress, 0)
    # Bound to a name, because its futures never end once it is garbage collected.
    admin = topics.kafka.admin()
    try:
        asked = admin.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group, [where])], request_timeout=patience_s
        )
        (found,) = asked[group].result(patience_s + MARGIN_S).topic_partitions
    except TimeoutError as error:
        raise CheckpointUnavailable(f"offsets of consumer group {group}: {error}") from error
    except KafkaException as error:
        raise _failure(group, error.args[0]) from error
    if found.error is not None:
        raise _failure(group, found.error)
    return None if found.offset < 0 else int(found.offset)


def _failure(group: str, error: KafkaError) -> LakeUnknown | CheckpointUnavailable:
    if error.code() in _REFUSED:
        return LakeUnknown(group, f"the brokers refuse to show it ({error.str()})")
    return CheckpointUnavailable(f"offsets of consumer group {group}: {error.str()}")
