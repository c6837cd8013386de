"""``tailrace tail``: events of any tables in commit order, over all partitions and topics.

The progress topic records which offsets each Kafka transaction filled. So the transactions are read
one by one, and the events of one are merged by their positions. What is shown is in commit order,
committed, and whole.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tailrace.reading.moments import Moment
from tailrace.reading.progress import records_from_now, records_until_now
from tailrace.reading.record_decoder import RecordDecoder
from tailrace.reading.topics import Event, arrived, consumer_of, event_of
from tailrace_schemas.position.change_position import ChangePosition
from tailrace_schemas.records.progress import PartitionProgress, Progress
from tailrace_schemas.topics.topic_names import TopicNames
from tailrace_service.registry.client import SchemaRegistry

_WAIT_S: Final = 0.1
_SILENT_S: Final = 60.0


@dataclass(slots=True)
class EventTail:
    """Reads events in commit order.

    Attributes:
        bootstrap: comma-separated host:port of some brokers.
        extra: further librdkafka options of the connection.
        timeout_s: the longest wait for an answer about the progress topic.
        removed: events that retention has taken, of ranges that were asked for.
        closed_lsn: the newest closed LSN that was read; None before the first.
    """

    bootstrap: str
    names: TopicNames
    registry: SchemaRegistry
    extra: Mapping[str, str] | None = None
    timeout_s: float = 10
    removed: int = 0
    closed_lsn: str | None = None
    _lows: dict[tuple[str, int], int] = field(default_factory=dict)

    def events(
        self,
        topics: Container[str],
        begin: Moment,
        *,
        follow: bool = False,
        stopped: Callable[[], bool] = lambda: False,
    ) -> Iterator[Event]:
        """Events from a moment on, without tombstones.

        Args:
            follow: whether to wait for the first and for more at the end, until ``stopped``.
            stopped: asked between two reads.

        Raises:
            KafkaException: the brokers do not answer or refuse.
            TimeoutError: a range of a topic could not be read to its end.
        """
        decoder = RecordDecoder(self.registry)
        reader = consumer_of(self.bootstrap, self.extra)
        try:
            for record in self._records(follow=follow, stopped=stopped):
                self.closed_lsn = record.closed_lsn
                ranges = [entry for entry in record.partitions if entry.topic in topics]
                if not ranges or begin.is_after(record):
                    continue
                for event in self._of_transaction(reader, decoder, ranges):
                    commit_ms = event.as_envelope["source"]["ts_ms"]
                    if begin.has_reached(event.position.commit_lsn, commit_ms):
                        yield event
                    if stopped():
                        return
        finally:
            reader.close()

    def _records(self, *, follow: bool, stopped: Callable[[], bool]) -> Iterator[Progress]:
        where, extra, timeout_s = (self.bootstrap, self.names), self.extra, self.timeout_s
        if follow:
            return records_from_now(*where, stopped, extra=extra, timeout_s=timeout_s)
        return records_until_now(*where, extra=extra, timeout_s=timeout_s)

    def _of_transaction(
        self, reader: Consumer, decoder: RecordDecoder, ranges: Sequence[PartitionProgress]
    ) -> Iterator[Event]:
        """Events of one Kafka transaction, its partitions merged by position."""
        begins = {
            (entry.topic, entry.partition): max(entry.first_offset, self._low(reader, entry))
            for entry in ranges
        }
        ends = {(entry.topic, entry.partition): entry.next_offset for entry in ranges}
        self.removed += sum(
            min(entry.count, begins[entry.topic, entry.partition] - entry.first_offset)
            for entry in ranges
        )
        unread = {where for where, end in ends.items() if begins[where] < end}
        found: dict[tuple[str, int], list[Event]] = {where: [] for where in unread}
        reader.assign([TopicPartition(*where, begins[where]) for where in sorted(unread)])
        last = time.monotonic()
        while unread:
            messages = arrived(reader, _WAIT_S)
            if messages:
                last = time.monotonic()
            elif time.monotonic() - last > _SILENT_S:
                raise TimeoutError(f"no end of {sorted(unread)} within {_SILENT_S:.0f} s")
            for message in messages:
                where = (str(message.topic()), int(message.partition() or 0))
                error = message.error()
                if error is not None and error.name() != "_PARTITION_EOF":
                    raise KafkaException(error)
                offset = int(message.offset() or 0)
                if error is None and where in unread and offset < ends[where]:
                    event = event_of(decoder, message)
                    if event.envelope is not None:
                        found[where].append(event)
                # The marker after the last record, and the end, also show that it was read.
                if offset >= ends[where] - 1:
                    unread.discard(where)
        return heapq.merge(*found.values(), key=_position)

    def _low(self, reader: Consumer, entry: PartitionProgress) -> int:
        """The first offset that a partition still holds; asked once."""
        where = (entry.topic, entry.partition)
        if where not in self._lows:
            low, _ = reader.get_watermark_offsets(TopicPartition(*where), timeout=10)
            self._lows[where] = low
        return self._lows[where]


def _position(event: Event) -> ChangePosition:
    return event.position
