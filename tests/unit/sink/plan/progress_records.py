"""Progress records, and the cuts planned from them, without Kafka or Spark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tailrace_schemas.records.progress import PartitionProgress, Progress
from tailrace_schemas.topics.topic_names import TopicNames
from tailrace_sink.options.batch_bound import Bound
from tailrace_sink.plan.batch_plan import plan_batch
from tailrace_sink.plan.progress_groups import Backlog
from tailrace_sink.plan.progress_record import ProgressRecord
from tailrace_sink.plan.sink_state import BatchPlan, SinkState

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
    schema_id: int = 1,
    database: str = "shop",
    size: int | None = None,
) -> ProgressRecord:
    """A record of the LSNs (after, through] with (topic, first, next offset) of its ranges."""
    partitions = [
        PartitionProgress(topic, 0, first, end, end - first, 0, [schema_id], bytes=size)
        for topic, first, end in ranges
    ]
    progress = Progress(
        0,
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
    return ProgressRecord(0, offset, progress)


def plan(
    state: SinkState, records: Iterable[ProgressRecord], changes_max: int = 10**6
) -> BatchPlan | None:
    """The next batch, if there is one."""
    return plan_batch(state, Backlog.of(state, records), NAMES, Bound(changes_max))


def planned(
    state: SinkState, records: Iterable[ProgressRecord], changes_max: int = 10**6
) -> BatchPlan:
    """The next batch, which there is."""
    found = plan(state, records, changes_max)
    assert found is not None
    return found


def ranges(found: BatchPlan) -> dict[str, dict[int, tuple[int, int]]]:
    """First and next offset of each partition that a batch reads, by topic."""
    return {topic.topic: dict(topic.partitions) for topic in found.topics}
