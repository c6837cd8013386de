"""From progress records to cuts of the log.

A cut is read from Kafka at the exact offsets that the ledger names, and appended unchanged. Changes
that Kafka no longer has are left out and named in the cut, so that the fold stops their tables. A
cut that waits for a transaction marker or a broker is retried and never counts as lost.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

import structlog
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from tailrace_schemas.events.framing import split_frame
from tailrace_sink.errors import KafkaUnavailable, LakeTaken, SinkError
from tailrace_sink.intake.cut_topics import CutTopics
from tailrace_sink.intake.expired_progress import LateBeginning
from tailrace_sink.intake.log_appends import LogAppends
from tailrace_sink.intake.log_owner import LogOwner
from tailrace_sink.kafka.offset_bounds import TopicCheck
from tailrace_sink.log.sink_parts import SinkParts
from tailrace_sink.plan.cut_plan import LogCut, plan_cut
from tailrace_sink.plan.log_state import Logged
from tailrace_sink.plan.progress_groups import Backlog
from tailrace_sink.plan.progress_record import ProgressRecord
from tailrace_sink.plan.sink_state import SinkState
from tailrace_sink.spark.jvm_errors import translated

_IDLE_RECORDS_MAX: Final = 500
"""Waiting progress records without news that are appended alone; fewer wait for the next cut."""

_OLD_MS: Final = 3_600_000
"""Age of records that may be gone: the brokers are queried before reading them fails."""

_log = structlog.get_logger("tailrace.sink")


class LogWriter:
    """Writer of the log of one lake."""

    def __init__(self, parts: SinkParts) -> None:
        self._config = parts.config
        self._log = parts.log
        self._schemas = parts.schemas
        self._metrics, self._traces = parts.metrics, parts.traces
        self._hook, self._now_s = parts.hook, parts.now_s
        self._topics = CutTopics(parts.config, TopicCheck(parts.spark, parts.config.kafka))
        self._appends = LogAppends(parts)
        small = self._appends.small_session
        self._late = LateBeginning(small, parts.config, parts.schemas.schema_by_id)
        self._owner = LogOwner(parts, self._appends, self._topics)
        self._last = self._owner.nothing_yet
        self._backlog = Backlog(self.state)
        self._only_named_lsn = ""
        self.on_logged: Callable[[Logged], None] = _nothing
        self.on_late: Callable[[SinkState], None] = _nothing

    @property
    def state(self) -> SinkState:
        """State of the log."""
        return self._last.state

    def complete(self, tables: SinkState) -> SinkState:
        """Return the state up to which the lake has all events, in its log or in its tables.

        The log only names a bulk cut. Its events are in Kafka alone until its batch is applied.

        Args:
            tables: the state of the tables.
        """
        return self.state if tables.closed_lsn >= self._only_named_lsn else tables

    @property
    def epoch(self) -> int:
        """Epoch of this sink; 0 before ``open``."""
        return self._last.epoch

    def open(self, of_tables: Callable[[], SinkState]) -> SinkState:
        """Take the log over at the first call; read its state again after a failure.

        Args:
            of_tables: reads the state of the newest commit row, from which a new log starts.

        Raises:
            LakeTaken: another sink has started since.
            SinkError: the log cannot be read.
        """
        try:
            self._log.ensure()
            if self.epoch == 0:
                self._last = self._owner.take_over(of_tables)
            else:
                self._last = self._owner.look_again(self._last)
        except (PySparkException, Py4JError) as error:
            raise translated(f"log {self._log.path}", error) from error
        self._backlog = Backlog(self.state)
        self._only_named_lsn = self.state.closed_lsn  # earlier cuts may be bulk cuts
        _log.info(
            "log_opened", batch=self.state.batch, closed_lsn=self.state.closed_lsn, epoch=self.epoch
        )
        return self.state

    def continue_after_loss(self) -> None:
        """Continue after lost progress records, if the progress topic lacks those that come next.

        Raises:
            SinkError: Kafka does not answer, or the lake cannot be written.
            RegistryError: a schema could not be looked up.
        """
        begun = self._late.of(self.state)
        if begun is None:
            return
        state, named = begun
        try:
            # Tables first: a sink that is killed in between finds the loss again.
            self.on_late(state)
            self._last = self._owner.begin_late(self._last, state, named)
        except (PySparkException, Py4JError) as error:
            raise translated(f"log {self._log.path}", error) from error
        self._backlog = Backlog(self.state)

    def process(self, records: Iterable[ProgressRecord], should_stop: Callable[[], bool]) -> int:
        """Append every cut that progress records close.

        Args:
            records: in any order; known ones are ignored.
            should_stop: called between cuts; True ends the call.

        Returns:
            Number of cuts appended.

        Raises:
            ProgressGap, LsnWentBackwards, ForeignRecord: a record does not follow the one before.
            SinkError: a cut failed; those before it are in the log.
            RegistryError: the registry does not answer.
        """
        self._backlog.add(records)
        appended = 0
        while not should_stop():
            cut = plan_cut(
                self.state,
                self._last.named,
                self._backlog,
                self._config.topics,
                self._config.bound,
            )
            self._metrics.waiting.labels(stage="log").set(self._backlog.count)
            if cut is None:
                break
            if not cut.moves and self._backlog.length < _IDLE_RECORDS_MAX:
                self._metrics.logged_through(cut.published_ms)
                break
            self._append(cut)
            appended += 1
        return appended

    def _append(self, cut: LogCut) -> None:
        started, began_s = time.monotonic(), self._now_s()
        self._hook("appending", "")
        topics, lost = self._topics.selected(cut.topics)
        of_events = {schema_id for of in topics.values() for schema_id in of.schema_ids}
        of_progress = {split_frame(record.value)[0] for record in cut.records}
        self._schemas.keep(of_events | of_progress)
        before = self.state.batch
        is_bulk = self._config.is_bulk(sum(found.count for found in topics.values()))
        if is_bulk or self._now_s() * 1000 - cut.published_ms > _OLD_MS:
            lost |= self._topics.take_out_gone(topics)
        state = replace(
            self._last,
            state=cut.following,
            named=cut.named,
            lost=lost,
            published_ms=cut.published_ms,
            is_start=False,
            in_kafka=topics if is_bulk else {},
        )
        while True:
            try:
                self._appends.append(before, state, cut.records, topics)
                break
            except SinkError as error:
                gone = self._topics.take_out_gone(topics)
                if not gone:
                    raise _as_waiting(error) from error
                lost |= gone
                state = replace(state, lost=lost)
        mark = self._log.mark()
        if mark != state.mark:
            raise LakeTaken(
                self._config.lake, state.state.batch, -1 if mark is None else mark.batch
            )
        self._last = state
        if is_bulk:
            self._only_named_lsn = state.state.closed_lsn
        seconds = time.monotonic() - started
        self._metrics.logged(cut.count, seconds, cut.published_ms)
        _log.info(
            "cut_logged",
            batch=state.state.batch,
            closed_lsn=state.state.closed_lsn,
            changes=cut.count,
            topics=len(topics),
            seconds=round(seconds, 3),
            lag_ms=round(self._now_s() * 1000) - cut.published_ms,
        )
        records = tuple(
            replace(record, batch=state.state.batch, lost=lost, in_kafka=is_bulk)
            for record in cut.records
        )
        self.on_logged(Logged(before, state.state.batch, records))
        self._traces.logged(cut.records, state.state.batch, began_s, self._now_s())
        self._hook("logged", "")


def _as_waiting(error: SinkError) -> SinkError:
    """Convert an error to a retryable one, as nothing was lost."""
    return error if error.retryable else KafkaUnavailable(str(error))


def _nothing(_of: object) -> None:
    """Do nothing."""
