"""What is fetched from Kafka, and how much of it waits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from tailrace.reading import progress
from tailrace.reading.progress import decode
from tailrace.reading.topics import arrived
from tailrace.subscribe.brokers import Brokers
from tailrace.subscribe.commit_order import CommitOrder
from tailrace.subscribe.errors import (
    DividedIntoShards,
    EventsRemoved,
    LsnNotRetained,
    NotAnEvent,
    SubscribeError,
)
from tailrace.subscribe.groups import Where
from tailrace.subscribe.start import ProgressLog, Record
from tailrace_schemas.records.progress import Progress

TIMEOUT_S: Final = 10.0
_GROUPS_MAX: Final = 256
_RECORD_BYTES: Final = 100
"""Of a record beyond its value, about."""
_PASSING: Final = frozenset({"_ALL_BROKERS_DOWN", "_TRANSPORT", "_RESOLVE", "_TIMED_OUT"})
"""Errors after which librdkafka continues automatically."""


class Fetcher:
    """Reads the progress topic, and of the data topics what the commit order needs.

    Args:
        order: its ``verify`` says whether what retention removed is an error.
        memory_bytes: of records that wait; a partition with more than its share is paused. One
            record of each partition may exceed it.
        on_progress: takes offset and record.
    """

    def __init__(
        self,
        brokers: Brokers,
        consumer: Consumer,
        order: CommitOrder[Any],
        memory_bytes: int,
        on_progress: Callable[[int, Progress], None],
    ) -> None:
        self._brokers = brokers
        self._progress = brokers.names.progress
        self._consumer = consumer
        self._order = order
        self._memory_bytes = memory_bytes
        self._on_progress = on_progress
        self._has_seen_end = False
        self._data: set[Where] = set()
        self._paused: set[Where] = set()

    @property
    def has_seen_end(self) -> bool:
        """Whether the progress topic was read to its end once."""
        return self._has_seen_end

    def begin(self, offset: int) -> None:
        """Read the progress records from an offset on."""
        self._consumer.incremental_assign([TopicPartition(self._progress, 0, offset)])

    def pump(self, wait_s: float) -> None:
        """Fetch what is to be fetched and pass on what came, within a time.

        Raises:
            EventsRemoved, LsnNotRetained: retention has removed what comes next.
            BrokersRefused: authorization, or a topic that is gone.
        """
        for where, offset in self._order.to_fetch().items():
            self._fetch(where, offset)
            self._order.fetching(where)
        problem: SubscribeError | None = None
        for message in arrived(self._consumer, wait_s, 500):
            error = message.error()
            try:
                if error is None:
                    self._pass_on(message)
                else:
                    self._failed(message, error)
            except SubscribeError as failure:  # those after it came, too, and come only once
                problem = problem or failure
        self._keep_bounds()
        if problem is not None:
            raise problem

    def close(self) -> None:
        """Leave the brokers."""
        self._consumer.close()

    def _fetch(self, where: Where, offset: int) -> None:
        partition = TopicPartition(*where, offset)
        low, _ = watermarks(self._brokers, self._consumer, partition)
        if low > offset and not self._order.verify:
            self._order.reached_end(where, low)
            partition.offset = low
        elif low > offset:
            raise LsnNotRetained(
                f"topic {where[0]} partition {where[1]} begins at offset {low}, offset {offset} is"
                " the next in commit order: retention removed the events between. Fix: begin with"
                " a later Start, or with Start.from_snapshot() after tailrace snapshot; raise"
                " retention.ms of the topic"
            )
        if where in self._data:
            self._consumer.seek(partition)
        else:
            self._consumer.incremental_assign([partition])
            self._data.add(where)

    def _pass_on(self, message: Message) -> None:
        topic, partition = str(message.topic()), int(message.partition() or 0)
        offset, value = int(message.offset() or 0), message.value()
        if topic != self._progress:
            size = _RECORD_BYTES + len(value or b"")
            self._order.push((topic, partition), offset, value, size)
            return
        self._on_progress(offset, progress_of(topic, partition, offset, value))

    def _failed(self, message: Message, error: KafkaError) -> None:
        name = error.name()
        topic, partition = message.topic(), int(message.partition() or 0)
        if name == "_PARTITION_EOF":
            if topic == self._progress:
                self._has_seen_end = True
            else:
                self._order.reached_end((str(topic), partition), int(message.offset() or 0))
        elif name in {"_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE"} and topic is not None:
            self._out_of_range((topic, partition))
        elif name not in _PASSING and not error.retriable():
            raise self._brokers.failure(KafkaException(error))

    def _out_of_range(self, where: Where) -> None:
        low, high = watermarks(self._brokers, self._consumer, TopicPartition(*where))
        at = self._order.next_of(where) if where in self._data else -1
        if at < low and not self._order.verify:
            self._order.reached_end(where, low)
            at = low
        elif not low <= at <= high:
            raise EventsRemoved(
                f"topic {where[0]} partition {where[1]} holds offsets {low} to {high - 1}, and not"
                " the next one: retention removed it, or the topic was deleted and created again."
                " Fix: begin with Start.from_snapshot(); raise retention.ms of the topic"
            )
        self._consumer.seek(TopicPartition(*where, at))

    def _keep_bounds(self) -> None:
        """Pause partitions of which much waits, and resume those of which little does."""
        share = max(self._memory_bytes // max(len(self._data), 1), 1)
        waiting = {where: self._order.waiting_bytes(where) / share for where in self._data}
        waiting[self._progress, 0] = self._order.waiting_groups / _GROUPS_MAX
        full = {where for where, part in waiting.items() if part >= 1} - self._paused
        freed = {where for where in self._paused if waiting[where] < 1 / 2}
        if full:
            self._consumer.pause([TopicPartition(*where) for where in sorted(full)])
        if freed:
            self._consumer.resume([TopicPartition(*where) for where in sorted(freed)])
        self._paused = (self._paused | full) - freed


def progress_of(topic: str, partition: int, offset: int, value: bytes | None) -> Progress:
    """The progress record of a message.

    Raises:
        NotAnEvent: it has another form.
        DividedIntoShards: it is of one of several shards.
    """
    try:
        return decode(value or b"")
    except progress.DividedIntoShards as error:
        raise DividedIntoShards(error.what) from error
    except ValueError as error:
        raise NotAnEvent(
            f"topic {topic} partition {partition} offset {offset}: {error}. Fix: update"
            " tailrace[client] to the publisher's release; revoke Write from other producers"
        ) from error


def watermarks(brokers: Brokers, consumer: Consumer, partition: TopicPartition) -> tuple[int, int]:
    """The first offset of a partition, and the offset after its last record.

    Raises:
        BrokersUnavailable, BrokersRefused: the brokers do not answer, or refuse.
    """
    try:
        low, high = consumer.get_watermark_offsets(partition, timeout=TIMEOUT_S)
    except KafkaException as error:
        raise brokers.failure(error) from error
    return low, high


def progress_log(brokers: Brokers, consumer: Consumer) -> ProgressLog:
    """The progress topic, for finding a place in it.

    Raises:
        BrokersUnavailable, BrokersRefused: the brokers do not answer, or refuse.
    """
    topic = brokers.names.progress
    low, high = watermarks(brokers, consumer, TopicPartition(topic, 0))

    def read(offset: int) -> Iterator[Record]:
        consumer.assign([TopicPartition(topic, 0, max(offset, low))])
        while (message := consumer.poll(TIMEOUT_S)) is not None:
            error = message.error()
            if error is None:
                at = int(message.offset() or 0)
                yield at, progress_of(topic, 0, at, message.value())
            elif error.name() == "_PARTITION_EOF":
                return
            elif error.name() not in _PASSING and not error.retriable():
                raise brokers.failure(KafkaException(error))
        raise brokers.failure(KafkaException(KafkaError(KafkaError._TIMED_OUT)))  # noqa: SLF001

    return ProgressLog(low, high, read)
