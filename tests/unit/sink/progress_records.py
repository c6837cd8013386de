"""Progress records for tests that plan from them, without Kafka or Spark."""

from __future__ import annotations

from collections.abc import Sequence

from tailrace_schemas.records.progress import PartitionProgress, Progress
from tailrace_schemas.topics.topic_names import TopicNames
from tailrace_sink.plan.progress_record import ProgressRecord

NAMES = TopicNames("p")
TOPIC = "p.shop.dbo.flights"
OTHER = "p.shop.dbo.planes"


def lsn(number: int) -> str:
    """An LSN as text."""
    return f"00000001:{number:08x}:0001"


def record(
    offset: int,
    after: int,
    through: int,
    *ranges: tuple[str, int, int],
    closed: bool = True,
    snapshotting: Sequence[str] = (),
    shard: int = 0,
    schema_id: int = 1,
    database: str = "shop",
    partition: int = 0,
    size: int | None = None,
) -> ProgressRecord:
    """A record of the LSNs (after, through] with (topic, first, next offset) of its ranges."""
    partitions = [
        PartitionProgress(topic, 0, first, end, end - first, 0, [schema_id], bytes=size)
        for topic, first, end in ranges
    ]
    progress = Progress(
        shard,
        "server",
        database,
        lsn(after),
        lsn(through),
        1000 + through,
        closed,
        2000 + offset,
        partitions,
        list(snapshotting),
    )
    return ProgressRecord(partition, offset, progress)
