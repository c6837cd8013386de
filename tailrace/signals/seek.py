"""``tailrace seek``: move a consumer group to a cut, by LSN or by time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from tailrace.reading.moments import Moment
from tailrace.reading.progress import has_lost_records, records_until_now
from tailrace.reading.topics import consumer_of, existing_data_topics
from tailrace_schemas.records.progress import Progress
from tailrace_schemas.topics.topic_names import TopicNames

_TIMEOUT_S: Final = 10.0


class SeekRefused(Exception):
    """The group cannot be put there; the text says why, and what to do."""

    retryable = False


@dataclass(frozen=True, slots=True)
class Cut:
    """Where a consumer starts that has everything up to a closed LSN, and nothing after it.

    Attributes:
        closed_lsn: the closed LSN; None before the first one.
        offsets: the next offset of each topic's partitions.
        removed: partitions that retention has shortened beyond it.
    """

    closed_lsn: str | None
    closed_commit_ms: int | None
    offsets: Mapping[tuple[str, int], int]
    removed: tuple[tuple[str, int], ...]


def cut_at(
    bootstrap: str,
    names: TopicNames,
    moment: Moment,
    extra: Mapping[str, str] | None = None,
    *,
    timeout_s: float = _TIMEOUT_S,
) -> Cut:
    """Find the newest cut that is not after a moment.

    Args:
        timeout_s: how long to wait for the brokers' first answer.

    Raises:
        KafkaException: the brokers do not answer or refuse.
        SeekRefused: nothing is published, or the progress records of that moment are gone.
    """
    topics = existing_data_topics(bootstrap, names, extra, timeout_s=timeout_s)
    lsn, at, is_over = None, None, False
    offsets: dict[tuple[str, int], int] = {}
    later: dict[tuple[str, int], int] = {}
    pending: dict[tuple[str, int], int] = {}
    for record in records_until_now(bootstrap, names, extra=extra):
        for entry in record.partitions:
            later.setdefault((entry.topic, entry.partition), entry.first_offset)
            pending[entry.topic, entry.partition] = entry.next_offset
        if not record.closed:
            continue
        is_over = is_over or _is_after(record, moment)
        if is_over:
            continue
        lsn, at = record.closed_lsn, record.closed_commit_ms
        offsets.update(pending)
    if not topics:
        raise SeekRefused(f"there is no data topic of prefix {names.prefix}: check the prefix")
    consumer = consumer_of(bootstrap, extra)
    found: dict[tuple[str, int], int] = {}
    removed: list[tuple[str, int]] = []
    try:
        is_shortened = has_lost_records(consumer, names)
        if is_shortened and lsn is None:
            raise SeekRefused(
                f"topic {names.progress} no longer holds the records of that moment, and only they"
                " say where it is. Fix: choose a later one, or let the group begin at the topics'"
                " beginning (auto.offset.reset: earliest)"
            )
        for topic, count in topics.items():
            for partition in range(count):
                where = (topic, partition)
                low, high = consumer.get_watermark_offsets(TopicPartition(*where), _TIMEOUT_S)
                # Without a record up to the cut: what is there is after it, or, if records are
                # gone, what is there before the first one is older than the cut.
                unknown = later.get(where, high) if is_shortened else low
                found[where] = max(low, offsets.get(where, unknown))
                if where in offsets and low > offsets[where]:
                    removed.append(where)
    finally:
        consumer.close()
    return Cut(lsn, at, found, tuple(removed))


def _is_after(record: Progress, moment: Moment) -> bool:
    """Whether a record closes more than what was committed up to a moment."""
    if moment.lsn is not None and record.closed_lsn > str(moment.lsn):
        return True
    return moment.time_ms is not None and (record.closed_commit_ms or 0) > moment.time_ms


def set_group(bootstrap: str, group: str, cut: Cut, extra: Mapping[str, str] | None = None) -> None:
    """Set the offsets of a consumer group; its consumers must be stopped.

    Raises:
        SeekRefused: the group has members, or the brokers refuse.
    """
    admin = AdminClient({**(extra or {}), "bootstrap.servers": bootstrap, "log_level": 0})
    offsets = [TopicPartition(*where, offset) for where, offset in sorted(cut.offsets.items())]
    wanted = [ConsumerGroupTopicPartitions(group, offsets)]
    try:
        asked = admin.alter_consumer_group_offsets(wanted, request_timeout=_TIMEOUT_S)
        done = asked[group].result(_TIMEOUT_S + 1)
    except (KafkaException, TimeoutError) as error:
        raise SeekRefused(
            f"group {group} was not moved ({error}): stop all of its consumers first, and wait"
            " until it has no members"
        ) from error
    refused = [where for where in done.topic_partitions or () if where.error is not None]
    if refused:
        raise SeekRefused(
            f"group {group} was not moved at {refused[0].topic}[{refused[0].partition}]:"
            f" {refused[0].error}; stop all of its consumers first"
        )
