"""Progress records that are in the log and not in the tables: from memory, else from the log."""

from __future__ import annotations

import threading
from typing import Final

from tailrace_sink.log_table import LogTable
from tailrace_sink.log_writer import Logged
from tailrace_sink.progress_record import ProgressRecord, SchemaById, decode_progress
from tailrace_sink.sink_state import SinkState

_RECORDS_MAX: Final = 20_000
"""Records kept in memory; a fold that is further behind reads them from the log, in slices."""
_SLICE_CUTS: Final = 200


class Feed:
    """What the fold plans from; the log's thread offers, the fold's thread takes.

    Args:
        log: the log's table.
        topic: the progress topic.
        schema_by_id: looks writer schemas up.
    """

    def __init__(self, log: LogTable, topic: str, schema_by_id: SchemaById) -> None:
        self._log = log
        self._topic = topic
        self._schema_by_id = schema_by_id
        self._lock = threading.Lock()
        self._news = threading.Event()
        self._records: dict[tuple[int, int], ProgressRecord] = {}
        self._through = 0

    def open(self, state: SinkState) -> None:
        """Begin behind what the tables have."""
        with self._lock:
            self._records.clear()
            # Cuts and batches are numbered alike; of several shards one may be behind the other.
            self._through = state.batch if len(state.shards) < 2 else 0
        self._news.set()

    def offer(self, logged: Logged) -> None:
        """Take the records of a cut that was just appended, if nothing lies before it."""
        with self._lock:
            if logged.before == self._through and len(self._records) < _RECORDS_MAX:
                for record in logged.records:
                    self._records[record.partition, record.offset] = record
                self._through = logged.batch
        self._news.set()

    def wait(self, timeout_s: float) -> None:
        """Wait until something was offered, or the time is over."""
        self._news.wait(timeout_s)
        self._news.clear()

    def records(self) -> list[ProgressRecord]:
        """What is known and not dropped."""
        with self._lock:
            return list(self._records.values())

    def drop_passed(self, state: SinkState) -> None:
        """Forget what the tables have."""
        passed = {shard: position.next_offset for shard, position in state.shards.items()}
        with self._lock:
            self._records = {
                place: record
                for place, record in self._records.items()
                if record.offset >= passed.get(record.progress.shard, 0)
            }

    def more(self) -> bool:
        """Read the next slice from the log; False when there is nothing behind what is known.

        Raises:
            ForeignRecord: the log holds what is no progress record.
        """
        with self._lock:
            through = self._through
        mark = self._log.mark()
        if mark is None or mark.batch <= through:
            return False
        states = self._log.states(through, _SLICE_CUTS)
        if not states:
            return False
        up_to = states[-1].state.batch
        lost = {found.state.batch: found.lost for found in states}
        found = [
            ProgressRecord(
                partition,
                offset,
                decode_progress(value, self._schema_by_id),
                value,
                batch,
                lost.get(batch, {}),
            )
            for batch, partition, offset, value in self._log.progress(self._topic, through, up_to)
        ]
        with self._lock:
            for record in found:
                self._records[record.partition, record.offset] = record
            self._through = max(self._through, up_to)
        return True
