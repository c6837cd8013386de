"""The fold: applies what the log has to the lake's tables.

It plans a batch from the progress records in the log, stores the plan, applies it table by table
and commits. The commit row names the LSN and the version of every table. A batch that was started
and not committed comes first, exactly as it was planned. An error in one table stops only that
table.
"""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import structlog
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from tailrace_sink.errors import (
    LakeRowsChanged,
    LakeTableChanged,
    LakeTableUnreadable,
    LakeTaken,
    UnsupportedSchemaChange,
)
from tailrace_sink.fold.batch import Applied, BatchApplier
from tailrace_sink.fold.fold_reports import FoldReports
from tailrace_sink.fold.snapshot_requests import SnapshotRequests
from tailrace_sink.log.commit_table import CommitTable
from tailrace_sink.log.intent import Intent
from tailrace_sink.log.progress_feed import Feed, LogSlices
from tailrace_sink.log.sink_parts import SinkParts
from tailrace_sink.plan.batch_plan import plan_batch
from tailrace_sink.plan.sink_state import BatchPlan, SinkState
from tailrace_sink.plan.topic_ranges import as_one, as_torn
from tailrace_sink.ports.writes import Owner
from tailrace_sink.spark.jvm_errors import translated
from tailrace_sink.spark.session import small_batch_session
from tailrace_sink.tables.lake_table import companion_paths, lake_paths, source_path
from tailrace_sink.tables.schema_record import Change, whole
from tailrace_sink.upkeep.log_maintenance import LakeUpkeep
from tailrace_sink.upkeep.table_names import TableNames

_HEALED_BY_THE_WHOLE: Final = (UnsupportedSchemaChange, LakeTableChanged, LakeTableUnreadable)
"""Errors that a whole snapshot fixes, because it replaces the lake's table."""

_log = structlog.get_logger("tailrace.sink")


