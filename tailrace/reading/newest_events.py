"""Events of one topic, newest first or from a time on, without reading all of it.

The search goes in windows of offsets, away from the end of the topic or on from the time. It stops
at enough events, at a bound of records, or when its time is over, and says how far it got.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tailrace.reading.record_decoder import RecordDecoder
from tailrace.reading.topics import Event, arrived, consumer_of, event_of, in_commit_order
from tailrace_service.registry.client import SchemaRegistry

_LIMIT_S: Final = 10.0
_WAIT_S: Final = 0.1
_OFFSETS_MAX: Final = 40_000
"""Offsets of all partitions after which a search reads no further window."""

Key = Mapping[str, Any]
_Ranges = Mapping[int, tuple[int, int]]


@dataclass(slots=True)
class Found:
    """The events, and what was searched for them.

    Attributes:
        events: without tombstones, newest first by position.
        records: how many were read.
        from_ms, to_ms: publishing times of the oldest and the newest of those, milliseconds UTC;
            None if none was read.
        is_whole: whether nothing was left in the direction of the search.
    """

    events: list[Event] = field(default_factory=list)
    records: int = 0
    from_ms: int | None = None
    to_ms: int | None = None
    is_whole: bool = False

    def saw(self, at_ms: int) -> None:
        """Count a record."""
        self.records += 1
        self.from_ms = min(self.from_ms or at_ms, at_ms)
        self.to_ms = max(self.to_ms or at_ms, at_ms)


def newest_events(
    bootstrap: str,
    registry: SchemaRegistry,
    topic: str,
    count: int,
    *,
    since_ms: int | None = None,
    is_wanted: Callable[[Key | None], bool] = lambda _: True,
    extra: Mapping[str, str] | None = None,
) -> Found:
    """Search a topic.

    Args:
        count: how many events at most.
        since_ms: a time of publishing, milliseconds UTC: the first events from there on.
        is_wanted: whether an event of this key counts.

    Raises:
        KafkaException: the brokers do not answer or refuse.
        TimeoutError: not even the first window could be read in time.
    """
    deadline = time.monotonic() + _LIMIT_S
    decoder = RecordDecoder(registry)
    found, offsets = Found(), 0
    events: list[Event] = []
    consumer = consumer_of(bootstrap, extra)
    try:
        bounds = _bounds(consumer, topic, since_ms)
        for window in _windows(bounds, count, forward=since_ms is not None):
            read = _read(consumer, topic, window, deadline)
            if read is None:
                if not found.records:
                    raise TimeoutError(f"no end of {topic} within {_LIMIT_S:g} s")
                break
            for message in read:
                found.saw(message.timestamp()[1])
                key = message.key()
                is_event = message.value() is not None
                if is_event and is_wanted(None if key is None else decoder.decode(key)[1]):
                    events.append(event_of(decoder, message))
            offsets += _length(window)
            if len(events) >= count:
                break
        found.is_whole = offsets == _length(bounds)
    finally:
        consumer.close()
    events.sort(key=lambda event: (event.partition, event.offset))
    ordered = in_commit_order(events)
    chosen = ordered[-count:] if since_ms is None else ordered[:count]
    found.events = chosen[::-1]
    return found


def _bounds(consumer: Consumer, topic: str, since_ms: int | None) -> _Ranges:
    """The offsets of each partition that a search may look at."""
    listed = consumer.list_topics(topic, timeout=_LIMIT_S).topics[topic]
    found = {}
    for number in sorted(listed.partitions):
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=_LIMIT_S)
        if since_ms is not None:
            asked = [TopicPartition(topic, number, since_ms)]
            (at,) = consumer.offsets_for_times(asked, timeout=_LIMIT_S)
            low = at.offset if at.offset >= 0 else high
        if low < high:
            found[number] = low, high
    return found


def _windows(bounds: _Ranges, count: int, *, forward: bool) -> Iterator[_Ranges]:
    """Ranges side by side, each twice as long as the one before, until all or enough is read."""
    left = dict(bounds)
    # A transaction of one event takes two offsets: its record and its marker.
    size, looked_at = 2 * count, 0
    while left and looked_at < _OFFSETS_MAX:
        window = {}
        for number, (low, high) in list(left.items()):
            cut = min(low + size, high) if forward else max(low, high - size)
            window[number] = (low, cut) if forward else (cut, high)
            left[number] = (cut, high) if forward else (low, cut)
            if cut == (high if forward else low):
                del left[number]
        looked_at += _length(window)
        size *= 2
        yield window


def _length(ranges: _Ranges) -> int:
    return sum(high - low for low, high in ranges.values())


def _read(consumer: Consumer, topic: str, window: _Ranges, deadline: float) -> list[Any] | None:
    """The records of a window; None if the time is over before its end."""
    unread = {number: end for number, (_, end) in window.items()}
    consumer.assign([TopicPartition(topic, number, at) for number, (at, _) in window.items()])
    found = []
    while unread:
        if time.monotonic() > deadline:
            return None
        for message in arrived(consumer, _WAIT_S):
            number, offset = int(message.partition() or 0), int(message.offset() or 0)
            error = message.error()
            if error is not None and error.name() != "_PARTITION_EOF":
                raise KafkaException(error)
            end = unread.get(number)
            if error is None and end is not None and offset < end:
                found.append(message)
            # The record after a marker, and the end, also show that a window was read.
            if end is not None and (error is not None or offset >= end - 1):
                del unread[number]
    return found
