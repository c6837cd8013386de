"""Every committed record of topics, to their ends at call time."""

from __future__ import annotations

import time
from collections.abc import Iterator

from confluent_kafka import OFFSET_BEGINNING, KafkaException, Message, TopicPartition

from tailrace.reading.record_decoder import RecordDecoder
from tailrace.reading.topics import Event, arrived, consumer_of, event_of
from tailrace_publisher.checkpoint import high_watermarks
from tailrace_publisher.daemon.adapters.production import kafka_at
from tailrace_service.registry.client import SchemaRegistry


def read_all(
    bootstrap_servers: str,
    registry: SchemaRegistry,
    topics: dict[str, int],
    *,
    timeout_s: float = 60,
) -> Iterator[Event]:
    """Every committed record of the topics from the beginning to their ends at call time.

    Args:
        topics: names and partition counts.
        timeout_s: the longest wait without any record.

    Raises:
        TimeoutError: the end of a partition was not reached in time.
    """
    decoder = RecordDecoder(registry)
    for message in committed_messages(bootstrap_servers, topics, timeout_s=timeout_s):
        yield event_of(decoder, message)


def committed_messages(
    bootstrap_servers: str,
    topics: dict[str, int],
    *,
    timeout_s: float = 60,
    marker_wait_s: float = 10,
) -> Iterator[Message]:
    """The messages of the topics, committed ones only, to their ends at call time.

    The end is the high watermark. A commit returns once it is in the coordinator's log. The
    markers reach the partitions a moment later; until then a read_committed consumer sees the
    partition end before the transaction. So this reader waits for the markers. It leaves out only
    what is still undecided after ``marker_wait_s``: an open transaction.

    Args:
        topics: names and partition counts.
        timeout_s: the longest wait without any message.
        marker_wait_s: the longest wait at a transaction without end.

    Raises:
        TimeoutError: the end of a partition was not reached in time.
        KafkaException: what the brokers answered.
    """
    partitions = [
        TopicPartition(topic, partition, OFFSET_BEGINNING)
        for topic, count in topics.items()
        for partition in range(count)
    ]
    deadline = time.monotonic() + timeout_s
    ends = high_watermarks(kafka_at(bootstrap_servers), partitions, deadline)
    unread = {where: end for where, end in ends.items() if end > 0}
    undecided: set[tuple[str, int]] = set()
    consumer = consumer_of(bootstrap_servers)
    try:
        consumer.assign(partitions)
        last = time.monotonic()
        while unread:
            messages = arrived(consumer, 0.1)
            waited = time.monotonic() - last
            if waited > marker_wait_s and undecided >= set(unread):
                return
            if waited > timeout_s:
                raise TimeoutError(f"no end of {sorted(unread)} within {timeout_s} s")
            for message in messages:
                where = (str(message.topic()), int(message.partition() or 0))
                error = message.error()
                if error is None:
                    last = time.monotonic()
                    undecided.discard(where)
                    yield message
                elif error.name() != "_PARTITION_EOF":
                    raise KafkaException(error)
                elif int(message.offset() or 0) >= unread.get(where, 0):
                    unread.pop(where, None)
                else:
                    undecided.add(where)
    finally:
        consumer.close()