class Fold:
    """The fold of one lake."""

    def __init__(self, parts: SinkParts) -> None:
        config = parts.config
        self._config = config
        self._log = parts.log
        self._tables = parts.tables
        self._metrics, self._traces = parts.metrics, parts.traces
        self._hook, self._now_s = parts.hook, parts.now_s
        session = small_batch_session(parts.spark)
        self._commits = CommitTable(session, config.commits_path)
        self._intent = Intent(session, config.intent_path, config.commits_path)
        schema_by_id = parts.schemas.schema_by_id
        self.feed = Feed(LogSlices(parts.log, config.topics.progress, schema_by_id))
        self._reports = FoldReports(config.topics, parts.metrics)
        self._applier = BatchApplier(session, parts)
        self._upkeep = LakeUpkeep(session, parts, self._commits)
        self._requests = SnapshotRequests(session, config)
        self._names = TableNames(config, parts.spark.conf.get("spark.jars", "") or "")
        self._begun: BatchPlan | None = None
        self._committed_batch = 0
        self._epoch = 0
        self._retention_is_set = False
        self._is_moved = threading.Event()
        self.state = SinkState()

    def state_of_tables(self) -> SinkState:
        """Read the state from the newest commit row; an empty state without one.

        Raises:
            SinkError: the commit table cannot be read.
        """
        try:
            self._commits.ensure()
            return self._commits.last()
        except (PySparkException, Py4JError) as error:
            raise translated(f"commit table {self._config.commits_path}", error) from error

    def begin_late(self, state: SinkState) -> None:
        """Continue from another state than that of the tables; called by the log's thread.

        Raises:
            SinkError: the commit table cannot be written.
        """
        try:
            self._commits.ensure()
            self._commits.append(state, 0, self._now_s())
        except (PySparkException, Py4JError) as error:
            raise translated(f"commit table {self._config.commits_path}", error) from error
        self._is_moved.set()

    def open(self, epoch: int) -> SinkState:
        """Read the state of the tables; call it again after a failure.

        Args:
            epoch: with which this sink owns the log.

        Raises:
            SinkError: the lake cannot be read.
        """
        self._is_moved.clear()
        state = self.state_of_tables()
        try:
            begun = self._intent.open(epoch, state.batch)
            self._begun = None if begun is None else _with_events(begun)
        except (PySparkException, Py4JError) as error:
            raise translated(f"reading {self._config.intent_path}", error) from error
        self._epoch = epoch
        self.state = state
        self._committed_batch = state.batch
        if self._begun is not None:
            _log.info("batch_resumed", batch=self._begun.following.batch)
        for topic, reason in state.stopped.items():
            self._reports.stopped(topic, reason)
        try:
            self.feed.open(state)
        except (PySparkException, Py4JError) as error:
            raise translated(f"reading {self._log.path}", error) from error
        self._upkeep.open()
        owner = Owner(self._log.id(), epoch, self._check_epoch)
        self._applier.begin(self._tables.writer(owner))
        if not self._retention_is_set:
            self._applier.set_retention(self._known_paths(), state.versions)
            self._retention_is_set = True
        self._names.want(state.versions)
        _log.info("lake_opened", batch=state.batch, closed_lsn=state.closed_lsn)
        return state

    def tidy(self, should_stop: Callable[[], bool]) -> None:
        """Maintain all tables that are due, and name those without one, before the sink ends."""
        self._applier.tidy_all(should_stop)
        self._upkeep.tend_all(self.state, self._now(), should_stop)
        self._names.settle(should_stop)

    def _now(self) -> dt.datetime:
        return dt.datetime.fromtimestamp(self._now_s(), dt.UTC)

    def close(self) -> None:
        """End the workers."""
        self._applier.close()
        self._names.close()

    def catch_up(self, stop: threading.Event, batches_max: int | None = None) -> int:
        """Apply what the log has.

        Args:
            batches_max: returns after so many; None: at the end of the log.

        Returns:
            Number of commit rows written.

        Raises:
            SinkError: a batch failed; the batches before it are committed.
            RegistryError: a schema could not be looked up.
        """
        committed = 0
        while not stop.is_set() and committed != batches_max:
            if self._is_moved.is_set():
                self.open(self._epoch)
            plan = self._next_plan()
            self._metrics.waiting.labels(stage="tables").set(self.feed.backlog().count)
            if plan is None:
                if self._has_more():
                    continue
                break
            if plan.moves:
                if not self._fold(plan, stop):
                    break
                committed += 1
            else:
                # Only heartbeats: readers would see nothing new, so no commit row is written.
                self.state = plan.following
                self._reports.lag(plan)
        self._requests.ask_for(self.state.stopped, self.state.held)
        return committed

    def _next_plan(self) -> BatchPlan | None:
        if self._begun is not None:
            # An earlier release started it without a log: its events come first.
            mark = self._log.mark()
            is_there = mark is not None and mark.batch >= self._begun.following.batch
            return self._begun if is_there else None
        return plan_batch(
            self.state,
            self.feed.backlog(),
            self._config.topics,
            self._config.bound,
            stops_at_first=True,
        )

    def _has_more(self) -> bool:
        if self._begun is not None:
            return False
        try:
            return self.feed.more()
        except (PySparkException, Py4JError) as error:
            raise translated(f"reading {self._log.path}", error) from error

    def _fold(self, plan: BatchPlan, stop: threading.Event) -> bool:
        """Apply a batch, and commit it; False if it was stopped before its publication."""
        started, began_s = time.monotonic(), self._now_s()
        self._begin(plan)
        self._metrics.batch = (plan.count, sum(topic.bytes for topic in plan.topics))
        self._hook("planned", "")
        applied = self._applier.apply(plan, self.state, stop)
        if applied is None:
            return False
        state = self._state_after(plan, applied)
        for topic in state.stopped.keys() - self.state.stopped.keys():
            self._reports.stopped(topic, state.stopped[topic])
        for topic in self.state.stopped.keys() - state.stopped.keys():
            self._reports.restarted(topic)
        try:
            changes = [*applied.schema_changes, *self._made_whole(plan)]
            self._commits.append(state, plan.count, self._now_s(), changes)
        except (PySparkException, Py4JError) as error:
            raise translated(f"commit table {self._config.commits_path}", error) from error
        before, self.state = self.state, state
        self._begun = None
        self._committed_batch = state.batch
        self._log.recent.forget(state.batch)
        self._names.want(state.versions)
        self._traces.folded(self.feed.backlog().records(), state, began_s, self._now_s())
        self._hook("committed", "")
        seconds = time.monotonic() - started
        self._metrics.committed(seconds)
        self._reports.lag(plan)
        _log.info(
            "batch_committed",
            batch=state.batch,
            closed_lsn=state.closed_lsn,
            rows=plan.count,
            tables=len(applied.versions),
            seconds=round(seconds, 3),
            lag_ms=round(self._now_s() * 1000) - plan.published_ms,
        )
        self._upkeep.after_batch(self.state, self._now())
        self._applier.tidy(before.versions, state.versions)
        return True

    def _begin(self, plan: BatchPlan) -> None:
        """Store the plan before any table changes; only the newest sink of a lake may."""
        self._check_epoch()
        if plan is self._begun:
            return
        try:
            self._intent.write(plan, self._committed_batch)
        except (PySparkException, Py4JError) as error:
            raise translated(f"writing {self._config.intent_path}", error) from error
        # A sink that starts after this check reads the intent and finishes the same batch.
        self._check_epoch()
        self._begun = plan

    def _check_epoch(self) -> None:
        mark = self._log.mark()
        if mark is not None and mark.epoch != self._epoch:
            raise LakeTaken(self._config.lake, self._committed_batch, mark.batch)

    def _state_after(self, plan: BatchPlan, applied: Applied) -> SinkState:
        """Compute the state after a batch. The cut has only tables at its LSN."""
        stopped, held = dict(plan.following.stopped), dict(plan.following.held)
        parts = {topic.topic: topic for topic in plan.topics if topic.is_part}
        for topic in held.keys() & applied.into_empty:
            held[topic] = replace(held[topic], into_empty=True)
        for topic, error in applied.stopped.items():
            if topic in held and topic in parts:
                waits = None
                if isinstance(error, _HEALED_BY_THE_WHOLE):
                    waits = as_one(held[topic], parts[topic])
                held[topic] = waits or as_torn(held[topic], str(error))
                if waits is not None:
                    self._reports.waits(topic, str(error))
                    continue
            stopped[topic] = str(error)
        versions = {**self.state.versions, **applied.versions}
        for path in applied.versions:
            for companion in companion_paths(path):
                if companion not in applied.versions:
                    # It is switched off: it leaves the cut, and may start again later.
                    versions.pop(companion, None)
        homes = {**self.state.homes, **applied.homes}
        away = [path for path, home in homes.items() if home not in ("", path)]
        for topic in {*held, *stopped}:
            table = self._config.topics.table_of(topic)
            away += [] if table is None else [table.path]
        found = applied.stopped.values()
        away += [source_path(of.path) for of in found if isinstance(of, LakeRowsChanged)]
        for path in away:
            for own in (path, *companion_paths(path)):
                versions.pop(own, None)
        homes = {path: home for path, home in homes.items() if home}
        return replace(plan.following, versions=versions, homes=homes, stopped=stopped, held=held)

    def _made_whole(self, plan: BatchPlan) -> list[Change]:
        """Return which columns have all values from which LSN on, for the commit row."""
        found = []
        for topic, column, lsn in plan.patched:
            table = self._config.topics.table_of(topic)
            if table is not None and topic not in plan.following.stopped:
                mode = str(self._config.schema_mode_of(table))
                found.append({"table": table.path, "mode": mode, **whole(column, lsn)})
        return found

    def _known_paths(self) -> set[str]:
        """Paths of all tables that the lake may have, also of those outside of the cut."""
        state = self.state
        paths = set(state.versions)
        for topic in {*state.offsets, *state.held, *state.stopped}:
            table = self._config.topics.table_of(topic)
            if table is not None:
                paths |= set(lake_paths(table))
        return paths


def _with_events(plan: BatchPlan) -> BatchPlan:
    """Let a plan of a release without a log read its events from Kafka, as that release did."""
    topics = (
        found if found.to_batch else replace(found, in_kafka=found.partitions)
        for found in plan.topics
    )
    return replace(plan, topics=tuple(topics))
