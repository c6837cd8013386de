"""Where partitions end, including open transactions.

A read_committed consumer sees another end: the last stable offset, before the first open
transaction. A reader that must not miss what is being committed queries this end first.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

from tailrace_publisher.options.broker_waits import MARGIN_S
from tailrace_publisher.ports import KafkaAccess

_SHORTEST_S: Final = 0.02  # a request at the deadline still gets an answer, if there is one
_PAUSE_S: Final = 0.1
_PASSING: Final = frozenset(
    {
        # A broker's answers for some moments after it started again or created a topic.
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
    }
)


def high_watermarks(
    kafka: KafkaAccess, partitions: Iterable[TopicPartition], deadline: float
) -> dict[tuple[str, int], int]:
    """Return the high watermark of each partition, by (topic, partition).

    Args:
        partitions: topics and numbers; their offsets are not used.
        deadline: monotonic time until which passing errors are retried.

    Raises:
        KafkaException: what the brokers answered.
        TimeoutError: none did in time.
    """
    newest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    wanted = {TopicPartition(p.topic, p.partition): newest for p in partitions}
    # Bound to a name, because its futures never end once it is garbage collected.
    admin = kafka.admin()
    ends: dict[tuple[str, int], int] = {}
    while wanted:
        left_s = max(deadline - kafka.clock.monotonic(), _SHORTEST_S)
        futures = admin.list_offsets(
            wanted, isolation_level=IsolationLevel.READ_UNCOMMITTED, request_timeout=left_s
        )
        for where, future in futures.items():
            try:
                ends[where.topic, where.partition] = int(future.result(left_s + MARGIN_S).offset)
            except KafkaException as error:
                if error.args[0].code() not in _PASSING or kafka.clock.monotonic() > deadline:
                    raise
        wanted = {p: newest for p in wanted if (p.topic, p.partition) not in ends}
        if wanted:
            kafka.clock.wait(_PAUSE_S)
    return ends
