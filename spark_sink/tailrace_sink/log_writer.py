"""The front of the sink: progress records in, cuts of the log out.

A cut is read from Kafka at the exact offsets that the ledger names and appended as it is. What
Kafka no longer has is left out and named in the cut: the fold stops those tables. A cut that waits
for a transaction marker, or for a broker, is tried again and never taken for lost.
"""

from __future__ import annotations

import datetime as dt
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import structlog
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tailrace_schemas.framing import split_frame
from tailrace_sink.errors import EXCLUDED, KafkaUnavailable, LakeTaken, SinkError
from tailrace_sink.jvm_errors import translated
from tailrace_sink.kafka_bounds import TopicCheck
from tailrace_sink.kafka_ranges import read_messages
from tailrace_sink.late_beginning import LateBeginning
from tailrace_sink.log_plan import LogCut, LogRange, Named, plan_cut
from tailrace_sink.log_sql import schema_id_sql
from tailrace_sink.log_state import LogState
from tailrace_sink.parts import SinkParts
from tailrace_sink.progress import SinkState
from tailrace_sink.recent_cuts import EVENTS
from tailrace_sink.session import small_batch_session
from tailrace_sink.topic_ranges import ProgressRecord
from tailrace_sink.writes import fits_driver

_EPOCH_ATTEMPTS: Final = 5
_IDLE_RECORDS_MAX: Final = 500
"""Progress records that tell nothing new are appended with the next cut, or when so many wait."""
_OLD_MS: Final = 3_600_000
"""Records older than this may be gone: the brokers are asked before reading them fails."""

_IN_MEMORY_BYTES: Final = 1024 * 1024
"""Of values in a cut that passes the driver, and is kept for the fold (``recent_cuts``): Spark
warns of tasks that carry more."""
_NOTHING_NEW: Final = EVENTS.empty_table()

_log = structlog.get_logger("tailrace.sink")


@dataclass(frozen=True, slots=True)
class Logged:
    """A cut that is in the log.

    Attributes:
        before: batch id of the cut before it.
        batch: its batch id.
        records: its progress records.
    """

    before: int
    batch: int
    records: tuple[ProgressRecord, ...]


