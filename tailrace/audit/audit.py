"""``tailrace audit``: do the topics hold what the publisher says it published, once and in order?

Reads the progress topic, then every data topic up to where those records end, as any subscriber
could. It needs only Kafka and the schema registry. Memory holds the ledger, not the events.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tailrace.audit.lake_log import LakeAudit, LogAudit
from tailrace.audit.ledger import (
    PartitionAudit,
    Problems,
    check_chain,
    ranges_by_partition,
)
from tailrace.reading.progress import decode, has_lost_records, progress_start
from tailrace.reading.record_decoder import PositionDecoder
from tailrace.reading.topics import arrived, consumer_of, existing_data_topics
from tailrace_publisher.checkpoint import high_watermarks
from tailrace_publisher.daemon.adapters.production import kafka_at
from tailrace_publisher.deliver.topic_settings import is_compacted
from tailrace_publisher.deliver.topics import TopicAdmin
from tailrace_publisher.ports import KafkaAccess
from tailrace_schemas.records.progress import LOST_HEADER, PartitionProgress, Progress
from tailrace_schemas.topics.topic_names import TopicNames
from tailrace_service.registry.client import SchemaRegistry

if TYPE_CHECKING:
    from tailrace.lake.log import DeltaLog

_AT_ONCE: Final = 5000
_POLL_S: Final = 0.1
_TIMEOUT_S: Final = 60.0


@dataclass(slots=True)
class TopicAudit:
    """What was found in a data topic.

    Attributes:
        events: events that were read and accounted for; tombstones are not counted.
        transactions: Kafka transactions in it, of each partition.
        removed: those that retention has removed.
        unproven: offsets that it still holds, and whose progress records retention has removed.
    """

    topic: str
    events: int = 0
    transactions: int = 0
    removed: int = 0
    unproven: int = 0


@dataclass(slots=True)
class Audit:
    """The result.

    Attributes:
        records: progress records that were read.
        from_lsn: where the proof begins, None without records.
        begins_ms: time of the first record, milliseconds UTC, if retention has removed earlier
            ones.
        closed_lsn: the closed LSN at which it ends.
        lost: per accepted restore of the database, the fields of ``LOST_HEADER``.
        not_provable: compacted topics: what is not there may have been there.
        problems: what is wrong; none proves that nothing is missing, repeated or out of order, in
            the topics that can be proven.
        lake: what was found in the lake's log, if it was checked; its problems are among these.
    """

    records: int = 0
    from_lsn: str | None = None
    closed_lsn: str | None = None
    begins_ms: int | None = None
    topics: dict[str, TopicAudit] = field(default_factory=dict)
    lost: list[dict[str, Any]] = field(default_factory=list)
    not_provable: list[str] = field(default_factory=list)
    problems: Problems = field(default_factory=Problems)
    lake: LakeAudit | None = None


def audit(
    bootstrap: str,
    names: TopicNames,
    registry: SchemaRegistry,
    extra: Mapping[str, str] | None = None,
    *,
    timeout_s: float = 10,
    log: DeltaLog | None = None,
) -> Audit:
    """Check every record of the data topics against the ledger.

    Args:
        bootstrap: comma-separated host:port of some brokers.
        registry: knows the writers' schemas.
        extra: further librdkafka options of the connection.
        timeout_s: how long to wait for the brokers' first answer.
        log: that of a lake, to be compared as well.

    Raises:
        KafkaException: the brokers do not answer or refuse.
        OSError: the lake cannot be read.
        DividedIntoShards: several shards wrote the progress records.
        PublisherError: the topics' settings cannot be read.
        TimeoutError: a partition could not be read to its end.
        RegistryError: a schema is not available.
    """
    result = Audit()
    kafka = kafka_at(bootstrap, extra)
    topics = existing_data_topics(bootstrap, names, extra, timeout_s=timeout_s)
    consumer = consumer_of(bootstrap, extra)
    try:
        placed = _progress(kafka, consumer, names, result.lost)
        records = list(placed.values())
        result.records = len(records)
        if records:
            result.from_lsn = records[0].after_lsn
            result.closed_lsn = max(record.closed_lsn for record in records)
        check_chain(records, result.problems)
        admin = TopicAdmin(kafka, None, _TIMEOUT_S)
        settings = admin.settings(list(topics))
        result.not_provable = [name for name in topics if is_compacted(settings.get(name, {}))]
        proven = topics.keys() - set(result.not_provable)
        ledger = ranges_by_partition(records, proven)
        if records and has_lost_records(consumer, names, _TIMEOUT_S):
            result.begins_ms = records[0].published_ms
            _note_unproven(consumer, {name: topics[name] for name in proven}, ledger, result)
        positions = PositionDecoder(registry)
        for entries in ledger.values():
            _audit_partition(consumer, positions, entries, result)
        if log is not None:
            result.lake = LogAudit(log, placed, names, positions, result.problems).run()
    finally:
        consumer.close()
    return result


def _progress(
    kafka: KafkaAccess, consumer: Consumer, names: TopicNames, lost: list[dict[str, Any]]
) -> dict[int, Progress]:
    """The records by offset, in order.

    Args:
        lost: gets the fields of ``LOST_HEADER``, per accepted restore.
    """
    start = progress_start(consumer, names, _TIMEOUT_S)
    if start is None:
        return {}
    (end,) = high_watermarks(kafka, [start], kafka.clock.monotonic() + _TIMEOUT_S).values()
    records: dict[int, Progress] = {}
    for message in _read(consumer, names.progress, 0, start.offset, end):
        records[int(message.offset() or 0)] = decode(message.value())
        told = dict(message.headers() or ()).get(LOST_HEADER)
        lost += [] if told is None else [json.loads(told)]
    return records


def _note_unproven(
    consumer: Consumer,
    topics: Mapping[str, int],
    ledger: Mapping[tuple[str, int], Sequence[PartitionProgress]],
    into: Audit,
) -> None:
    """Count what each topic holds from before the first progress record."""
    for topic, count in topics.items():
        for number in range(count):
            where = TopicPartition(topic, number)
            low, high = consumer.get_watermark_offsets(where, timeout=_TIMEOUT_S)
            entries = ledger.get((topic, number))
            before = (entries[0].first_offset if entries else high) - low
            if before > 0:
                into.topics.setdefault(topic, TopicAudit(topic)).unproven += before


def _audit_partition(
    consumer: Consumer,
    positions: PositionDecoder,
    entries: Sequence[PartitionProgress],
    into: Audit,
) -> None:
    topic, number = entries[0].topic, entries[0].partition
    low, _ = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=_TIMEOUT_S)
    partition = PartitionAudit(entries, low, into.problems)
    for message in _read(consumer, topic, number, partition.begin, partition.end):
        value = message.value()
        position = None
        if value is not None:
            try:
                position = positions.of(value)
            except (ValueError, EOFError, TypeError, KeyError, IndexError) as error:
                into.problems.add(
                    f"topic {topic} partition {number} offset {message.offset()}: not one of our"
                    f" events ({error}): somebody else writes to the topic"
                )
                continue
        partition.take(message.offset(), position)
    partition.finish()
    found = into.topics.setdefault(topic, TopicAudit(topic))
    found.events += partition.events
    found.transactions += partition.transactions
    found.removed += partition.removed


def _read(consumer: Consumer, topic: str, partition: int, begin: int, end: int) -> Iterator[Any]:
    """The committed messages of a partition, from ``begin`` until ``end`` is passed.

    Raises:
        KafkaException: what the brokers answered.
        TimeoutError: no progress for a minute: an open transaction, or slow brokers.
    """
    if begin >= end:
        return
    consumer.assign([TopicPartition(topic, partition, begin)])
    last = time.monotonic()
    reached = begin
    while reached < end:
        for message in arrived(consumer, _POLL_S, _AT_ONCE):
            error = message.error()
            if error is None:
                last = time.monotonic()
                reached = int(message.offset() or 0) + 1
                yield message
            elif error.name() == "_PARTITION_EOF":
                reached = max(reached, int(message.offset() or 0))
            elif not error.retriable():
                raise KafkaException(error)
        if reached < end and time.monotonic() - last > _TIMEOUT_S:
            raise TimeoutError(
                f"topic {topic} partition {partition} could be read up to offset {reached} of {end}"
                f" only: no further record for {_TIMEOUT_S:g} s"
            )
