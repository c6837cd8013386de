"""How far topics and lake are, for a test that waits: read from the ledger, never guessed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from confluent_kafka import OFFSET_BEGINNING, KafkaException, TopicPartition

from tailrace.reading.progress import decode
from tailrace.reading.topics import consumer_of
from tailrace_schemas.records.progress import Progress
from tailrace_schemas.topics.topic_names import TopicNames

_POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class Reached:
    """What the ledger says once everything up to an LSN is published.

    Attributes:
        batch: the lake's batch number from which on all of it is in the lake.
        topics: the data topics that have events.
    """

    closed_lsn: str
    batch: int
    topics: frozenset[str]


class Ledger:
    """The progress topic of one publisher, read on and on.

    Args:
        names: the topics of the prefix.
    """

    def __init__(self, bootstrap_servers: str, names: TopicNames) -> None:
        self._names = names
        self._consumer = consumer_of(bootstrap_servers)
        self._is_assigned = False
        self._last: Progress | None = None
        self._batch = 0
        self._topics: set[str] = set()

    def read(self) -> Progress | None:
        """Read new records; return the newest one, None before there is any."""
        if not self._is_assigned:
            topic = self._consumer.list_topics(timeout=10).topics.get(self._names.progress)
            if topic is None or not topic.partitions:
                return None
            self._consumer.assign([TopicPartition(self._names.progress, 0, OFFSET_BEGINNING)])
            self._is_assigned = True
        while messages := self._consumer.consume(100, _POLL_S):
            for message in messages:
                error = message.error()
                if error is None:
                    self._take(
                        decode(cast("bytes", message.value())), cast("int", message.offset())
                    )
                elif error.name() != "_PARTITION_EOF":
                    raise KafkaException(error)
        return self._last

    def reached(self, lsn: str) -> Reached | None:
        """Return the state once an LSN is published and no snapshot runs; before that, None."""
        record = self.read()
        if record is None or not record.closed or record.snapshotting or record.closed_lsn < lsn:
            return None
        return Reached(record.closed_lsn, self._batch, frozenset(self._topics))

    def close(self) -> None:
        """Leave the broker."""
        self._consumer.close()

    def _take(self, record: Progress, offset: int) -> None:
        self._last = record
        with_events = {p.topic for p in record.partitions if p.count}
        if with_events:
            # The sink numbers its cuts by the place in this topic that it goes on from.
            self._batch = offset + 1
            self._topics |= with_events
