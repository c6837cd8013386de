"""What one Kafka transaction put into each topic-partition (no Kafka calls in here).

Offsets come from delivery reports. A report is requested only for the first message of a partition
and for the last one of each batch. A partition's messages arrive in order, so those two suffice; a
report per message would cost up to a fifth of the rate. The reports may arrive in another order if
a partition's leader moves. The new leader then confirms a record that the old one wrote without
confirming, after records that were sent later. So the least and the greatest offset count,
whichever was reported first.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, Final, Protocol

from tailrace_publisher.encode.encoded_events import EncodedRows
from tailrace_publisher.errors import ForeignRecords, OutcomeUnknown, TopicRefused
from tailrace_schemas.records.progress import OperationCounts, PartitionProgress, signed

_OPERATION: Final = itemgetter(-1)
"""The operation is the last byte of a packed position."""


LARGE_BYTES: Final = 100_000
"""Each record larger than this is reported, because a broker may refuse it."""

OnDelivery = Callable[[Any, Any], None]


class _Report(Protocol):
    def offset(self) -> int | None:
        """Return the offset of the delivered message."""


class PartitionLedger:
    """Counts of one topic-partition within a transaction.

    Attributes:
        messages: events and tombstones, those in the topic.
        position_sum: unbounded sum of the position hashes.
        lacks_operations: whether some operations are not published. Then the counts per operation
            mean nothing.
        failure: the first error that a delivery report carried.
    """

    __slots__ = (
        "count",
        "failure",
        "first_offset",
        "has_unknown",
        "lacks_operations",
        "last_offset",
        "messages",
        "operations",
        "partition",
        "position_sum",
        "schema_ids",
        "topic",
        "value_bytes",
    )

    def __init__(self, topic: str, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self.messages = 0
        self.count = 0
        self.position_sum = 0
        self.value_bytes = 0
        self.operations: Counter[int] = Counter()
        self.schema_ids: set[int] = set()
        self.first_offset: int | None = None
        self.last_offset: int | None = None
        self.has_unknown = False
        self.lacks_operations = False
        self.failure: object = None

    def on_delivery(self, error: object, message: _Report) -> None:
        """Record a delivery report; must not raise, because librdkafka's callbacks cannot."""
        if error is not None:
            self.failure = self.failure or error
            return
        offset = message.offset()
        if offset is None or offset < 0:
            self.has_unknown = True
            return
        first, last = self.first_offset, self.last_offset
        self.first_offset = offset if first is None else min(first, offset)
        self.last_offset = offset if last is None else max(last, offset)

    @property
    def is_waiting(self) -> bool:
        """Whether the broker has not confirmed all messages yet."""
        first, last = self.first_offset, self.last_offset
        return first is None or last is None or last + 1 - first < self.messages

    def progress(self) -> PartitionProgress:
        """Return the partition's entry of the progress record.

        Raises:
            OutcomeUnknown: a report failed or gave no offset.
            ForeignRecords: another producer's records are among ours.
            TopicRefused: the topic has fewer records than were confirmed.
        """
        where = f"topic {self.topic} partition {self.partition}"
        if self.failure is not None:
            raise OutcomeUnknown(f"{where}: a record was not delivered: {self.failure}")
        first, last = self.first_offset, self.last_offset
        if first is None or last is None or self.has_unknown:
            raise OutcomeUnknown(f"{where}: the broker reported no offset")
        held = last + 1 - first
        sent = (
            f"{where}: {self.messages} records were sent but offsets {first} to {last} hold {held}"
        )
        if held > self.messages:
            raise ForeignRecords(
                f"{sent}: another producer writes to this topic. Fix: revoke its Write permission,"
                " or use another prefix",
                topic=self.topic,
                code=0,
            )
        if held < self.messages:
            raise TopicRefused(
                f"{sent}: the brokers confirmed records that they do not have. Fix: check whether"
                " the topic was deleted or a broker lost its disk, then take a new snapshot",
                topic=self.topic,
                code=0,
            )
        return PartitionProgress(
            self.topic,
            self.partition,
            first,
            last + 1,
            self.count,
            signed(self.position_sum),
            sorted(self.schema_ids),
            self.value_bytes,
            None if self.lacks_operations else OperationCounts.of_positions(self.operations),
        )


