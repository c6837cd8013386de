"""Groups of progress records: whole source transactions of one shard, as many as a cut takes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tailrace_sink.errors import ForeignRecord, LsnWentBackwards, ProgressGap
from tailrace_sink.progress_record import ProgressRecord
from tailrace_sink.sink_state import SinkState


@dataclass(frozen=True, slots=True)
class Group:
    """Records of one shard up to and including one that closes an LSN."""

    shard: int
    records: tuple[ProgressRecord, ...]

    @property
    def after_lsn(self) -> str:
        """Closed LSN of the record before the group."""
        return self.records[0].progress.after_lsn

    @property
    def closed_lsn(self) -> str:
        """The LSN that the group closes."""
        return self.records[-1].progress.closed_lsn

    @property
    def count(self) -> int:
        """Changes by the ledger."""
        return sum(record.count for record in self.records)

    @property
    def bytes(self) -> int:
        """Bytes of their values, as far as the ledger tells."""
        parts = (part for record in self.records for part in record.progress.partitions)
        return sum(part.bytes or 0 for part in parts)


@dataclass(frozen=True, slots=True)
class Bound:
    """How much one cut or batch takes; at least one closed LSN, whatever it has.

    Attributes:
        changes: by the ledger.
        bytes: of their values, as far as the ledger tells.
    """

    changes: int
    bytes: int = 1 << 62

    def allows(self, changes: int, size: int) -> bool:
        """Whether so many changes of so many bytes are within it."""
        return changes <= self.changes and size <= self.bytes


def shards_by_now(shards: int, groups: Iterable[Group]) -> int:
    """How many shards there are when some groups are passed.

    Args:
        shards: how many there are at least.
        groups: of records, each of which says it.
    """
    told = (record.progress.shards for group in groups for record in group.records)
    return max(shards, max(told, default=1))


def groups_by_shard(state: SinkState, records: Iterable[ProgressRecord]) -> dict[int, list[Group]]:
    """The groups of records that were not passed, by shard.

    Raises:
        ProgressGap: a record does not join on to the one before it.
        LsnWentBackwards: a record closes an older LSN than the one before it.
        ForeignRecord: a record is from another database.
    """
    by_shard: dict[int, list[ProgressRecord]] = {}
    for record in sorted(records, key=lambda record: (record.partition, record.offset)):
        by_shard.setdefault(record.progress.shard, []).append(record)
    return {shard: _groups(state, shard, found) for shard, found in by_shard.items()}


def _groups(state: SinkState, shard: int, records: Sequence[ProgressRecord]) -> list[Group]:
    position = state.shards.get(shard)
    through = position.closed_lsn if position else None
    groups: list[Group] = []
    open_records: list[ProgressRecord] = []
    for record in records:
        if position is not None and record.offset < position.next_offset:
            continue
        progress = record.progress
        if state.database and (progress.server, progress.database) != (
            state.server,
            state.database,
        ):
            raise ForeignRecord(
                f"progress record at offset {record.offset} is about {progress.server}/"
                f"{progress.database}, the lake follows {state.server}/{state.database}: LSNs of"
                " two databases do not compare; give each a prefix and a lake of its own"
            )
        if through is not None:
            if progress.closed_lsn < through:
                raise LsnWentBackwards(shard, through, progress.closed_lsn, record.offset)
            if progress.after_lsn > through:
                raise ProgressGap(shard, through, progress.after_lsn, record.offset)
        through = progress.closed_lsn
        open_records.append(record)
        if progress.closed:
            groups.append(Group(shard, tuple(open_records)))
            open_records = []
    return groups
