"""The newest events of one topic, or the first ones from a time on, without reading all of it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tailrace.reading.record_decoder import RecordDecoder
from tailrace.reading.topics import Event, arrived, consumer_of, event_of, in_commit_order
from tailrace_service.registry.client import SchemaRegistry

_LIMIT_S: Final = 10.0
_WAIT_S: Final = 0.1


def newest_events(
    bootstrap: str,
    registry: SchemaRegistry,
    topic: str,
    count: int,
    *,
    since_ms: int | None = None,
    extra: Mapping[str, str] | None = None,
) -> list[Event]:
    """Events of a topic without tombstones, newest first by position.

    Args:
        count: how many at most. Fewer come if the last records of a partition are tombstones.
        since_ms: a time of publishing, milliseconds UTC: the first events from there on.

    Raises:
        KafkaException: the brokers do not answer or refuse.
        TimeoutError: a partition could not be read in time.
    """
    consumer = consumer_of(bootstrap, extra)
    try:
        starts = _starts(consumer, topic, count, since_ms)
        decoder = RecordDecoder(registry)
        found = in_commit_order(_read(consumer, decoder, starts, count))
    finally:
        consumer.close()
    events = [event for event in found if event.envelope is not None]
    chosen = events[-count:] if since_ms is None else events[:count]
    return chosen[::-1]


def _starts(
    consumer: Consumer, topic: str, count: int, since_ms: int | None
) -> list[tuple[TopicPartition, int]]:
    """Where to start in each partition that has records to read, and its end."""
    listed = consumer.list_topics(topic, timeout=_LIMIT_S).topics[topic]
    found = []
    for number in sorted(listed.partitions):
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=_LIMIT_S)
        # A transaction of one event takes two offsets: its record and its marker.
        first = max(low, high - 2 * count)
        if since_ms is not None:
            asked = [TopicPartition(topic, number, since_ms)]
            (at,) = consumer.offsets_for_times(asked, timeout=_LIMIT_S)
            first = at.offset if at.offset >= 0 else high
        if first < high:
            found.append((TopicPartition(topic, number, first), high))
    return found


def _read(
    consumer: Consumer,
    decoder: RecordDecoder,
    starts: Sequence[tuple[TopicPartition, int]],
    count: int,
) -> Iterator[Event]:
    """Up to twice as many records as are wanted of each partition, up to the ends."""
    deadline = time.monotonic() + _LIMIT_S
    left = {start.partition: 2 * count for start, _ in starts}
    ends = {start.partition: end for start, end in starts}
    consumer.assign([start for start, _ in starts])
    while left:
        if time.monotonic() > deadline:
            raise TimeoutError(f"no end of {starts[0][0].topic} within {_LIMIT_S:g} s")
        for message in arrived(consumer, _WAIT_S):
            number = int(message.partition() or 0)
            error = message.error()
            if error is not None and error.name() != "_PARTITION_EOF":
                raise KafkaException(error)
            if error is None and number in left:
                left[number] -= 1
                yield event_of(decoder, message)
            is_over = error is not None or int(message.offset() or 0) >= ends[number] - 1
            if is_over or left.get(number) == 0:
                left.pop(number, None)
