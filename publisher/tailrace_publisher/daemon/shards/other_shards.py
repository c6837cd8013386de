"""What other shards of a database publish: the name of each table, by its object id.

A renamed table may belong to another shard than before, and each shard has its own partition of the
checkpoint. So a publisher that discovers an unknown table first reads the others' partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from tailrace_publisher.change.instance import CaptureInstance
from tailrace_publisher.checkpoint.reader import read_checkpoints
from tailrace_publisher.runtime import DatabaseTopics
from tailrace_schemas.records.checkpoint import TableCheckpoint
from tailrace_schemas.records.shards import Shard
from tailrace_schemas.topics.topic_names import TableName


class OtherShards:
    """The tables in the other shards' checkpoints, read when a table is new to this shard.

    Attributes:
        published_as: the name of each table there, by its object id, as last read.
    """

    def __init__(self, topics: DatabaseTopics) -> None:
        self._topics = topics
        self._queried: set[int] = set()
        self.published_as: Mapping[int, TableName] = {}

    def look_for(self, instances: Iterable[CaptureInstance]) -> None:
        """Read what the others publish, unless that was done for these tables before.

        Raises:
            CheckpointUnavailable, CheckpointError, RegistryError: it cannot be read.
        """
        ids = {instance.source_object_id for instance in instances}
        if self._topics.shard.is_whole or ids <= self._queried:
            return
        self._queried |= ids
        self.look()

    def look(self) -> None:
        """Read what the others publish.

        Raises:
            CheckpointUnavailable, CheckpointError, RegistryError: it cannot be read.
        """
        own = self._topics.shard
        self.published_as = {
            record.source_object_id: name
            for number in range(own.map.shards)
            if number != own.number
            for name, record in self._of(Shard(number, own.map))
            if record.source_object_id is not None
        }

    def _of(self, shard: Shard) -> Iterable[tuple[TableName, TableCheckpoint]]:
        # Its publisher runs, so waiting for its open transaction could take until that times out.
        topics = replace(self._topics, shard=shard)
        return read_checkpoints(topics, isolation="read_uncommitted").tables.items()