class Ledger:
    """The counts of all partitions of one transaction."""

    def __init__(self) -> None:
        self._partitions: dict[tuple[str, int], PartitionLedger] = {}

    def entry(self, topic: str, partition: int) -> PartitionLedger:
        """Return the partition's counts; start them if it is new."""
        key = (topic, partition)
        entry = self._partitions.get(key)
        if entry is None:
            entry = self._partitions[key] = PartitionLedger(topic, partition)
        return entry

    def add(self, encoded: EncodedRows, partitions: Sequence[int]) -> None:
        """Count events, given the partition of each."""
        hashes = map(zlib.crc32, encoded.positions)
        sizes = map(len, encoded.values)
        sums = dict.fromkeys(partitions, 0)
        filled = dict.fromkeys(partitions, 0)
        for partition, position_hash, size in zip(partitions, hashes, sizes, strict=True):
            sums[partition] += position_hash
            filled[partition] += size
        for partition, position_sum in sums.items():
            entry = self.entry(encoded.topic, partition)
            entry.position_sum += position_sum
            entry.value_bytes += filled[partition]
            entry.schema_ids.add(encoded.schema_id)
            entry.lacks_operations |= encoded.lacks_operations
        for (partition, operation), count in _by_operation(encoded.positions, partitions).items():
            entry = self.entry(encoded.topic, partition)
            entry.count += count
            entry.operations[operation] += count

    def reports(
        self, topic: str, partitions: Sequence[int], values: Sequence[bytes | None]
    ) -> dict[int, OnDelivery]:
        """Count messages including tombstones, and choose those whose delivery is to be reported.

        Args:
            topic: where the messages go.
            partitions: one for each message.
            values: one for each message.

        Returns:
            The report callbacks, by index of the message.
        """
        found: dict[int, OnDelivery] = {
            index: self.entry(topic, partition).on_delivery
            for partition, index in _last_indexes(partitions).items()
        }
        for partition, messages in Counter(partitions).items():
            entry = self.entry(topic, partition)
            if entry.messages == 0:
                found[partitions.index(partition)] = entry.on_delivery
            entry.messages += messages
        if max(map(len, filter(None, values)), default=0) > LARGE_BYTES:
            for index, value in enumerate(values):
                if value is not None and len(value) > LARGE_BYTES:
                    found[index] = self.entry(topic, partitions[index]).on_delivery
        return found

    def failed(self) -> list[PartitionLedger]:
        """Return the partitions with a failed delivery report."""
        return [entry for entry in self._partitions.values() if entry.failure is not None]

    def waiting(self) -> list[str]:
        """Return the topics of which messages are not confirmed yet."""
        return sorted({entry.topic for entry in self._partitions.values() if entry.is_waiting})

    def progress(self) -> list[PartitionProgress]:
        """Return the entries of the progress record, by topic and partition.

        Raises:
            OutcomeUnknown: an offset is not known.
            ForeignRecords: another producer's records are among ours.
            TopicRefused: the topic has fewer records than were confirmed.
        """
        return [self._partitions[key].progress() for key in sorted(self._partitions)]


def _last_indexes(partitions: Sequence[int]) -> dict[int, int]:
    """Return the index of the last message of every partition."""
    return dict(zip(partitions, range(len(partitions)), strict=True))


def _by_operation(
    positions: Sequence[bytes], partitions: Sequence[int]
) -> dict[tuple[int, int], int]:
    """Return the number of events by partition and operation."""
    operations = set(map(_OPERATION, positions))
    if len(operations) == 1:
        (operation,) = operations
        return {(partition, operation): n for partition, n in Counter(partitions).items()}
    return Counter(zip(partitions, map(_OPERATION, positions), strict=True))
