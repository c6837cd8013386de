"""Ownership of the log: each start of a sink writes a state row with the next epoch.

The sink with the newest epoch owns the log.
"""

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
    """Takes the log over, and checks that this sink still owns it."""

    def __init__(self, parts: SinkParts, appends: LogAppends, topics: CutTopics) -> None:
        self._config = parts.config
        self._log = parts.log
        self._appends = appends
        self._topics = topics
        self._owner = uuid.uuid4().hex

    @property
    def nothing_yet(self) -> LogState:
        """State before the log was taken over."""
        return LogState(SinkState(), 0, self._owner)

    def take_over(self, of_tables: Callable[[], SinkState]) -> LogState:
        """Write a state row of the next epoch, after which the previous sink can write no more.

        Delta lets only one of two sinks write the same epoch. A sink that finds the log's mark as
        it wrote it owns the log.

        Args:
            of_tables: state from which the log of a lake without one starts.

        Returns:
            The state of the log.

        Raises:
            LakeTaken: others came first in each attempt.
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
        """Write the first row of a new log, with what an earlier release left in the topics."""
        waiting = {
            topic: LogRange(dict(held.partitions), held.count, set(held.schema_ids), held.bytes)
            for topic, held in state.held.items()
        }
        self._topics.take_out_gone(waiting)
        positions = replace(state, held={}, stopped={}, offsets={}, versions={})
        return self._write_start(
            LogState(positions, 1, self._owner, frozenset(state.held)), waiting
        )

    def begin_late(self, last: LogState, state: SinkState, named: Named) -> LogState:
        """Continue after progress records that were lost.

        Args:
            last: the state before the loss.
            state: from which log and tables continue.
            named: topics of tables that are not part of the cut.

        Returns:
            The state of the log.

        Raises:
            LakeTaken: another sink has started since.
            SinkError: the log cannot be written.
        """
        positions = replace(state, held={}, stopped={}, offsets={}, versions={})
        lost = {**dict.fromkeys(state.held, "its snapshot had started before"), **state.stopped}
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
        """Write the state row of a start.

        Returns:
            The state that was written; None if another sink wrote this epoch first.
        """
        start = replace(
            state,
            owner=self._owner,
            lost=lost or {},
            is_start=True,
            in_kafka={},
            prefix=self._config.prefix,
            deletes=str(self._config.delete_mode),
            bad_records=str(self._config.on_bad_record),
            into=self._config.into,
        )
        batch = (before or self.nothing_yet).state.batch
        try:
            return start if self._appends.append(batch, start, (), topics) else None
        except SinkError as error:
            # Probably another sink starts at the same time: check which one came first.
            _log.info("log_epoch_refused", epoch=start.epoch, reason=str(error))
            if isinstance(error, KafkaUnavailable):
                raise
            return None

    def look_again(self, last: LogState) -> LogState:
        """Read the state of the log again.

        Raises:
            LakeTaken: another sink has started since.
        """
        found = self._log.last()
        if found is None or found.owner != self._owner:
            raise LakeTaken(
                self._config.lake, last.state.batch, -1 if found is None else found.state.batch
            )
        return found
