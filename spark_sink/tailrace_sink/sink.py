"""The sink: progress records in, cuts of the lake out.

Knows nothing of Spark's streaming: it is given progress records, plans from the state that the
last commit row tells, applies and commits until the records hold no further cut. So a micro-batch
that is delivered twice, a lost checkpoint, or records that came before the rest of their cut all
end the same way. A batch that was begun and not committed comes first, exactly as it was planned.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import timedelta

import structlog
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tailrace_sink.batch import Applied, BatchApplier, Hook
from tailrace_sink.commit_table import COMPACT_EVERY, CommitTable
from tailrace_sink.config import SinkConfig
from tailrace_sink.errors import LakeTaken
from tailrace_sink.intent import Intent
from tailrace_sink.jvm_errors import translated
from tailrace_sink.lake_table import table_path
from tailrace_sink.metrics import SinkMetrics
from tailrace_sink.progress import BatchPlan, SchemaById, SinkState, plan_batch
from tailrace_sink.session import small_batch_session
from tailrace_sink.topic_ranges import ProgressRecord

_log = structlog.get_logger("tailrace.sink")


class Sink:
    """One prefix into one lake.

    Args:
        spark: the application's session.
        config: the options.
        schema_by_id: the registry's look-up.
        metrics: Prometheus figures.
        hook: called after each table and each commit row; tests stop a batch with it.
        now_s: clock, seconds since the epoch.
    """

    def __init__(
        self,
        spark: SparkSession,
        config: SinkConfig,
        schema_by_id: SchemaById,
        *,
        metrics: SinkMetrics | None = None,
        hook: Hook | None = None,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self.config = config
        self.metrics = metrics or SinkMetrics()
        session = small_batch_session(spark)
        self._commits = CommitTable(session, config.commits_path)
        self._intent = Intent(session, config.intent_path, config.commits_path)
        self._begun: BatchPlan | None = None
        self._applier = BatchApplier(session, config, schema_by_id, self.metrics, hook)
        self._hook = hook
        self._now_s = now_s
        self._pending: dict[tuple[int, int], ProgressRecord] = {}
        self._commits_version = -1
        self._committed_batch = 0
        self._rows_since_compaction = 0
        self._retention_is_set = False
        self.state = SinkState()

    def open(self) -> SinkState:
        """Read where the lake stands; call again after a failure.

        Raises:
            SinkError: the lake cannot be read.
        """
        try:
            self._commits.ensure()
            self._commits_version = self._commits.version()
            self.state = self._commits.last()
            self._committed_batch = self.state.batch
            self._begun = self._intent.read(self._committed_batch)
        except (PySparkException, Py4JError) as error:
            raise translated(f"commit table {self.config.commits_path}", error) from error
        if self._begun is not None:
            _log.info("batch_resumed", batch=self._begun.following.batch)
        for topic, reason in self.state.stopped.items():
            self._tell_stopped(topic, reason)
        self._pending.clear()
        self._applier.forget()
        if not self._retention_is_set:
            self._applier.set_retention(self._known_paths())
            self._retention_is_set = True
        _log.info("lake_opened", batch=self.state.batch, closed_lsn=self.state.closed_lsn)
        return self.state

    def _known_paths(self) -> set[str]:
        """Paths of all tables that the lake may have, those out of the cut among them."""
        state = self.state
        paths = set(state.versions)
        for topic in {*state.offsets, *state.held, *state.stopped}:
            table = self.config.topics.table_of(topic)
            if table is not None:
                paths |= {table_path(table), table_path(table, is_changes=True)}
        return paths

    def close(self) -> None:
        """End the workers."""
        self._applier.close()

    def next_offsets(self) -> dict[int, int]:
        """Where to read the progress topic from, by partition; empty means from its beginning."""
        first: dict[int, int] = {}
        for position in self.state.shards.values():
            known = first.get(position.partition, position.next_offset)
            first[position.partition] = min(known, position.next_offset)
        return first

    def process(self, records: Iterable[ProgressRecord], stop: threading.Event) -> int:
        """Take progress records and commit every cut that they close.

        Args:
            records: in any order; those already applied are ignored.
            stop: looked at between batches.

        Returns:
            How many commit rows were written.

        Raises:
            SinkError: a batch failed; the lake stands at the last commit row.
            RegistryError: a schema could not be looked up.
        """
        for record in records:
            self._pending[record.partition, record.offset] = record
        committed = 0
        while not stop.is_set():
            plan = self._begun or plan_batch(
                self.state,
                self._pending.values(),
                self.config.topics,
                changes_max=self.config.changes_per_batch,
                shards=self.config.shards,
            )
            if plan is None:
                break
            if plan.moves:
                self._commit(plan)
                committed += 1
            else:
                # A heartbeat: nothing to see for readers, and no row worth a file.
                self.state = plan.following
                self._report_lag(plan)
            self._drop_passed()
        return committed

    def _commit(self, plan: BatchPlan) -> None:
        started = time.monotonic()
        self._check_single_writer()
        if plan is not self._begun:
            self._begin(plan)
        applied = self._applier.apply(plan)
        state = self._following(plan, applied)
        for topic, error in applied.stopped.items():
            self._tell_stopped(topic, str(error))
        for topic in self.state.stopped.keys() - state.stopped.keys():
            self._tell_goes_on(topic)
        try:
            self._commits.append(state, plan.count)
            self._commits_version = self._commits.version()
        except (PySparkException, Py4JError) as error:
            raise translated(f"commit table {self.config.commits_path}", error) from error
        self.state = state
        self._begun = None
        self._committed_batch = state.batch
        if self._hook is not None:
            self._hook("committed", "")
        seconds = time.monotonic() - started
        self.metrics.batches.inc()
        self.metrics.changes.inc(plan.count)
        self.metrics.batch_seconds.observe(seconds)
        self._report_lag(plan)
        _log.info(
            "batch_committed",
            batch=state.batch,
            closed_lsn=state.closed_lsn,
            rows=plan.count,
            tables=len(applied.versions),
            seconds=round(seconds, 3),
            lag_ms=round(self._now_s() * 1000) - plan.published_ms,
        )
        self._compact_now_and_then()
        self._applier.tidy(state.versions)

    def _begin(self, plan: BatchPlan) -> None:
        """Write the plan down, before any table sees it."""
        try:
            self._intent.write(plan, self._committed_batch)
        except (PySparkException, Py4JError) as error:
            raise translated(f"writing {self.config.intent_path}", error) from error
        self._begun = plan

    def _withdraw(self) -> None:
        try:
            self._intent.withdraw()
        except (PySparkException, Py4JError) as error:
            raise translated(f"writing {self.config.intent_path}", error) from error
        self._begun = None

    def _following(self, plan: BatchPlan, applied: Applied) -> SinkState:
        """The state after a batch: no table is in the cut that does not stand at its LSN.

        Raises:
            SinkError: the only table cannot go on.
        """
        stopped = dict(plan.following.stopped)
        stopped |= {topic: str(error) for topic, error in applied.stopped.items()}
        versions = {**self.state.versions, **applied.versions}
        for topic in {*plan.following.held, *stopped}:
            table = self.config.topics.table_of(topic)
            if table is not None:
                versions.pop(table_path(table), None)
                versions.pop(table_path(table, is_changes=True), None)
        if applied.stopped and not versions and not plan.following.held:
            # Nothing was written: with more records, a snapshot among them, it may go another way.
            self._withdraw()
            raise next(iter(applied.stopped.values()))
        return replace(plan.following, versions=versions, stopped=stopped)

    def _tell_stopped(self, topic: str, reason: str) -> None:
        table = str(self.config.topics.table_of(topic) or topic)
        _log.error(
            "table_stopped",
            table=table,
            reason=reason,
            effect="the other tables go on; this one is not part of the lake's cuts until it comes"
            " with a new snapshot",
        )
        self.metrics.stopped_tables.labels(table=table).set(1)

    def _tell_goes_on(self, topic: str) -> None:
        table = str(self.config.topics.table_of(topic) or topic)
        _log.info("table_restarted", table=table)
        self.metrics.stopped_tables.labels(table=table).set(0)

    def _check_single_writer(self) -> None:
        """Only this process may have moved the lake since it last looked."""
        version = self._commits.version()
        if version == self._commits_version:
            return
        found = self._commits.last()
        if found.batch != self._committed_batch:
            raise LakeTaken(self.config.lake, self._committed_batch, found.batch)
        self._commits_version = version

    def _compact_now_and_then(self) -> None:
        self._rows_since_compaction += 1
        if self._rows_since_compaction < COMPACT_EVERY:
            return
        self._rows_since_compaction = 0
        keep = timedelta(days=self.config.commit_retention_days)
        try:
            self._commits.compact(keep, self.state.batch)
            self._commits_version = self._commits.version()
        except (PySparkException, Py4JError) as error:
            raise translated(f"compaction of {self.config.commits_path}", error) from error

    def _report_lag(self, plan: BatchPlan) -> None:
        self.metrics.lag_seconds.set(self._now_s() - plan.published_ms / 1000)
        if plan.following.closed_commit_ms is not None:
            self.metrics.closed_commit_seconds.set(plan.following.closed_commit_ms / 1000)

    def _drop_passed(self) -> None:
        passed = {shard: position.next_offset for shard, position in self.state.shards.items()}
        self._pending = {
            place: record
            for place, record in self._pending.items()
            if record.offset >= passed.get(record.progress.shard, 0)
        }
