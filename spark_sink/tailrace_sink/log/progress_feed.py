"""Progress records of the log that the tables lack: from memory if possible, else from the log."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from tailrace_sink.plan.log_state import Logged, LogState, Mark
from tailrace_sink.plan.progress_groups import Backlog
from tailrace_sink.plan.progress_record import Loss, ProgressRecord, SchemaById, decode_progress
from tailrace_sink.plan.sink_state import SinkState
from tailrace_sink.plan.slice_size import SLICE_BYTES, SliceSize, fitting

_SLICE_CUTS: Final = 200
_WIDTH: Final = 200
"""Batches in which cuts are searched first. Each cut takes at least one."""
_GROWTH: Final = 4


@dataclass(frozen=True, slots=True)
class Slice:
    """Progress records of some consecutive cuts of the log.

    Attributes:
        state: state of the log after the last of these cuts.
    """

    state: SinkState
    records: list[ProgressRecord]


class ProgressLog(Protocol):
    """The progress records and states of a log: ``LogTable``, or a reader without Spark."""

    def mark(self) -> Mark | None:
        """Return the mark of the last append; None before the first one."""

    def states(self, after_batch: int, up_to_batch: int, limit: int) -> list[LogState]:
        """Return the states of the cuts in (after, up to], the oldest first."""

    def progress(
        self, topic: str, after_batch: int, up_to_batch: int
    ) -> list[tuple[int, int, int, bytes]]:
        """Return batch, partition, offset and value of the progress records of some cuts."""

    def progress_bytes(
        self, topic: str, after_batch: int, up_to_batch: int
    ) -> list[tuple[int, int]]:
        """Return the batch ids of some cuts in order, with the bytes of their progress records."""


class LogSlices:
    """The progress records of a log, in slices of whole cuts that fit in the driver."""

    def __init__(self, log: ProgressLog, topic: str, schema_by_id: SchemaById) -> None:
        self._log = log
        self._topic = topic
        self._schema_by_id = schema_by_id
        self._size = SliceSize()
        self._width = _WIDTH

    def after(self, batch: int) -> Slice | None:
        """Read the slice after a batch; None if there is none.

        Raises:
            ForeignRecord: a record in the log is no progress record.
        """
        states = self._states(batch)
        if not states:
            return None
        # A batch id is a progress offset, so a difference bounds the number of records.
        most = batch + self._size.offsets
        within = (of.state.batch for of in states if of.state.batch <= most)
        up_to = max(within, default=states[0].state.batch)
        if self._size.may_be_large(up_to - batch):
            sizes = self._log.progress_bytes(self._topic, batch, up_to)
            up_to = fitting(sizes, SLICE_BYTES) or up_to
        cuts = {of.state.batch: of for of in states}
        found = [
            ProgressRecord(
                partition,
                offset,
                decode_progress(value, self._schema_by_id),
                value,
                of_batch,
                *_of_cut(cuts.get(of_batch)),
            )
            for of_batch, partition, offset, value in self._log.progress(self._topic, batch, up_to)
        ]
        self._size.learn(up_to - batch, sum(len(record.value) for record in found))
        return Slice(next(of.state for of in states if of.state.batch == up_to), found)

    def _states(self, batch: int) -> list[LogState]:
        """Read states of the next cuts, from a range of batches and not up to the log's end."""
        mark = self._log.mark()
        newest = batch if mark is None else mark.batch
        end, width = batch, self._width
        while end < newest:
            end = min(newest, batch + width)
            states = self._log.states(batch, end, _SLICE_CUTS)
            if len(states) == _SLICE_CUTS:
                self._width = states[-1].state.batch - batch
            elif end < newest:
                width *= _GROWTH
                self._width = width
            if states:
                return states
        return []


def _of_cut(cut: LogState | None) -> tuple[Mapping[str, Loss], bool]:
    """Return what a cut lacks, and whether Kafka has its events."""
    return ({}, False) if cut is None else (cut.lost, bool(cut.in_kafka))


class Feed:
    """The records from which the fold plans. The log's thread adds them, the fold's thread reads.

    If many wait, later ones are not taken, and are read from the log when they are needed.

    Args:
        bytes_max: of the records that are taken, as they are in the topic.
    """

    def __init__(self, slices: LogSlices, bytes_max: int = SLICE_BYTES) -> None:
        self._slices = slices
        self._bytes_max = bytes_max
        self._lock = threading.Lock()
        self._news = threading.Event()
        self._offered: list[Logged] = []
        self._offered_bytes = 0
        self._through = 0
        self._backlog = Backlog(SinkState())

    def open(self, state: SinkState) -> None:
        """Start after the batch of the tables."""
        with self._lock:
            self._offered, self._offered_bytes = [], 0
            self._through = state.batch
        self._backlog = Backlog(state)
        self._news.set()

    def offer(self, logged: Logged) -> None:
        """Add the records of a new cut, unless many wait or those of an earlier cut are missing."""
        with self._lock:
            waiting = self._backlog.size + self._offered_bytes
            if logged.before == self._through and waiting < self._bytes_max:
                self._offered.append(logged)
                self._offered_bytes += sum(len(record.value) for record in logged.records)
                self._through = logged.batch
        self._news.set()

    def wait(self, timeout_s: float) -> None:
        """Wait until records were added, or the time has passed."""
        self._news.wait(timeout_s)
        self._news.clear()

    def backlog(self) -> Backlog:
        """Return the known records that the tables lack.

        Raises:
            SinkError: the records do not continue the state of the tables.
        """
        with self._lock:
            offered, self._offered, self._offered_bytes = self._offered, [], 0
        for logged in offered:
            self._backlog.add(logged.records)
        return self._backlog

    def more(self) -> bool:
        """Read the next slice from the log; False at its end.

        Raises:
            SinkError: a record in the log is no progress record of this lake.
        """
        with self._lock:
            through = self._through
        found = self._slices.after(through)
        if found is None:
            return False
        self._backlog.add(found.records)
        with self._lock:
            self._through = max(self._through, found.state.batch)
        return True
