"""Split of offsets into those that a batch applies and those held until a snapshot ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from tailrace_schemas.records.progress import PartitionProgress
from tailrace_schemas.topics.topic_names import TopicNames
from tailrace_sink.errors import TopicRecreated
from tailrace_sink.plan.progress_record import ProgressRecord
from tailrace_sink.plan.topic_ranges import (
    TopicRange,
    add,
    as_torn,
    begins_below,
    data_parts,
    ledgers_together,
    together,
    with_part,
)


class RangeSorter:
    """Sorts the offsets of passed records into applied and held ones.

    Args:
        held: ranges that earlier cuts hold.
        stopped: topic to reason of each stopped table, which is skipped until it comes whole.
    """

    def __init__(
        self, held: Mapping[str, TopicRange], stopped: Mapping[str, str] | None = None
    ) -> None:
        self._stopped = dict(stopped or {})
        self._applied: dict[str, TopicRange] = {}
        self._held = dict(held)
        self._named = set(held)

    def take(self, records: Iterable[ProgressRecord], names: TopicNames) -> None:
        """Add the offsets of records, in order.

        Args:
            names: distinguishes data topics from the sink's own.
        """
        for record in records:
            named = set(record.progress.snapshotting)
            for topic in sorted(named - self._named):
                self._release(topic)
                self._held[topic] = TopicRange(
                    topic,
                    {},
                    0,
                    frozenset(),
                    from_batch=record.batch,
                    since_lsn=record.progress.after_lsn,
                )
            self._named = named
            for part in data_parts(record.progress, names):
                self._take(part, record)

    def result(
        self, may_wait: Callable[[int, int], bool]
    ) -> tuple[dict[str, TopicRange], dict[str, TopicRange], dict[str, str]]:
        """Return the ranges to apply, the ranges that stay held, and the stopped topics.

        Args:
            may_wait: whether so many changes of so many bytes may be held; more are applied as a
                part.
        """
        for topic, held in sorted(self._held.items()):
            waits = held.waiting
            if topic not in self._named:
                self._release(topic)
            elif (
                held.since_lsn
                and topic not in self._applied
                and not may_wait(waits.count, waits.bytes)
            ):
                self._applied[topic], self._held[topic] = part_of(held)
        return self._applied, self._held, self._stopped

    def _take(self, part: PartitionProgress, record: ProgressRecord) -> None:
        topic = part.topic
        if topic in self._held:
            into = self._held
        elif topic not in self._stopped:
            into = self._applied
        else:
            return
        reason = record.why_lost(part)
        if reason is None and topic in into and _is_below(part, into[topic]):
            reason = str(TopicRecreated(topic))
        if reason is not None:
            # Earlier changes are applied, but an incomplete snapshot is useless. The table stays
            # held as torn. Otherwise the rest of the snapshot would count as the whole table.
            self._stopped[topic] = reason
            if topic in self._held:
                self._held[topic] = as_torn(self._held[topic], reason)
            return
        if into is self._held:
            self._hold(part, record.batch, in_kafka=record.in_kafka)
        else:
            add(into, part, batch=record.batch, in_kafka=record.in_kafka)

    def _hold(self, part: PartitionProgress, batch: int, *, in_kafka: bool) -> None:
        held = self._held[part.topic]
        if held.torn:
            return
        rest = held.rest
        if rest is not None:
            if not rest.partitions:
                rest = replace(rest, from_batch=batch)
            rest = with_part(rest, part, batch=batch, in_kafka=in_kafka)
        whole = with_part(held, part, batch=batch, in_kafka=in_kafka)
        self._held[part.topic] = replace(whole, rest=rest)

    def _release(self, topic: str) -> None:
        """Apply a finished snapshot, after the changes before it."""
        whole = self._held.pop(topic, None)
        if whole is None:
            return
        if whole.torn:
            self._stopped[topic] = whole.torn
            return
        self._stopped.pop(topic, None)
        if whole.rest is not None:
            self._applied[topic] = replace(
                whole.rest,
                schema_ids=whole.schema_ids,
                since_lsn=whole.since_lsn,
                is_part=True,
                finishes=replace(whole, rest=None),
            )
            return
        before = self._applied.get(topic)
        whole_from = {partition: first for partition, (first, _) in whole.partitions.items()}
        if before is None or begins_below(whole, _ends(before)):
            self._applied[topic] = replace(whole, whole_from=whole_from, since_lsn="")
            return
        partitions = dict(before.partitions)
        for partition, (first, end) in whole.partitions.items():
            partitions[partition] = (partitions.get(partition, (first, end))[0], end)
        for partition, (_, end) in before.partitions.items():
            whole_from.setdefault(partition, end)
        self._applied[topic] = replace(
            before,
            partitions=partitions,
            count=before.count + whole.count,
            schema_ids=before.schema_ids | whole.schema_ids,
            whole_from=whole_from,
            ledger=ledgers_together(before.ledger, whole.ledger),
            to_batch=max(before.to_batch, whole.to_batch),
            bytes=before.bytes + whole.bytes,
            operations=before.operations.plus(whole.operations),
            is_part=False,
            finishes=None,
            in_kafka=together(before.in_kafka, whole.in_kafka),
        )


def part_of(held: TopicRange) -> tuple[TopicRange, TopicRange]:
    """Split a held range into a part to apply and the range that stays held."""
    nothing = TopicRange(held.topic, {}, 0, frozenset())
    return (
        replace(held.waiting, is_part=True, since_lsn=held.since_lsn, rest=None),
        replace(held, rest=nothing),
    )


def _is_below(part: PartitionProgress, known: TopicRange) -> bool:
    """Whether a part starts below known offsets of its partition: the topic was created again."""
    _, end = known.partitions.get(part.partition, (0, 0))
    return part.first_offset < end


def _ends(ranges: TopicRange) -> dict[int, int]:
    return {partition: end for partition, (_, end) in ranges.partitions.items()}
