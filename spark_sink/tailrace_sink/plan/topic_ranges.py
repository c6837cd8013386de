"""Ranges of offsets of data topics, applied by a batch or held until a snapshot ends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from tailrace_schemas.records.progress import OperationCounts, PartitionProgress, Progress, signed
from tailrace_schemas.topics.topic_names import TopicNames


@dataclass(frozen=True, slots=True)
class Counted:
    """Number of changes of one partition, by the ledger or as found.

    Attributes:
        position_hash: sum of the hashes of their positions (the contract's progress.py).
    """

    count: int = 0
    position_hash: int = 0

    def plus(self, other: Counted) -> Counted:
        """Add both."""
        return Counted(self.count + other.count, signed(self.position_hash + other.position_hash))


@dataclass(frozen=True, slots=True)
class TopicRange:
    """Offsets of one topic to read, [first, next) by partition.

    Attributes:
        partitions: partition to (first, next).
        count: changes by the ledger.
        schema_ids: registry ids of the writer schemas.
        whole_from: partition to the offset from which on the range holds the whole table, by a
            snapshot and all changes since its start; None if it holds changes only.
        is_recreated: whether the range starts below offsets that the lake has: the topic was
            created again.
        torn: why a held range is not the whole table; else empty.
        ledger: counts by partition; less than ``count`` if an earlier release stored a part.
        from_batch: batch id of the first cut in the log with events of the range; 0 if unknown.
        to_batch: batch id of the last one; 0 if unknown.
        bytes: of values, as far as the ledger counts them.
        operations: counts by operation; less than ``count`` if a record lacks them.
        since_lsn: of a held range and its parts: closed LSN before the record that named the
            table. Empty if it cannot be split: an earlier release started it, or the lake's table
            must be replaced.
        rest: of a held range of which parts were applied: what no batch has applied yet.
        is_part: whether other batches apply the rest of the whole table.
        finishes: of the last part: the whole held range.
        into_empty: of a held range: whether its first part came into a lake table without rows.
        in_kafka: partition to the (first, next) offset between which the log has no events; they
            are only in Kafka.
    """

    topic: str
    partitions: Mapping[int, tuple[int, int]]
    count: int
    schema_ids: frozenset[int]
    whole_from: Mapping[int, int] | None = None
    is_recreated: bool = False
    torn: str = ""
    ledger: Mapping[int, Counted] = field(default_factory=dict)
    from_batch: int = 0
    to_batch: int = 0
    bytes: int = 0
    operations: OperationCounts = field(default_factory=OperationCounts)
    since_lsn: str = ""
    rest: TopicRange | None = None
    is_part: bool = False
    finishes: TopicRange | None = None
    into_empty: bool = False
    in_kafka: Mapping[int, tuple[int, int]] = field(default_factory=dict)

    @property
    def from_kafka(self) -> dict[int, tuple[int, int]]:
        """Its offsets that are read from Kafka."""
        found: dict[int, tuple[int, int]] = {}
        for partition, (first, end) in self.partitions.items():
            since, until = self.in_kafka.get(partition, (0, 0))
            if max(first, since) < min(end, until):
                found[partition] = (max(first, since), min(end, until))
        return found

    @property
    def waiting(self) -> TopicRange:
        """The part of a held range that no batch has applied."""
        return self if self.rest is None else self.rest

    @property
    def is_whole(self) -> bool:
        """Whether the range holds the whole table."""
        return self.whole_from is not None

    @property
    def ledger_total(self) -> Counted:
        """Counts of the ledger in all partitions."""
        total = Counted()
        for of in self.ledger.values():
            total = total.plus(of)
        return total

    @property
    def is_only_whole(self) -> bool:
        """Whether the range holds nothing older than the whole table."""
        begins = self.whole_from
        return begins is not None and all(
            first >= begins.get(partition, first)
            for partition, (first, _) in self.partitions.items()
        )


def begins_below(ranges: TopicRange, known: Mapping[int, int]) -> bool:
    """Whether a range starts below the next offset of its partition.

    Offsets only grow, so the topic was deleted and created again.
    """
    return any(
        first < known.get(partition, 0) for partition, (first, _) in ranges.partitions.items()
    )


def ledgers_together(
    one: Mapping[int, Counted], other: Mapping[int, Counted]
) -> dict[int, Counted]:
    """Add two ledgers by partition."""
    return {p: one.get(p, Counted()).plus(other.get(p, Counted())) for p in {*one, *other}}


def together(
    one: Mapping[int, tuple[int, int]], other: Mapping[int, tuple[int, int]]
) -> dict[int, tuple[int, int]]:
    """Return the offsets by partition that enclose those of both."""
    found = dict(one)
    for partition, (first, end) in other.items():
        known = found.get(partition, (first, end))
        found[partition] = (min(known[0], first), max(known[1], end))
    return found


def data_parts(progress: Progress, names: TopicNames) -> Iterator[PartitionProgress]:
    """Select the ranges of data topics; the ledger also counts Tailrace's own topics."""
    ours = {names.offsets, names.progress, names.ddl(progress.database)}
    return (part for part in progress.partitions if part.topic not in ours)


def as_one(held: TopicRange, part: TopicRange) -> TopicRange | None:
    """Hold a range undivided after its part failed; None if other parts were applied before.

    The lake's table may have to be replaced, which needs the whole range.
    """
    if part.partitions != held.partitions:
        return None
    return replace(held, rest=None, since_lsn="")


def as_torn(held: TopicRange, reason: str) -> TopicRange:
    """Hold an incomplete snapshot as torn: only the naming of its table and the reason."""
    return TopicRange(held.topic, {}, 0, frozenset(), torn=reason)


def add(
    ranges: dict[str, TopicRange],
    part: PartitionProgress,
    *,
    batch: int = 0,
    in_kafka: bool = False,
) -> None:
    """Add offsets to the range of their topic."""
    known = ranges.get(part.topic)
    if known is None:
        known = TopicRange(part.topic, {}, 0, frozenset(), from_batch=batch)
    ranges[part.topic] = with_part(known, part, batch=batch, in_kafka=in_kafka)


def with_part(
    known: TopicRange, part: PartitionProgress, *, batch: int = 0, in_kafka: bool = False
) -> TopicRange:
    """Add offsets to a range."""
    added = {part.partition: (part.first_offset, part.next_offset)}
    return replace(
        known,
        partitions=together(known.partitions, added),
        in_kafka=together(known.in_kafka, added) if in_kafka else known.in_kafka,
        count=known.count + part.count,
        schema_ids=known.schema_ids | frozenset(part.schema_ids),
        ledger=ledgers_together(
            known.ledger, {part.partition: Counted(part.count, part.position_hash)}
        ),
        to_batch=max(known.to_batch, batch),
        bytes=known.bytes + (part.bytes or 0),
        operations=known.operations.plus(part.operations or OperationCounts()),
    )
