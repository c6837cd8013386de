"""Who has the log: a sink's start is a state row of the next epoch, and the newest one counts."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

import structlog

from tailrace_sink.errors import KafkaUnavailable, LakeTaken, SinkError
from tailrace_sink.intake.cut_topics import CutTopics
from tailrace_sink.intake.log_appends import LogAppends
from tailrace_sink.log.sink_parts import SinkParts
from tailrace_sink.plan.cut_plan import LogRange, Named
from tailrace_sink.plan.log_state import LogState
from tailrace_sink.plan.progress_record import Loss
from tailrace_sink.plan.sink_state import SinkState

_EPOCH_ATTEMPTS: Final = 5

_log = structlog.get_logger("tailrace.sink")


class LogOwner:
    """Takes the log over, and tells whether it is still this sink's.

    Args:
        parts: of the sink.
        appends: writes the rows.
        topics: knows what Kafka no longer has.
    """

    def __init__(self, parts: SinkParts, appends: LogAppends, topics: CutTopics) -> None:
        self._config = parts.config
        self._log = parts.log
        self._appends = appends
        self._topics = topics
        self._owner = uuid.uuid4().hex

    @property
    def nothing_yet(self) -> LogState:
        """Where a log stands that was not taken over."""
        return LogState(SinkState(), 0, self._owner)

    def take_over(self, of_tables: Callable[[], SinkState]) -> LogState:
        """Write a state row of the next epoch: whoever had the one before can write no more.

        Of two sinks that take the same epoch Delta lets one write. So whoever wrote, and finds the
        log's mark as it wrote it, has the log: nobody wrote after it.

        Args:
            of_tables: where the log of a lake begins that has none.

        Returns:
            Where the log stands.

        Raises:
            LakeTaken: others were faster each time.
            SinkError: the log cannot be read.
        """
        for _ in range(_EPOCH_ATTEMPTS):
            known = self._log.last()
            if known is None:
                written = self._begin(of_tables())
            else:
                written = self._write_start(replace(known, epoch=known.epoch + 1), {})
            if written is not None and self._log.mark() == written.mark:
                return written
        raise LakeTaken(self._config.lake, 0, 0)

    def _begin(self, state: SinkState) -> LogState | None:
        """The first row of a new log, with what an earlier release left waiting in the topics."""
        waiting = {
            topic: LogRange(dict(held.partitions), held.count, set(held.schema_ids), held.bytes)
            for topic, held in state.held.items()
        }
        self._topics.take_out_gone(waiting)
        named: dict[int, frozenset[str]] = {}
        for topic, held in state.held.items():
            named[held.shard] = named.get(held.shard, frozenset()) | {topic}
        positions = replace(state, held={}, stopped={}, offsets={}, versions={})
        return self._write_start(LogState(positions, 1, self._owner, named), waiting)

    def begin_late(self, last: LogState, state: SinkState, named: Named) -> LogState:
        """Go on behind what the progress topic no longer has.

        Args:
            last: where the log stood.
            state: where it goes on, and the tables with it.
            named: topics of tables that are not part of the cut, by shard.

        Returns:
            Where the log stands.

        Raises:
            LakeTaken: another sink has started since.
            SinkError: the log cannot be written.
        """
        positions = replace(state, held={}, stopped={}, offsets={}, versions={})
        lost = {**dict.fromkeys(state.held, "its snapshot had begun before"), **state.stopped}
        lost_all = {topic: Loss(reason) for topic, reason in lost.items()}
        self._write_start(replace(last, state=positions, named=named), {}, lost_all, last)
        return self.look_again(last)

    def _write_start(
        self,
        state: LogState,
        topics: Mapping[str, LogRange],
        lost: Mapping[str, Loss] | None = None,
        before: LogState | None = None,
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
        batch = (before or self.nothing_yet).state.batch
        try:
            return start if self._appends.append(batch, start, (), topics) else None
        except SinkError as error:
            # Another sink that starts at the same time, most likely: see who came first.
            _log.info("log_epoch_refused", epoch=start.epoch, reason=str(error))
            if isinstance(error, KafkaUnavailable):
                raise
            return None

    def look_again(self, last: LogState) -> LogState:
        """See where the log stands.

        Args:
            last: where it stood.

        Raises:
            LakeTaken: another sink has started since.
        """
        found = self._log.last()
        if found is None or found.owner != self._owner:
            raise LakeTaken(
                self._config.lake, last.state.batch, -1 if found is None else found.state.batch
            )
        return found
