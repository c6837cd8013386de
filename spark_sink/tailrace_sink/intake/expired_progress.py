"""Continuing after progress records that Kafka deleted before the lake read them (ADR 0022).

The lost records counted changes and named the snapshots that started and ended in between. A
snapshot of an empty table leaves nothing in its data topic. So nothing proves that any table is
complete, whatever its topic still holds. The lake continues at the newest closed record. Every
table leaves the cuts, and returns with a new snapshot.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

import structlog
from pyspark.sql import SparkSession

from tailrace_sink.errors import EXCLUDED, SNAPSHOT_HELPS, KafkaUnavailable, LsnWentBackwards
from tailrace_sink.kafka.offset_bounds import Bounds, TopicCheck
from tailrace_sink.kafka.progress_topic import ProgressTopic
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.plan.cut_plan import Named
from tailrace_sink.plan.progress_record import ProgressRecord, SchemaById
from tailrace_sink.plan.sink_state import ShardPosition, SinkState, later_of
from tailrace_sink.plan.topic_ranges import TopicRange

_TAIL: Final = 1_000
"""Records that are read first; ten times as many each time until every shard closed an LSN."""

_log = structlog.get_logger("tailrace.sink")


class LateBeginning:
    """Detection of lost progress records, and the state after them.

    Args:
        spark: a session for small reads.
    """

    def __init__(self, spark: SparkSession, config: SinkConfig, schema_by_id: SchemaById) -> None:
        self._config = config
        self._progress = ProgressTopic(spark, config, schema_by_id)
        self._check = TopicCheck(spark, config.kafka)

    def of(self, state: SinkState) -> tuple[SinkState, Named] | None:
        """Return the state to continue from; None if no record is lost.

        Args:
            state: the state of the log.

        Returns:
            The state, and the topics of unfinished snapshots by shard.

        Raises:
            KafkaUnavailable: the topic holds no closed record of some shard yet.
            LsnWentBackwards: the newest record closes an older LSN than the lake has.
        """
        topic, bounds = self._progress.name, self._progress.bounds()
        needed = dict.fromkeys(bounds, 0)
        for position in state.shards.values():
            needed[position.partition] = position.next_offset
        gone = {p: needed[p] for p, of in bounds.items() if needed[p] < of.start}
        if not gone:
            return None
        newest = self._newest_closed(bounds)
        names = self._config.topics
        tables = {
            topic: table
            for topic in {*self._check.topics(), *state.offsets, *state.stopped}
            if (table := names.table_of(topic)) is not None
        }
        why = (
            f"topic {topic} no longer has the progress records from offset"
            f" {min(gone.values())} on, so changes of the table may be missing. Fix: take a new"
            f" snapshot of the table {SNAPSHOT_HELPS}"
        )
        begun = begin_at(state, newest.values(), tables, why)
        selects = self._config.tables.selects
        left_out = {found: EXCLUDED for found, table in tables.items() if not selects(table)}
        _log.error(
            "lake_begins_late",
            reason=why,
            closed_lsn=begun.closed_lsn,
            tables=sorted(str(tables[found]) for found in tables.keys() - left_out.keys()),
            effect="no table is part of the lake's cuts until its new snapshot has ended",
            requested=self._config.request_snapshots,
        )
        named = {shard: frozenset(of.progress.snapshotting) for shard, of in newest.items()}
        return replace(begun, stopped={**begun.stopped, **left_out}), named

    def _newest_closed(self, bounds: Mapping[int, Bounds]) -> dict[int, ProgressRecord]:
        """Find the newest record of each shard that closes an LSN."""
        back = _TAIL
        end = {p: of.stable_end for p, of in bounds.items()}
        while True:
            first = {p: max(of.start, of.stable_end - back) for p, of in bounds.items()}
            newest: dict[int, ProgressRecord] = {}
            for record in itertools.chain.from_iterable(self._progress.between(first, end)):
                known = newest.get(record.progress.shard)
                if record.progress.closed and (known is None or known.offset < record.offset):
                    newest[record.progress.shard] = record
            told = (record.progress.shards for record in newest.values())
            if len(newest) >= max(self._config.shards, max(told, default=1)):
                return newest
            if all(first[p] == of.start for p, of in bounds.items()):
                raise KafkaUnavailable(
                    f"topic {self._progress.name} has lost records that the lake needs, and lacks"
                    " a newer closed one of some shard: waiting for the publisher"
                )
            back *= 10


def begin_at(
    state: SinkState, newest: Iterable[ProgressRecord], topics: Iterable[str], why: str
) -> SinkState:
    """Compute the state of a lake that continues after some records. Pure.

    Args:
        state: the one before the loss.
        newest: the newest closed record of each shard.
        topics: all existing data topics.
        why: reason of the tables that stop.

    Returns:
        A state without a table in its cut. A table whose snapshot runs is held as torn: the start
        of its snapshot is lost, so it stops when the snapshot ends.

    Raises:
        LsnWentBackwards: the source is not the one that the lake follows.
    """
    listed = list(newest)
    shards: dict[int, ShardPosition] = {}
    held: dict[str, TopicRange] = {}
    for record in listed:
        progress = record.progress
        known = state.shards.get(progress.shard)
        if known is not None and progress.closed_lsn < known.closed_lsn:
            raise LsnWentBackwards(
                progress.shard, known.closed_lsn, progress.closed_lsn, record.offset
            )
        shards[progress.shard] = ShardPosition(
            record.partition, record.offset + 1, progress.closed_lsn
        )
        for topic in progress.snapshotting:
            held[topic] = TopicRange(topic, progress.shard, {}, 0, frozenset(), torn=why)
    slowest = min(listed, key=lambda record: record.progress.closed_lsn).progress
    return replace(
        state,
        batch=sum(position.next_offset for position in shards.values()),
        closed_lsn=slowest.closed_lsn,
        closed_commit_ms=later_of(state.closed_commit_ms, slowest.closed_commit_ms),
        shards=shards,
        held=held,
        stopped={**state.stopped, **{topic: why for topic in topics if topic not in held}},
        versions={},
        server=slowest.server,
        database=slowest.database,
    )
