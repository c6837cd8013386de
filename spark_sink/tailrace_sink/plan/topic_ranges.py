"""Offsets of data topics: what a batch applies, and what waits for the end of a snapshot."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from tailrace_schemas.records.progress import OperationCounts, PartitionProgress, signed
from tailrace_schemas.topics.topic_names import TopicNames
from tailrace_sink.plan.progress_record import ProgressRecord


@dataclass(frozen=True, slots=True)
class Counted:
    """Changes of one partition, by the ledger or as they were found.

    Attributes:
        count: how many.
        position_hash: sum of the hashes of their positions (the contract's progress.py).
    """

    count: int = 0
    position_hash: int = 0

    def plus(self, other: Counted) -> Counted:
        """Both together."""
        return Counted(self.count + other.count, signed(self.position_hash + other.position_hash))


@dataclass(frozen=True, slots=True)
class TopicRange:
    """Offsets of one topic to read, [first, next) by partition.

    Attributes:
        topic: the data topic.
        shard: the shard that writes it.
        partitions: partition to (first, next).
        count: records that the ledger counts in these ranges.
        schema_ids: ids of the writer schemas in these ranges.
        after_lsn: take only changes with a greater commit LSN; None takes all.
        up_to_lsn: take only changes with a commit LSN up to this; None takes all.
        whole_from: partition to the offset from which on these ranges hold the whole table, by a
            snapshot and all changes beside it; None when they hold changes only.
        is_made_anew: whether they begin below offsets that the lake has: the topic is another one.
        torn: why what is held for the end of a snapshot is not the whole table; else empty.
        ledger: what the ledger counts, by partition; less than ``count`` where an earlier release
            remembered a part of it.
        from_batch: batch id of the first cut in the log that has some of them; 0 when not known.
        to_batch: batch id of the last one; 0 when not known.
        bytes: of the values, as far as the ledger tells.
        operations: what the ledger counts by operation; together less than ``count`` where a record
            does not tell.
        since_lsn: of what is held for the end of a snapshot, and of its parts: closed LSN before
            the record that named the table. Empty where it can only be taken as one: an earlier
            release began it, or the lake's table has to be made anew.
        rest: of the same, once a part of it was taken: what no batch has taken yet.
        is_part: whether they are a part of a whole table whose other parts have batches of their
            own.
        finishes: of the last part: what was held, from the naming to the end.
    """

    topic: str
    shard: int
    partitions: Mapping[int, tuple[int, int]]
    count: int
    schema_ids: frozenset[int]
    after_lsn: str | None = None
    up_to_lsn: str | None = None
    whole_from: Mapping[int, int] | None = None
    is_made_anew: bool = False
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

    @property
    def waiting(self) -> TopicRange:
        """Of what is held: what no batch has taken."""
        return self if self.rest is None else self.rest

    @property
    def is_whole(self) -> bool:
        """Whether the whole table is in here."""
        return self.whole_from is not None

    @property
    def ledger_total(self) -> Counted:
        """What the ledger counts, of all partitions together."""
        total = Counted()
        for of in self.ledger.values():
            total = total.plus(of)
        return total

    @property
    def is_only_whole(self) -> bool:
        """Whether nothing older than the whole table is in here."""
        begins = self.whole_from
        return begins is not None and all(
            first >= begins.get(partition, first)
            for partition, (first, _) in self.partitions.items()
        )


def begins_below(ranges: TopicRange, known: Mapping[int, int]) -> bool:
    """Whether a range begins below the offset that was next in its partition.

    Offsets only grow, so the topic was deleted and made again in between.
    """
    return any(
        first < known.get(partition, 0) for partition, (first, _) in ranges.partitions.items()
    )


def ledgers_together(
    one: Mapping[int, Counted], other: Mapping[int, Counted]
) -> dict[int, Counted]:
    """What two ledgers count, by partition."""
    return {p: one.get(p, Counted()).plus(other.get(p, Counted())) for p in {*one, *other}}


def data_parts(records: Iterable[ProgressRecord], names: TopicNames) -> Iterator[PartitionProgress]:
    """The ranges of data topics; our own topics are in the ledger too."""
    for record in records:
        ours = {names.offsets, names.progress, names.ddl(record.progress.database)}
        yield from (part for part in record.progress.partitions if part.topic not in ours)


def as_one(held: TopicRange, part: TopicRange) -> TopicRange | None:
    """What is held where a part could not be applied; None where others were applied before it.

    The lake's table may have to be made anew, which only the whole allows.
    """
    if part.partitions != held.partitions:
        return None
    return replace(held, rest=None, since_lsn="")


def as_torn(held: TopicRange, reason: str) -> TopicRange:
    """What is held of a snapshot that is not whole any more: that its table is named, and why."""
    return TopicRange(held.topic, held.shard, {}, 0, frozenset(), torn=reason)


def add(
    ranges: dict[str, TopicRange],
    shard: int,
    part: PartitionProgress,
    after_lsn: str | None,
    *,
    up_to_lsn: str | None = None,
    batch: int = 0,
) -> None:
    """Add offsets to the range of their topic."""
    known = ranges.get(part.topic)
    if known is None:
        known = TopicRange(part.topic, shard, {}, 0, frozenset(), after_lsn, from_batch=batch)
    ranges[part.topic] = replace(with_part(known, part, batch=batch), up_to_lsn=up_to_lsn)


def with_part(known: TopicRange, part: PartitionProgress, *, batch: int = 0) -> TopicRange:
    """A range with some more offsets."""
    partitions = dict(known.partitions)
    first, end = partitions.get(part.partition, (part.first_offset, part.next_offset))
    partitions[part.partition] = (min(first, part.first_offset), max(end, part.next_offset))
    return replace(
        known,
        partitions=partitions,
        count=known.count + part.count,
        schema_ids=known.schema_ids | frozenset(part.schema_ids),
        ledger=ledgers_together(
            known.ledger, {part.partition: Counted(part.count, part.position_hash)}
        ),
        to_batch=max(known.to_batch, batch),
        bytes=known.bytes + (part.bytes or 0),
        operations=known.operations.plus(part.operations or OperationCounts()),
    )
