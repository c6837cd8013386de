"""A transaction's progress, divided into as many records as Kafka's size limit requires."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import replace
from typing import Any, Final

from tailrace_publisher.deliver.producer_options import MESSAGE_BYTES_MAX
from tailrace_publisher.errors import DeliveryRejected
from tailrace_schemas.records.progress import Progress

_UNSEEN_BYTES: Final = 1_000_000  # Kafka's default of a topic's max.message.bytes, rounded down
_AROUND_BYTES: Final = 1_000  # overhead of a batch and a record, generously


def largest_record(client: Mapping[str, str], topic: Mapping[str, str]) -> int:
    """Return the bytes that a record's value may have, uncompressed.

    Args:
        client: the librdkafka options of the producer.
        topic: the settings of the topic that we may see.
    """
    own = client.get("message.max.bytes", "")
    its = topic.get("max.message.bytes", "")
    limits = [int(limit) for limit in (own, its) if limit.isdigit()]
    limit = min(limits, default=_UNSEEN_BYTES)
    if not own.isdigit():
        limit = min(limit, MESSAGE_BYTES_MAX)
    return max(limit, 2 * _AROUND_BYTES) - _AROUND_BYTES


def progress_records(
    progress: Progress,
    encode: Callable[[Mapping[str, Any]], bytes],
    bytes_max: int,
    again: Set[str] = frozenset(),
) -> list[bytes]:
    """Return the encoded records of a transaction: one, unless it touched very many partitions.

    Records before the last close nothing, like those inside a large source transaction. So readers
    take them together with the record that closes.

    A table may start its snapshot again while records name it. Then a reader would take it for one
    that is still at its first start, with the rows of that start. So a record that leaves the table
    out is written first. There is no cut at it, and the next record names the table again.

    Args:
        encode: writes the fields of a record.
        bytes_max: the limit of one record.
        again: topics of the tables that start again here.

    Raises:
        DeliveryRejected: the part that each record must repeat exceeds the limit.
    """
    if again:
        without = [topic for topic in progress.snapshotting if topic not in again]
        between = replace(_closing_nothing(progress), partitions=[], snapshotting=without)
        return [
            *progress_records(between, encode, bytes_max),
            *progress_records(progress, encode, bytes_max),
        ]
    record = encode(progress.to_record())
    if len(record) <= bytes_max:
        return [record]
    partitions = progress.partitions
    if len(partitions) < 2:
        raise DeliveryRejected(
            f"a progress record has {len(record):,} bytes, {bytes_max:,} may be sent: it names"
            f" {len(progress.snapshotting):,} tables that are not part of the cut. Fix: raise"
            " max.message.bytes of the progress topic and kafka.extra message.max.bytes together,"
            " or publish fewer tables under one prefix (tables.include)"
        )
    half = len(partitions) // 2
    before = replace(_closing_nothing(progress), partitions=partitions[:half])
    after = replace(progress, partitions=partitions[half:])
    return [
        *progress_records(before, encode, bytes_max),
        *progress_records(after, encode, bytes_max),
    ]


def _closing_nothing(progress: Progress) -> Progress:
    return replace(
        progress, closed_lsn=progress.after_lsn, closed_commit_ms=None, closed=False, patched=[]
    )
