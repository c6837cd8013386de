"""Continuing after progress records that Kafka deleted before the lake read them (ADR 0022).

The lost records counted changes and named the snapshots that started and ended in between. A
snapshot of an empty table leaves nothing in its data topic. So nothing proves that any table is
complete, whatever its topic still holds. The lake continues at the newest closed record. Every
table leaves the cuts, and returns with a new snapshot.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
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
from tailrace_sink.plan.sink_state import Position, SinkState, later_of
from tailrace_sink.plan.topic_ranges import TopicRange

_TAIL: Final = 1_000
"""Records that are read first; ten times as many each time until one closes an LSN."""

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
            The state, and the topics of unfinished snapshots.

        Raises:
            KafkaUnavailable: the topic holds no newer closed record yet.
            LsnWentBackwards: the newest record closes an older LSN than the lake has.
        """
        topic, bounds, needed = self._progress.name, self._progress.bounds(), state.next_offset or 0
        if bounds is None or needed >= bounds.start:
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
            f" {needed} on, so changes of the table may be missing. Fix: take a new"
            f" snapshot of the table {SNAPSHOT_HELPS}"
        )
        begun = begin_at(state, newest, tables, why)
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
        named = frozenset(newest.progress.snapshotting)
        return replace(begun, stopped={**begun.stopped, **left_out}), named

    def _newest_closed(self, bounds: Bounds) -> ProgressRecord:
        """Find the newest record that closes an LSN."""
        back, end = _TAIL, bounds.stable_end
        while True:
            first = max(bounds.start, end - back)
            records = itertools.chain.from_iterable(self._progress.between(first, end))
            closed = (record for record in records if record.progress.closed)
            newest = max(closed, key=lambda record: record.offset, default=None)
            if newest is not None:
                return newest
            if first == bounds.start:
                raise KafkaUnavailable(
                    f"topic {self._progress.name} has lost records that the lake needs, and lacks"
                    " a newer closed one: waiting for the publisher"
                )
            back *= 10


def begin_at(
    state: SinkState, newest: ProgressRecord, topics: Iterable[str], why: str
) -> SinkState:
    """Compute the state of a lake that continues after a record. Pure.

    Args:
        state: the one before the loss.
        newest: the newest record that closes an LSN.
        topics: all existing data topics.
        why: reason of the tables that stop.

    Returns:
        A state without a table in its cut. A table whose snapshot runs is held as torn: the start
        of its snapshot is lost, so it stops when the snapshot ends.

    Raises:
        LsnWentBackwards: the source is not the one that the lake follows.
    """
    progress, known = newest.progress, state.position
    if known is not None and progress.closed_lsn < known.closed_lsn:
        raise LsnWentBackwards(known.closed_lsn, progress.closed_lsn, newest.offset)
    held = {
        topic: TopicRange(topic, {}, 0, frozenset(), torn=why) for topic in progress.snapshotting
    }
    return replace(
        state,
        batch=newest.offset + 1,
        closed_lsn=progress.closed_lsn,
        closed_commit_ms=later_of(state.closed_commit_ms, progress.closed_commit_ms),
        position=Position.after(newest),
        held=held,
        stopped={**state.stopped, **{topic: why for topic in topics if topic not in held}},
        versions={},
        server=progress.server,
        database=progress.database,
    )
