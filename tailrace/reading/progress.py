"""Follow the progress topic: what is published, up to which LSN, since when."""

from __future__ import annotations

import io
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self, cast

import fastavro
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from tailrace.reading.topics import arrived, consumer_of
from tailrace_schemas.events.framing import split_frame
from tailrace_schemas.records.progress import (
    ONE_SHARD_SCHEMA,
    PROGRESS_SCHEMA,
    SCHEMA_OF_0_1,
    SHARDS_SCHEMA,
    Progress,
)
from tailrace_schemas.topics.topic_names import TopicNames

_WAIT_S = 0.1
_NO_TOPIC_S = 0.5
_SCHEMAS = (ONE_SHARD_SCHEMA, SHARDS_SCHEMA, PROGRESS_SCHEMA, SCHEMA_OF_0_1)
_FORMS = [fastavro.parse_schema(s) for s in _SCHEMAS]


class DividedIntoShards(Exception):
    """An earlier release divided the database into shards; this one reads one stream."""

    def __init__(self, what: str) -> None:
        self.what = what
        super().__init__(
            f"{what} is of a database that is divided into shards, as earlier releases could: this"
            " release reads one stream of a database. Fix: stop its publishers, and publish the"
            " database under another publisher.prefix, with new snapshots; or continue"
            " with release 0.2"
        )

    @classmethod
    def of_topic(cls, topic: str, partitions: int) -> Self:
        """The error of a progress topic with a partition of each shard."""
        return cls(f"topic {topic}, which has {partitions} partitions,")


def decode(framed: bytes) -> Progress:
    """Decode a progress record from the bytes of its message, without the registry.

    Raises:
        ValueError: it is no progress record.
        DividedIntoShards: it is of one of several shards.
    """
    _, payload = split_frame(framed)
    for form in _FORMS:  # the one that ends where the record ends
        read = io.BytesIO(payload)
        try:
            record = fastavro.schemaless_reader(read, form, None)
        except (EOFError, IndexError, ValueError):
            continue
        if read.tell() == len(payload):
            found = Progress.from_record(cast("dict[str, Any]", record))
            if found.shard or found.shards > 1:
                raise DividedIntoShards(f"the progress record that closes LSN {found.closed_lsn}")
            return found
    raise ValueError("a record of the progress topic has no known form")


def last_record(
    bootstrap_servers: str,
    names: TopicNames,
    *,
    extra: Mapping[str, str] | None = None,
    timeout_s: float = 10,
) -> Progress | None:
    """The newest progress record, or None while there is none.

    A transaction's marker takes an offset too, so the search steps back until a record is found.

    Raises:
        KafkaException: no broker answers, or it refuses.
    """
    consumer = consumer_of(bootstrap_servers, extra)
    try:
        start = progress_start(consumer, names, timeout_s)
        message = None if start is None else newest_message(consumer, start, timeout_s)
    finally:
        consumer.close()
    return None if message is None else decode(cast("bytes", message.value()))


def newest_message(
    consumer: Consumer, partition: TopicPartition, timeout_s: float
) -> Message | None:
    """The newest record of a partition, None while there is none.

    A transaction's marker takes an offset too, so the search steps back until a record is found.

    Raises:
        KafkaException: no broker answers, or it refuses.
    """
    low, high = consumer.get_watermark_offsets(partition, timeout=timeout_s)
    step = 8
    while high > low:
        start = max(low, high - step)
        at = TopicPartition(partition.topic, partition.partition, start)
        found = list(_messages(consumer, at, timeout_s))
        if found:
            return found[-1]
        if start == low:
            return None
        step *= 4
    return None


def records_until_now(
    bootstrap_servers: str,
    names: TopicNames,
    *,
    extra: Mapping[str, str] | None = None,
    timeout_s: float = 10,
) -> Iterator[Progress]:
    """The progress records that there are, in the order in which they were committed.

    Raises:
        KafkaException: no broker answers, or it refuses.
    """
    consumer = consumer_of(bootstrap_servers, extra)
    try:
        start = progress_start(consumer, names, timeout_s)
        if start is not None:
            yield from _read(consumer, start, timeout_s)
    finally:
        consumer.close()


