"""The records that a reshard writes: those of the new map, built from the old shards' records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from tailrace_publisher.checkpoint.published import Published
from tailrace_publisher.encode.records import CheckpointEncoder, registered
from tailrace_publisher.runtime import DatabaseTopics
from tailrace_schemas.position.lsn import Lsn
from tailrace_schemas.records.checkpoint import CheckpointKey, DatabaseCheckpoint, TableCheckpoint
from tailrace_schemas.records.progress import PROGRESS_SCHEMA, Progress
from tailrace_schemas.records.shards import MAP_KEY, ShardMap
from tailrace_schemas.topics.topic_names import TableName, value_subject

Message = tuple[bytes | None, bytes | None, int]
"""Key, value and partition."""


@dataclass(frozen=True, slots=True)
class OldShard:
    """The stored records of one shard of the old map.

    Attributes:
        own: the database's own record.
        published: its newest progress record.
    """

    own: DatabaseCheckpoint
    tables: Mapping[TableName, TableCheckpoint]
    published: Published


class Plan:
    """The records of a new map, from those of the old shards.

    Args:
        topics: of the first old shard.
        old: the records of each old shard, by its number.
        closed_lsn: of all old shards.

    Attributes:
        tables: how many each new shard has.
        moved: how many of them have another shard than before.
    """

    def __init__(
        self, topics: DatabaseTopics, after: ShardMap, old: list[OldShard], closed_lsn: Lsn
    ) -> None:
        self._topics = topics
        self._after = after
        self._old = old
        self._closed_lsn = closed_lsn
        self._now_ms = topics.kafka.clock.now_ms()
        tables = [0] * after.shards
        self.moved = 0
        for number, shard in enumerate(old):
            for table in shard.tables:
                tables[self._shard_of(table)] += 1
                self.moved += self._shard_of(table) != number
        self.tables = tuple(tables)

    def map_record(self) -> Message:
        """Return the record for the control topic."""
        return MAP_KEY, self._after.to_bytes(), 0

    def checkpoints(self) -> Iterator[Message]:
        """Yield the database's record of each shard, and the records of tables that move."""
        encoder = CheckpointEncoder(self._topics.registry, self._topics.names.offsets)
        server, database = self._topics.server, self._topics.database
        own_key = encoder.key(CheckpointKey(server, database))
        for number in range(self._after.shards):
            yield own_key, encoder.value(self._own(number)), number
        for number, shard in enumerate(self._old):
            for table, record in shard.tables.items():
                new = self._shard_of(table)
                if new != number:
                    table_key = encoder.key(CheckpointKey(server, database, table))
                    yield table_key, encoder.value(record), new
                    yield table_key, None, number

    def progress(self) -> Iterator[Message]:
        """Yield a record of each shard that closes the LSN with the new number of shards."""
        topics, closed = self._topics, str(self._closed_lsn)
        subject = value_subject(topics.names.progress)
        encoder = registered(topics.registry, subject, PROGRESS_SCHEMA)
        known = [shard.published.closed_commit_ms for shard in self._old]
        commit_ms = max((ms for ms in known if ms is not None), default=None)
        for number in range(self._after.shards):
            record = Progress(
                shard=number,
                server=topics.server,
                database=topics.database,
                after_lsn=closed,
                closed_lsn=closed,
                closed_commit_ms=commit_ms,
                closed=True,
                published_ms=self._now_ms,
                shards=self._after.shards,
            )
            yield None, encoder.encode(record.to_record()), number

    def _own(self, number: int) -> DatabaseCheckpoint:
        """Return a shard's own record.

        A new shard starts at the first signal that some old shard has not read.
        """
        if number < len(self._old):
            return self._of_the_map(self._old[number].own)
        seen = [shard.own.signals_offset for shard in self._old]
        known = [offset for offset in seen if offset is not None]
        offset = min(known) if len(known) == len(seen) else None
        return replace(self._of_the_map(self._old[0].own), signals_offset=offset)

    def _of_the_map(self, own: DatabaseCheckpoint) -> DatabaseCheckpoint:
        return replace(own, written_ms=self._now_ms, map_number=self._after.number)

    def _shard_of(self, table: TableName) -> int:
        try:
            return self._after.shard_of(self._topics.names.data(table))
        except ValueError:  # it can have no topic
            return 0