class LogWriter:
    """Appends cuts to the log of one lake.

    Args:
        parts: of the sink.
    """

    def __init__(self, parts: SinkParts) -> None:
        self._config = parts.config
        self._log = parts.log
        self._schemas = parts.schemas
        self._metrics, self._traces = parts.metrics, parts.traces
        self._hook, self._now_s = parts.hook, parts.now_s
        self._small, self._large = small_batch_session(parts.spark), parts.spark.newSession()
        self._check = TopicCheck(parts.spark, parts.config.kafka)
        self._late = LateBeginning(self._small, parts.config, parts.schemas.schema_by_id)
        self._pending: dict[tuple[int, int], ProgressRecord] = {}
        self._owner = uuid.uuid4().hex
        self._last = LogState(SinkState(), 0, self._owner)
        self.on_logged: Callable[[Logged], None] = _nothing
        self.on_late: Callable[[SinkState], None] = _nothing

    @property
    def state(self) -> SinkState:
        """Where the log stands."""
        return self._last.state

    @property
    def epoch(self) -> int:
        """The number of this sink's start; 0 before ``open``."""
        return self._last.epoch

    def open(self, of_tables: Callable[[], SinkState]) -> SinkState:
        """Take the log over at the first call; after a failure see where it stands.

        Args:
            of_tables: the state of the newest commit row: where the log of a lake begins that has
                none.

        Raises:
            LakeTaken: another sink has started since.
            SinkError: the log cannot be read.
        """
        try:
            self._log.ensure()
            if self.epoch == 0:
                self._take_over(of_tables)
            else:
                self._look_again()
        except (PySparkException, Py4JError) as error:
            raise translated(f"log {self._log.path}", error) from error
        self._pending.clear()
        _log.info(
            "log_opened", batch=self.state.batch, closed_lsn=self.state.closed_lsn, epoch=self.epoch
        )
        return self.state

    def look_behind(self) -> None:
        """Go on behind what the progress topic no longer has, if it lacks what comes next.

        Raises:
            SinkError: Kafka does not answer, or the lake cannot be written.
            RegistryError: a schema could not be looked up.
        """
        begun = self._late.of(self.state)
        if begun is None:
            return
        try:
            self._begin_late(*begun)
        except (PySparkException, Py4JError) as error:
            raise translated(f"log {self._log.path}", error) from error

    def next_offsets(self) -> dict[int, int]:
        """Where to read the progress topic from, by partition; empty means from its beginning."""
        first: dict[int, int] = {}
        for position in self.state.shards.values():
            known = first.get(position.partition, position.next_offset)
            first[position.partition] = min(known, position.next_offset)
        return first

    def process(self, records: Iterable[ProgressRecord], should_stop: Callable[[], bool]) -> int:
        """Take progress records and append every cut that they close.

        Args:
            records: in any order; those in the log are ignored.
            should_stop: asked between cuts.

        Returns:
            How many cuts were appended.

        Raises:
            SinkError: a cut failed; the log stands at the one before.
            RegistryError: the registry does not answer.
        """
        for record in records:
            self._pending[record.partition, record.offset] = record
        self._drop_passed()
        appended = 0
        while not should_stop():
            cut = plan_cut(
                self.state,
                self._last.named,
                self._pending.values(),
                self._config.topics,
                self._config.bound,
                shards=self._config.shards,
            )
            if cut is None:
                break
            if not cut.moves and len(self._pending) < _IDLE_RECORDS_MAX:
                self._metrics.logged_through(cut.published_ms)
                break
            self._append(cut)
            appended += 1
            self._drop_passed()
        return appended

    def _drop_passed(self) -> None:
        """Forget the records that are in the log."""
        passed = {shard: of.next_offset for shard, of in self.state.shards.items()}
        self._pending = {
            place: record
            for place, record in self._pending.items()
            if record.offset >= passed.get(record.progress.shard, 0)
        }
        waiting = sum(record.count for record in self._pending.values())
        self._metrics.waiting.labels(stage="log").set(waiting)

    def _take_over(self, of_tables: Callable[[], SinkState]) -> None:
        """Write a state row of the next epoch: whoever had the one before can write no more.

        Of two sinks that take the same epoch Delta lets one write. So whoever wrote, and finds the
        log's mark as it wrote it, has the log: nobody wrote after it.
        """
        for _ in range(_EPOCH_ATTEMPTS):
            known = self._log.last()
            if known is None:
                written = self._begin(of_tables())
            else:
                written = self._write_start(replace(known, epoch=known.epoch + 1), {})
            if written is not None and self._log.mark() == written.mark:
                self._last = written
                return
        raise LakeTaken(self._config.lake, 0, 0)

    def _begin(self, state: SinkState) -> LogState | None:
        """The first row of a new log, with what an earlier release left waiting in the topics."""
        waiting = {
            topic: LogRange(dict(held.partitions), held.count, set(held.schema_ids), held.bytes)
            for topic, held in state.held.items()
        }
        self._left_out(waiting)
        named: dict[int, frozenset[str]] = {}
        for topic, held in state.held.items():
            named[held.shard] = named.get(held.shard, frozenset()) | {topic}
        positions = replace(state, held={}, stopped={}, offsets={}, versions={})
        return self._write_start(LogState(positions, 1, self._owner, named), waiting)

    def _begin_late(self, state: SinkState, named: Named) -> None:
        """Go on behind what the progress topic no longer has; the tables first, then the log."""
        self.on_late(state)
        positions = replace(state, held={}, stopped={}, offsets={}, versions={})
        lost = {**dict.fromkeys(state.held, "its snapshot had begun before"), **state.stopped}
        self._write_start(replace(self._last, state=positions, named=named), {}, lost)
        self._look_again()

    def _write_start(
        self,
        state: LogState,
        topics: Mapping[str, LogRange],
        lost: Mapping[str, str] | None = None,
    ) -> LogState | None:
        """Write a start's state row.

        Returns:
            What was written; None when another sink was first, whose row stands in its place.
        """
        start = replace(
            state,
            owner=self._owner,
            lost=lost or {},
            is_start=True,
            prefix=self._config.prefix,
            deletes=str(self._config.delete_mode),
            bad_records=str(self._config.on_bad_record),
        )
        try:
            return start if self._write(start, (), topics) else None
        except SinkError as error:
            # Another sink that starts at the same time, most likely: see who came first.
            _log.info("log_epoch_refused", epoch=start.epoch, reason=str(error))
            if isinstance(error, KafkaUnavailable):
                raise
            return None

    def _look_again(self) -> None:
        found = self._log.last()
        if found is None or found.owner != self._owner:
            raise LakeTaken(
                self._config.lake, self.state.batch, -1 if found is None else found.state.batch
            )
        self._last = found

    def _append(self, cut: LogCut) -> None:
        started, began_s = time.monotonic(), self._now_s()
        self._hook("appending", "")
        topics, lost = self._selected(cut.topics)
        of_events = {schema_id for of in topics.values() for schema_id in of.schema_ids}
        of_progress = {split_frame(record.value)[0] for record in cut.records}
        self._schemas.keep(of_events | of_progress)
        before = self.state.batch
        if self._now_s() * 1000 - cut.published_ms > _OLD_MS:
            lost |= self._left_out(topics)
        state = replace(
            self._last,
            state=cut.following,
            named=cut.named,
            lost=lost,
            published_ms=cut.published_ms,
            is_start=False,
        )
        while True:
            try:
                self._write(state, cut.records, topics)
                break
            except SinkError as error:
                gone = self._left_out(topics)
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
            replace(record, batch=state.state.batch, lost=lost) for record in cut.records
        )
        self.on_logged(Logged(before, state.state.batch, records))
        self._traces.logged(cut.records, state.state.batch, began_s, self._now_s())
        self._hook("logged", "")

    def _selected(
        self, topics: Mapping[str, LogRange]
    ) -> tuple[dict[str, LogRange], dict[str, str]]:
        """What the configuration wants, and the topics that it leaves out."""
        wanted, left_out = {}, {}
        for topic, found in topics.items():
            table = self._config.topics.table_of(topic)
            if table is None or self._config.tables.selects(table):
                wanted[topic] = found
            else:
                left_out[topic] = EXCLUDED
        return wanted, left_out

    def _left_out(self, topics: dict[str, LogRange]) -> dict[str, str]:
        """Take what Kafka no longer has out of a cut, and tell why."""
        lost = self._check.gone({topic: of.partitions for topic, of in topics.items()})
        for topic, error in lost.items():
            del topics[topic]
            _log.error("changes_lost", topic=topic, reason=str(error))
        return {topic: str(error) for topic, error in lost.items()}

    def _write(
        self, state: LogState, records: Iterable[ProgressRecord], topics: Mapping[str, LogRange]
    ) -> bool:
        """Append; whether it was written (see ``LogTable.append``)."""
        count = sum(of.count for of in topics.values())
        size = sum(of.bytes for of in topics.values())
        is_small = fits_driver(self._config, count, size)
        session = self._small if is_small else self._large
        # Beside the tables' jobs, not behind them; of this thread only.
        session.sparkContext.setLocalProperty("spark.scheduler.pool", "log")
        day = dt.datetime.fromtimestamp(self._now_s(), dt.UTC).date()
        try:
            events = self._events(session, topics, is_small=is_small) if topics else None
            kept = _NOTHING_NEW if events is None else None
            if is_small and events is not None and size <= _IN_MEMORY_BYTES:
                events = kept = events.coalesce(1).toArrow()
            is_written = self._log.append(
                session,
                state,
                list(records),
                self._config.topics.progress,
                events,
                day,
                one_file=is_small,
            )
        except (PySparkException, Py4JError) as error:
            raise translated("appending to the log", error) from error
        if is_written:
            # A start has what an earlier release, or nobody, began: that is in the log only.
            kept = None if state.is_start else kept
            self._log.recent.keep(self.state.batch, state.state.batch, kept)
        return is_written

    def _events(
        self, session: SparkSession, topics: Mapping[str, LogRange], *, is_small: bool
    ) -> DataFrame:
        partitions = {topic: of.partitions for topic, of in topics.items()}
        cores = None if is_small else session.sparkContext.defaultParallelism
        known = {schema_id for of in topics.values() for schema_id in of.schema_ids}
        messages = read_messages(session, self._config.kafka, partitions, cores)
        return messages.selectExpr("*", f"{schema_id_sql(known)} AS schema_id")


def _as_waiting(error: SinkError) -> SinkError:
    """Nothing is gone: whatever Spark calls it, waiting helps."""
    return error if error.retryable else KafkaUnavailable(str(error))


def _nothing(_of: object) -> None:
    """Nobody listens."""
