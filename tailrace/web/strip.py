"""The ledger of the last hours: progress records and cuts, in buckets of time."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, cast

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from tailrace.reading.progress import decode
from tailrace.reading.topics import consumer_of
from tailrace_schemas.records.progress import PUBLISHER_HEADER, Progress
from tailrace_schemas.records.signals import PauseSignal, read_signal
from tailrace_schemas.topics.topic_names import TopicNames

BUCKET_MS: Final = 300_000
BUCKETS: Final = 72
_AT_ONCE: Final = 1000
_POLL_S: Final = 0.1


@dataclass(slots=True)
class Bucket:
    """Five minutes.

    Attributes:
        records: progress records; none of them means that no publisher ran.
        rows: events in their transactions.
        moved: whether the closed LSN moved.
        broken: what is wrong with the chain of the records: a gap, or an overlap.
        cuts: commit rows of the lake.
        lag_ms: the longest time from a commit until its changes were published; None: nothing was.
        lake_lag_ms: the same until they were in the lake's tables.
        marks: what happened: a restart, a pause, a snapshot that began, a new schema.
    """

    records: int = 0
    rows: int = 0
    moved: bool = False
    broken: list[str] = field(default_factory=list)
    cuts: int = 0
    lag_ms: int | None = None
    lake_lag_ms: int | None = None
    marks: list[str] = field(default_factory=list)


class Ledger:
    """Adds up progress records, and keeps the last hours.

    Pure: the time is given.
    """

    def __init__(self) -> None:
        self._buckets: dict[int, Bucket] = {}
        self._rows: dict[int, Counter[str]] = {}
        self._reached: str | None = None
        self._publisher = ""
        self._unread: set[str] | None = None
        self._schemas: dict[str, set[int]] = {}

    def add(self, record: Progress, publisher: str = "") -> None:
        """Add the next record.

        Args:
            publisher: host and process that wrote it; empty if the record does not say.
        """
        number = record.published_ms // BUCKET_MS
        bucket = self._buckets.setdefault(number, Bucket())
        bucket.records += 1
        known = self._reached
        if known is not None and record.after_lsn != known:
            what = "gap" if record.after_lsn > known else "overlap"
            bucket.broken.append(f"{what}: {known} was reached, and {record.after_lsn} is next")
        bucket.moved |= known is not None and record.closed_lsn > known
        self._reached = record.closed_lsn
        of_topics = self._rows.setdefault(number, Counter())
        for partition in record.partitions:
            bucket.rows += partition.count
            of_topics[partition.topic] += partition.count
        if record.partitions and record.closed and record.closed_commit_ms is not None:
            lag_ms = max(0, record.published_ms - record.closed_commit_ms)
            bucket.lag_ms = max(bucket.lag_ms or 0, lag_ms)
        bucket.marks += self._happened(record, publisher)

    def _happened(self, record: Progress, publisher: str) -> Iterator[str]:
        """What a record shows to have happened since the one before it."""
        if publisher and self._publisher not in ("", publisher):
            yield f"publisher restarted: {publisher}"
        self._publisher = publisher or self._publisher
        left_out = set(record.snapshotting)
        for topic in sorted(left_out - (left_out if self._unread is None else self._unread)):
            yield f"left the cut: {topic}"
        self._unread = left_out
        for partition in record.partitions:
            known = self._schemas.setdefault(partition.topic, set(partition.schema_ids))
            if not known.issuperset(partition.schema_ids):
                yield f"new schema: {partition.topic}"
            known.update(partition.schema_ids)

    def add_signal(self, value: bytes | None, at_ms: int) -> None:
        """Mark the request of a pause or of its end; other signals leave no mark.

        Args:
            at_ms: when it was sent. That the publisher has taken it is not known from here.
        """
        try:
            signal = read_signal(value)
        except ValueError:  # the publisher refuses it, too
            return
        if isinstance(signal, PauseSignal):
            bucket = self._buckets.setdefault(at_ms // BUCKET_MS, Bucket())
            bucket.marks.append(f"{'pause' if signal.is_paused else 'resume'} requested")

    def strip(
        self, now_ms: int, cuts: Iterable[tuple[int, int | None]] = ()
    ) -> list[tuple[int, Bucket]]:
        """The last hours, oldest first, each with its beginning in milliseconds UTC.

        Args:
            cuts: of the lake: when each was committed, and the commit time at the source of its
                LSN, milliseconds UTC; None if that is not known.
        """
        last = now_ms // BUCKET_MS
        first = last - BUCKETS + 1
        for old in [number for number in self._buckets if number < first]:
            del self._buckets[old]
            self._rows.pop(old, None)
        shown = {n: replace(self._buckets.get(n, Bucket())) for n in range(first, last + 1)}
        for at_ms, commit_ms in cuts:
            bucket = shown.get(at_ms // BUCKET_MS)
            if bucket is not None:
                bucket.cuts += 1
                if commit_ms is not None:
                    lag_ms = max(0, at_ms - commit_ms)
                    bucket.lake_lag_ms = max(bucket.lake_lag_ms or 0, lag_ms)
        return [(number * BUCKET_MS, bucket) for number, bucket in shown.items()]

    def rows_by_topic(self) -> Mapping[str, int]:
        """Events of the last hours by topic."""
        return sum(self._rows.values(), Counter())


class LedgerReader:
    """Follows the progress topic and the signals, from some hours ago.

    A login that may not read the signals gets no marks of pauses.

    Args:
        timeout_s: how long to wait for brokers.
    """

    def __init__(
        self, bootstrap: str, names: TopicNames, extra: Mapping[str, str], timeout_s: float
    ) -> None:
        self._bootstrap, self._extra = bootstrap, extra
        self._topic, self._signals = names.progress, names.signals
        self._timeout_s = timeout_s
        self._consumer: Consumer | None = None
        self._unread: set[tuple[str | None, int | None]] = set()
        self.ledger = Ledger()

    def read(self) -> None:
        """Read new records; the first time, everything up to the present end.

        Raises:
            KafkaException: no broker answers, or it refuses.
        """
        consumer = self._consumer or self._begin()
        if consumer is None:
            return
        self._consumer = consumer
        deadline = time.monotonic() + self._timeout_s
        while True:
            messages = consumer.consume(_AT_ONCE, _POLL_S)
            for message in messages:
                self._take(message)
            if not messages and (not self._unread or time.monotonic() > deadline):
                return

    def _take(self, message: Message) -> None:
        error, topic = message.error(), message.topic()
        if error is not None and error.name() == "_PARTITION_EOF":
            self._unread.discard((topic, message.partition()))
        elif topic == self._signals:
            if error is None:
                self.ledger.add_signal(message.value(), message.timestamp()[1])
            else:  # it may not be read: nothing more of it comes
                self._unread.discard((topic, message.partition()))
        elif error is None:
            headers = dict(message.headers() or ())
            publisher = cast("bytes", headers.get(PUBLISHER_HEADER) or b"").decode()
            self.ledger.add(decode(cast("bytes", message.value())), publisher)
        else:
            raise KafkaException(error)

    def _begin(self) -> Consumer | None:
        """A consumer at the beginning of the strip; None while there is no topic."""
        consumer = consumer_of(self._bootstrap, self._extra)
        try:
            wanted = self._wanted(consumer, self._topic)
            if not wanted:
                consumer.close()
                return None
            wanted += self._wanted(consumer, self._signals)
            self._unread = {(where.topic, where.partition) for where in wanted}
            consumer.assign(consumer.offsets_for_times(wanted, timeout=self._timeout_s))
        except KafkaException:
            consumer.close()
            raise
        return consumer

    def _wanted(self, consumer: Consumer, name: str) -> list[TopicPartition]:
        """The partitions of a topic, each with the time to begin at; none while it is not there."""
        topic = consumer.list_topics(name, timeout=self._timeout_s).topics[name]
        since_ms = time.time_ns() // 1_000_000 - BUCKETS * BUCKET_MS
        return [TopicPartition(name, number, since_ms) for number in sorted(topic.partitions)]

    def close(self) -> None:
        """End the connection."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None