def records_from_now(
    bootstrap_servers: str,
    names: TopicNames,
    stopped: Callable[[], bool],
    *,
    extra: Mapping[str, str] | None = None,
    timeout_s: float = 10,
) -> Iterator[Progress]:
    """Yield the progress records that exist, then new ones, until a stop.

    Waits for the topic if there is none yet.

    Raises:
        KafkaException: no broker answers, or it refuses.
    """
    consumer = consumer_of(bootstrap_servers, extra)
    try:
        while (start := progress_start(consumer, names, timeout_s)) is None:
            if stopped():
                return
            consumer.poll(_NO_TOPIC_S)
        yield from _read(consumer, start, timeout_s)
        while not stopped():
            for message in arrived(consumer, _WAIT_S):
                error = message.error()
                if error is None:
                    yield decode(cast("bytes", message.value()))
                elif error.name() != "_PARTITION_EOF":
                    raise KafkaException(error)
    finally:
        consumer.close()


def has_lost_records(consumer: Consumer, names: TopicNames, timeout_s: float = 10) -> bool:
    """Whether retention has removed progress records: events before the first one have none.

    Raises:
        KafkaException: no broker answers, or it refuses.
    """
    start = progress_start(consumer, names, timeout_s)
    return start is not None and start.offset > 0


def progress_start(
    consumer: Consumer, names: TopicNames, timeout_s: float
) -> TopicPartition | None:
    """The beginning of the progress topic; None if there is no topic.

    Raises:
        KafkaException: no broker answers, or it refuses.
        DividedIntoShards: it has a partition of each shard.
    """
    topic = consumer.list_topics(names.progress, timeout=timeout_s).topics[names.progress]
    if not topic.partitions:
        return None
    if len(topic.partitions) > 1:
        raise DividedIntoShards.of_topic(names.progress, len(topic.partitions))
    low, _ = consumer.get_watermark_offsets(TopicPartition(names.progress, 0), timeout=timeout_s)
    return TopicPartition(names.progress, 0, low)


def _read(consumer: Consumer, start: TopicPartition, timeout_s: float) -> Iterator[Progress]:
    for message in _messages(consumer, start, timeout_s):
        yield decode(cast("bytes", message.value()))


def _messages(consumer: Consumer, start: TopicPartition, timeout_s: float) -> Iterator[Message]:
    """The records of a partition from an offset to its end."""
    consumer.assign([start])
    # One by one: for several at once the client waits until the time is over, or there are as many.
    while (message := consumer.poll(timeout_s)) is not None:
        error = message.error()
        if error is None:
            yield message
        elif error.name() == "_PARTITION_EOF":
            return
        else:
            raise KafkaException(error)


@dataclass(slots=True)
class Published:
    """What the progress topic has shown so far."""

    closed_lsn: str = ""
    closed_commit_ms: int | None = None
    published_ms: int | None = None
    transactions: int = 0
    events: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    snapshotting: tuple[str, ...] = ()
    records: list[Progress] = field(default_factory=list)

    @property
    def events_total(self) -> int:
        """Events of all topics."""
        return sum(self.events.values())

    def add(self, record: Progress) -> None:
        """Add one record."""
        self.closed_lsn = record.closed_lsn
        self.closed_commit_ms = record.closed_commit_ms
        self.published_ms = record.published_ms
        self.transactions += 1
        self.snapshotting = tuple(record.snapshotting)
        for partition in record.partitions:
            self.events[partition.topic] += partition.count
        self.records.append(record)


class ProgressFollower:
    """Reads the progress topic in a thread of its own until closed."""

    def __init__(self, bootstrap_servers: str, names: TopicNames) -> None:
        self.published = Published()
        self.error: Exception | None = None
        self._bootstrap_servers = bootstrap_servers
        self._names = names
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)

    def start(self) -> None:
        """Begin at the topic's beginning."""
        self._thread.start()

    def close(self) -> None:
        """End the thread."""
        self._stop.set()
        self._thread.join(10)

    def _run(self) -> None:
        consumer = consumer_of(self._bootstrap_servers)
        try:
            while not self._stop.is_set() and not self._exists(consumer):
                self._stop.wait(0.2)
            consumer.assign([TopicPartition(self._names.progress, 0, 0)])
            while not self._stop.is_set():
                for message in arrived(consumer, 0.1):
                    if message.error() is None:
                        self.published.add(decode(cast("bytes", message.value())))
        except Exception as error:  # noqa: BLE001 - handed to the thread that shows it
            self.error = error
        finally:
            consumer.close()

    def _exists(self, consumer: Consumer) -> bool:
        topic = consumer.list_topics(timeout=10).topics.get(self._names.progress)
        return topic is not None and bool(topic.partitions)
