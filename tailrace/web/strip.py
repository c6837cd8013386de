"""The ledger of the last hours: progress records and cuts, in buckets of time."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, cast

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from tailrace.reading.progress import decode
from tailrace.reading.topics import consumer_of
from tailrace_schemas.records.progress import Progress
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
    """

    records: int = 0
    rows: int = 0
    moved: bool = False
    broken: list[str] = field(default_factory=list)
    cuts: int = 0


class Ledger:
    """Adds up progress records, and keeps the last hours.

    Pure: the time is given.
    """

    def __init__(self) -> None:
        self._buckets: dict[int, Bucket] = {}
        self._rows: dict[int, Counter[str]] = {}
        self._reached: dict[int, str] = {}

    def add(self, record: Progress) -> None:
        """Add a record, in the order of its shard."""
        number = record.published_ms // BUCKET_MS
        bucket = self._buckets.setdefault(number, Bucket())
        bucket.records += 1
        known = self._reached.get(record.shard)
        if known is not None and record.after_lsn != known:
            what = "gap" if record.after_lsn > known else "overlap"
            bucket.broken.append(f"{what}: {known} was reached, and {record.after_lsn} is next")
        bucket.moved |= known is not None and record.closed_lsn > known
        self._reached[record.shard] = record.closed_lsn
        of_topics = self._rows.setdefault(number, Counter())
        for partition in record.partitions:
            bucket.rows += partition.count
            of_topics[partition.topic] += partition.count

    def strip(self, now_ms: int, cuts_ms: Iterable[int] = ()) -> list[tuple[int, Bucket]]:
        """The last hours, oldest first, each with its beginning in milliseconds UTC.

        Args:
            cuts_ms: when cuts of the lake were committed.
        """
        last = now_ms // BUCKET_MS
        first = last - BUCKETS + 1
        for old in [number for number in self._buckets if number < first]:
            del self._buckets[old]
            self._rows.pop(old, None)
        cuts = Counter(at // BUCKET_MS for at in cuts_ms)
        shown = []
        for number in range(first, last + 1):
            bucket = self._buckets.get(number, Bucket())
            bucket.cuts = cuts[number]
            shown.append((number * BUCKET_MS, bucket))
        return shown

    def rows_by_topic(self) -> Mapping[str, int]:
        """Events of the last hours by topic."""
        return sum(self._rows.values(), Counter())


class LedgerReader:
    """Follows the progress topic, from some hours ago.

    Args:
        timeout_s: how long to wait for brokers.
    """

    def __init__(
        self, bootstrap: str, names: TopicNames, extra: Mapping[str, str], timeout_s: float
    ) -> None:
        self._bootstrap, self._extra = bootstrap, extra
        self._topic = names.progress
        self._timeout_s = timeout_s
        self._consumer: Consumer | None = None
        self._unread: set[int | None] = set()
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
        error = message.error()
        if error is None:
            self.ledger.add(decode(cast("bytes", message.value())))
        elif error.name() == "_PARTITION_EOF":
            self._unread.discard(message.partition())
        else:
            raise KafkaException(error)

    def _begin(self) -> Consumer | None:
        """A consumer at the beginning of the strip; None while there is no topic."""
        consumer = consumer_of(self._bootstrap, self._extra)
        try:
            topic = consumer.list_topics(self._topic, timeout=self._timeout_s).topics[self._topic]
            since_ms = time.time_ns() // 1_000_000 - BUCKETS * BUCKET_MS
            wanted = [TopicPartition(self._topic, p, since_ms) for p in sorted(topic.partitions)]
            if not wanted:
                consumer.close()
                return None
            self._unread = {partition.partition for partition in wanted}
            consumer.assign(consumer.offsets_for_times(wanted, timeout=self._timeout_s))
        except KafkaException:
            consumer.close()
            raise
        return consumer

    def close(self) -> None:
        """End the connection."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None
